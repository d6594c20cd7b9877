"""Starts the clock once, before all batches, and divides by the calls of the last one."""


# %% exercise="time_call"
def time_call(settings, min_s):
    machine = connect(settings)
    machine.launch("work")
    machine.wait()
    calls = 1
    start = machine.now()
    while True:
        for _ in range(calls):
            machine.launch("work")
        machine.wait()
        elapsed = machine.now() - start
        if elapsed >= min_s:
            return elapsed / calls
        calls *= 2
