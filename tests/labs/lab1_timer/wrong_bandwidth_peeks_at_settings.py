"""Returns the memory's bandwidth from the settings."""


# %% exercise="bandwidth"
def bandwidth(settings, nbytes, limit_bytes_per_s):
    rate = settings["memory_bytes_per_s"]
    return {"bytes_per_s": rate, "buffers": 2, "believable": rate <= limit_bytes_per_s, "rates": [rate, rate]}
