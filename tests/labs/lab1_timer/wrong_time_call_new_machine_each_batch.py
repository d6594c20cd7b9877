"""Makes a new machine for every batch, so every batch sees a cold one."""


# %% exercise="time_call"
def time_call(settings, min_s):
    calls = 1
    while True:
        machine = connect(settings)
        machine.launch("work")
        machine.wait()
        start = machine.now()
        for _ in range(calls):
            machine.launch("work")
        machine.wait()
        elapsed = machine.now() - start
        if elapsed >= min_s:
            return elapsed / calls
        calls *= 2
