"""Reports the mean of the samples with the interval of the median."""


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
        ordered, half = sorted(times), 0.98 * math.sqrt(n)
        low = ordered[max(1, math.floor(n / 2 - half)) - 1]
        high = ordered[min(n, math.ceil(n / 2 + 1 + half)) - 1]
        settled = high - low <= width * median(times)
    return {
        "median_s": sum(times) / len(times),
        "low_s": low,
        "high_s": high,
        "samples": len(times),
        "settled": settled,
    }
