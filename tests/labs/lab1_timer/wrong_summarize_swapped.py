"""Swaps p20 and p80: thinks of speed, where the 80th percentile is fast."""


# %% exercise="summarize"
def summarize(times_s):
    p20, middle, p80 = np.percentile(times_s, [80, 50, 20]).tolist()
    spread = (p20 - p80) / middle
    excess = float(np.mean(times_s)) / middle - 1
    return {"median_s": middle, "p20_s": p20, "p80_s": p80, "spread": spread, "excess": excess, "steady": spread <= 0.1}
