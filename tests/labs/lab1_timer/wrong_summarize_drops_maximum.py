"""Takes the mean of all samples but the largest: one outlier is gone, the second is not."""


# %% exercise="summarize"
def summarize(times_s):
    p20, middle, p80 = np.percentile(times_s, [20, 50, 80]).tolist()
    middle = float(np.mean(sorted(times_s)[:-1])) if len(times_s) > 1 else times_s[0]
    spread = (p80 - p20) / middle
    excess = float(np.mean(times_s)) / middle - 1
    return {"median_s": middle, "p20_s": p20, "p80_s": p80, "spread": spread, "excess": excess, "steady": spread <= 0.1}
