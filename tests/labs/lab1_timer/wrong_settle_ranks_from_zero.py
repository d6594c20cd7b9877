"""Uses the ranks, counted from 1, as indices, counted from 0."""


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
        low = ordered[max(1, math.floor(n / 2 - half))]
        high = ordered[min(n - 1, math.ceil(n / 2 + 1 + half))]
        settled = high - low <= width * median(times)
    return {"median_s": median(times), "low_s": low, "high_s": high, "samples": len(times), "settled": settled}
