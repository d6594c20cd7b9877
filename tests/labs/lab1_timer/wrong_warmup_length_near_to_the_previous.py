"""Compares each sample with the one before it, not with the steady state."""


# %% exercise="warmup_length"
def warmup_length(times_s, tolerance=0.1, run=3):
    for i in range(1, len(times_s) - run + 1):
        if all(abs(times_s[j] - times_s[j - 1]) <= tolerance * times_s[j - 1] for j in range(i, i + run)):
            return i
    return len(times_s)
