"""Averages the rates of the samples."""


# %% exercise="bandwidth"
def bandwidth(settings, nbytes, limit_bytes_per_s):
    machine = connect(settings)
    rates, believable, n = [], False, 1
    while True:
        for buffer in range(n):
            machine.launch("copy", buffer=buffer)
        machine.wait()
        times = []
        for i in range(4 * n):
            start = machine.now()
            machine.launch("copy", buffer=i % n)
            machine.wait()
            times.append(machine.now() - start)
        rate = sum(nbytes / t for t in times) / len(times)
        if rates:
            believable = rate <= limit_bytes_per_s and abs(rate - rates[-1]) <= 0.05 * rates[-1]
        rates.append(rate)
        if believable or n == 64:
            return {"bytes_per_s": rate, "buffers": n, "believable": believable, "rates": rates}
        n *= 2
