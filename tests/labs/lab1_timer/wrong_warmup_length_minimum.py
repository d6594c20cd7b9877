"""Takes the fastest sample for the steady time."""


# %% exercise="warmup_length"
def warmup_length(times_s, tolerance=0.1, run=3):
    steady = min(times_s)
    near = [abs(t - steady) <= tolerance * steady for t in times_s]
    for start in range(len(near) - run + 1):
        if all(near[start : start + run]):
            return start
    return len(times_s)
