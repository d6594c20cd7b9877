"""Takes the upper of the two middle samples for the median of an even number."""


# %% exercise="summarize"
def summarize(times_s):
    p20, middle, p80 = np.percentile(times_s, [20, 50, 80]).tolist()
    middle = sorted(times_s)[len(times_s) // 2]
    spread = (p80 - p20) / middle
    excess = float(np.mean(times_s)) / middle - 1
    return {"median_s": middle, "p20_s": p20, "p80_s": p80, "spread": spread, "excess": excess, "steady": spread <= 0.1}
