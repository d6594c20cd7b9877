"""Computes the time from the settings instead of measuring it."""


# %% exercise="time_call"
def time_call(settings, min_s):
    kernel, launch, wait_ns = (
        settings["kernels"]["work"],
        settings.get("launch_ns", 5000),
        settings.get("wait_ns", 3000),
    )
    calls = 1
    while (launch + calls * max(kernel, launch) + wait_ns) / 1e9 < min_s:
        calls *= 2
    return (launch + calls * max(kernel, launch) + wait_ns) / calls / 1e9
