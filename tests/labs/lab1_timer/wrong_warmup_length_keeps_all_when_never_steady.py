"""Keeps all samples when there is no steady state."""


# %% exercise="warmup_length"
def warmup_length(times_s, tolerance=0.1, run=3):
    steady = median(times_s[len(times_s) // 2 :])
    near = [abs(t - steady) <= tolerance * steady for t in times_s]
    for start in range(len(near) - run + 1):
        if all(near[start : start + run]):
            return start
    return 0
