"""Relates the spread to the mean."""


# %% exercise="summarize"
def summarize(times_s):
    p20, middle, p80 = np.percentile(times_s, [20, 50, 80]).tolist()
    spread = (p80 - p20) / float(np.mean(times_s))
    excess = float(np.mean(times_s)) / middle - 1
    return {"median_s": middle, "p20_s": p20, "p80_s": p80, "spread": spread, "excess": excess, "steady": spread <= 0.1}
