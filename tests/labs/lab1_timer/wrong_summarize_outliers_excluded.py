"""Leaves slow samples out of the mean: but whoever runs the code pays for them."""


# %% exercise="summarize"
def summarize(times_s):
    p20, middle, p80 = np.percentile(times_s, [20, 50, 80]).tolist()
    spread = (p80 - p20) / middle
    excess = float(np.mean([t for t in times_s if t <= 2 * middle])) / middle - 1
    return {"median_s": middle, "p20_s": p20, "p80_s": p80, "spread": spread, "excess": excess, "steady": spread <= 0.1}
