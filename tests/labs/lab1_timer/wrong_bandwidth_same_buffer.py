"""Copies the same buffer again and again: the cache answers."""


# %% exercise="bandwidth"
def bandwidth(settings, nbytes, limit_bytes_per_s):
    machine = connect(settings)
    rates, believable, n = [], False, 1
    while True:
        for buffer in range(n):
            machine.launch("copy", buffer=buffer)
        machine.wait()
        times = []
        for _ in range(4 * n):
            start = machine.now()
            machine.launch("copy", buffer=0)
            machine.wait()
            times.append(machine.now() - start)
        rate = nbytes / median(times)
        if rates:
            believable = rate <= limit_bytes_per_s and abs(rate - rates[-1]) <= 0.05 * rates[-1]
        rates.append(rate)
        if believable or n == 64:
            return {"bytes_per_s": rate, "buffers": n, "believable": believable, "rates": rates}
        n *= 2
