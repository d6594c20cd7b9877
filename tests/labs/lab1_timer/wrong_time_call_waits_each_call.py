"""Waits after every call of a batch, so launches never overlap with kernels."""


# %% exercise="time_call"
def time_call(settings, min_s):
    machine = connect(settings)
    machine.launch("work")
    machine.wait()
    calls = 1
    while True:
        start = machine.now()
        for _ in range(calls):
            machine.launch("work")
            machine.wait()
        elapsed = machine.now() - start
        if elapsed >= min_s:
            return elapsed / calls
        calls *= 2
