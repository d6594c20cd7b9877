"""Reads the positions from the samples in the order they came."""


# %% exercise="summarize"
def summarize(times_s):
    def at(q):
        position = q * (len(times_s) - 1)
        low = int(position)
        high = min(low + 1, len(times_s) - 1)
        return times_s[low] + (position - low) * (times_s[high] - times_s[low])

    p20, middle, p80 = at(0.2), at(0.5), at(0.8)
    spread = (p80 - p20) / middle
    excess = float(np.mean(times_s)) / middle - 1
    return {"median_s": middle, "p20_s": p20, "p80_s": p80, "spread": spread, "excess": excess, "steady": spread <= 0.1}
