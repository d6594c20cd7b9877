"""Times a thousand calls, whatever the machine and the clock."""


# %% exercise="time_call"
def time_call(settings, min_s):
    machine = connect(settings)
    machine.launch("work")
    machine.wait()
    start = machine.now()
    for _ in range(1000):
        machine.launch("work")
    machine.wait()
    return (machine.now() - start) / 1000
