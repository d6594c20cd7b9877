"""Discards everything up to the last far sample, hiccups included."""


# %% exercise="warmup_length"
def warmup_length(times_s, tolerance=0.1, run=3):
    steady = median(times_s[len(times_s) // 2 :])
    far = [i for i, t in enumerate(times_s) if abs(t - steady) > tolerance * steady]
    return far[-1] + 1 if far else 0
