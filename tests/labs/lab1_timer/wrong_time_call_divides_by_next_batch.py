"""Doubles the number of calls before it divides."""


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
        calls *= 2
        if elapsed >= min_s:
            return elapsed / calls
