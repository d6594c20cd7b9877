"""Discards the first sample if it is slow: only compilation counts as warm-up."""


# %% exercise="warmup_length"
def warmup_length(times_s, tolerance=0.1, run=3):
    steady = median(times_s[len(times_s) // 2 :])
    return int(times_s[0] > (1 + tolerance) * steady)
