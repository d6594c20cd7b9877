"""Discards three samples, as one always does."""


# %% exercise="warmup_length"
def warmup_length(times_s, tolerance=0.1, run=3):
    return min(3, len(times_s))
