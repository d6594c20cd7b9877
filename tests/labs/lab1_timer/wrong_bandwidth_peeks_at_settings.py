"""Returns the memory's bandwidth from the settings."""


# %% exercise="bandwidth"
def bandwidth(settings, nbytes, limit_bytes_per_s):
    rate = 1e9 * settings["memory_bytes_per_ns"]
    return {"bytes_per_s": rate, "buffers": 2, "believable": rate <= limit_bytes_per_s, "rates": [rate, rate]}
