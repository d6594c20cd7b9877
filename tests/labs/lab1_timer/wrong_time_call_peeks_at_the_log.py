"""Reads the device's durations from the machine's log instead of timing."""


# %% exercise="time_call"
def time_call(settings, min_s):
    machine = connect(settings)
    machine.launch("work")
    calls = 1
    while sum(machine.durations_s()[-calls:]) < min_s:
        calls *= 2
        for _ in range(calls):
            machine.launch("work")
    return sum(machine.durations_s()[-calls:]) / calls
