"""Stops at the first sample that is near: a lucky call ends the warm-up."""


# %% exercise="warmup_length"
def warmup_length(times_s, tolerance=0.1, run=3):
    steady = median(times_s[len(times_s) // 2 :])
    for i, t in enumerate(times_s):
        if abs(t - steady) <= tolerance * steady:
            return i
    return len(times_s)
