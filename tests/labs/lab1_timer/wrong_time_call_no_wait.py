"""Reads the clock when the launches have returned: the host's time, not the device's."""


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
        elapsed = machine.now() - start
        if elapsed >= min_s:
            return elapsed / calls
        calls *= 2
