"""Takes the band from p20 to p80 for the interval: it never shrinks, however many samples."""


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
        low, high = np.percentile(times, [20, 80]).tolist()
        settled = high - low <= width * median(times)
    return {"median_s": median(times), "low_s": low, "high_s": high, "samples": len(times), "settled": settled}
