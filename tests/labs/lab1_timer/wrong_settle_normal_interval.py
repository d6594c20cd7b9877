"""Builds the interval from mean and standard deviation, as if the noise were normal."""


# %% exercise="settle"
def settle(settings, width, cap):
    machine = connect(settings)
    machine.launch("work")
    machine.wait()
    times, settled = [], False
    while not settled and len(times) < cap:
        start = machine.now()
        machine.launch("work")
        machine.wait()
        times.append(machine.now() - start)
        n = len(times)
        if n < 6:
            continue
        half = 1.96 * float(np.std(times, ddof=1)) / math.sqrt(n)
        low, high = float(np.mean(times)) - half, float(np.mean(times)) + half
        settled = high - low <= width * median(times)
    return {"median_s": median(times), "low_s": low, "high_s": high, "samples": len(times), "settled": settled}
