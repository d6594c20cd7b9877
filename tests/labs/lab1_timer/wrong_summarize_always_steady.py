"""Compares the spread in seconds with 0.1: every fast kernel looks steady."""


# %% exercise="summarize"
def summarize(times_s):
    p20, middle, p80 = np.percentile(times_s, [20, 50, 80]).tolist()
    spread = (p80 - p20) / middle
    excess = float(np.mean(times_s)) / middle - 1
    return {
        "median_s": middle,
        "p20_s": p20,
        "p80_s": p80,
        "spread": spread,
        "excess": excess,
        "steady": p80 - p20 <= 0.1,
    }
