"""Starts the clock while the untimed call is still in the queue."""


# %% exercise="time_call"
def time_call(settings, min_s):
    machine = connect(settings)
    machine.launch("work")
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
