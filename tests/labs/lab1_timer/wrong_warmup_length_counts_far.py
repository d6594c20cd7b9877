"""Counts every sample that is far, hiccups long after the warm-up included."""


# %% exercise="warmup_length"
def warmup_length(times_s, tolerance=0.1, run=3):
    steady = median(times_s[len(times_s) // 2 :])
    return sum(abs(t - steady) > tolerance * steady for t in times_s)
