"""Times one call and ignores that the clock may be too coarse for it."""


# %% exercise="time_call"
def time_call(settings, min_s):
    machine = connect(settings)
    machine.launch("work")
    machine.wait()
    start = machine.now()
    machine.launch("work")
    machine.wait()
    return machine.now() - start
