"""Times the first call too, with the compilation in it."""


# %% exercise="time_call"
def time_call(settings, min_s):
    machine = connect(settings)
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
