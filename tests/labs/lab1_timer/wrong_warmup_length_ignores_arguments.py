"""Uses 0.1 and 3 whatever it is told."""


# %% exercise="warmup_length"
def warmup_length(times_s, tolerance=0.1, run=3):
    tolerance, run = 0.1, 3
    steady = median(times_s[len(times_s) // 2 :])
    near = [abs(t - steady) <= tolerance * steady for t in times_s]
    for start in range(len(near) - run + 1):
        if all(near[start : start + run]):
            return start
    return len(times_s)
