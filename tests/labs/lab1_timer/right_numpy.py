"""Arrays and recursion; returns numpy's numbers instead of Python's."""


# %% exercise="time_call"
def time_call(settings, min_s):
    machine = connect(settings)

    def batch(calls):
        machine.wait()
        start = machine.now()
        for _ in range(calls):
            machine.launch("work")
        machine.wait()
        elapsed = np.float64(machine.now() - start)
        return elapsed / calls if elapsed >= min_s else batch(2 * calls)

    machine.launch("work")
    return batch(1)


# %% exercise="warmup_length"
def warmup_length(times_s, tolerance=0.1, run=3):
    times = np.asarray(times_s)
    steady = np.median(times[times.size // 2 :])
    near = np.abs(times - steady) <= tolerance * steady
    streaks = np.convolve(near, np.ones(run), mode="valid") if times.size >= run else np.zeros(1)
    return np.argmax(streaks == run) if (streaks == run).any() else times.size


# %% exercise="summarize"
def summarize(times_s):
    times = np.array(times_s)
    p20, p80 = np.quantile(times, (0.2, 0.8))
    spread = (p80 - p20) / np.median(times)
    return {
        "steady": spread <= 0.1,
        "excess": times.mean() / np.median(times) - 1,
        "spread": spread,
        "p20_s": p20,
        "p80_s": p80,
        "median_s": np.median(times),
    }


# %% exercise="settle"
def settle(settings, width, cap):
    machine = connect(settings)

    def sample():
        machine.wait()
        start = machine.now()
        machine.launch("work")
        machine.wait()
        return machine.now() - start

    sample()
    times = np.array([])
    while times.size < cap:
        times = np.append(times, sample())
        n = times.size
        ranks = np.array([np.floor(n / 2 - 0.98 * np.sqrt(n)), np.ceil(n / 2 + 1 + 0.98 * np.sqrt(n))])
        low, high = np.sort(times)[np.clip(ranks, 1, n).astype(int) - 1]
        settled = n >= 6 and (high - low) / np.median(times) <= width
        if settled:
            break
    return {"median_s": np.median(times), "low_s": low, "high_s": high, "samples": times.size, "settled": settled}


# %% exercise="compare"
def compare(settings, rounds):
    machine = connect(settings)
    order = ["a", "b", *(["a", "b", "b", "a"] * rounds)[: 2 * rounds]]
    marks = []
    for kernel in order:
        machine.wait()
        marks.append(-machine.now())
        machine.launch(kernel)
        machine.wait()
        marks[-1] += machine.now()
    pairs = np.array(marks[2:]).reshape(rounds, 2)
    pairs[1::2] = pairs[1::2, ::-1]
    ratios = pairs[:, 0] / pairs[:, 1]
    p20, p80 = np.quantile(ratios, (0.2, 0.8))
    winner = {(True, False): "b", (False, True): "a"}.get((bool(p20 > 1), bool(p80 < 1)), "neither")
    return {"faster": winner, "speedup": np.median(ratios), "p20": p20, "p80": p80}


# %% exercise="bandwidth"
def bandwidth(settings, nbytes, limit_bytes_per_s):
    machine = connect(settings)

    def rate(n):
        samples = []
        for i in [*range(n)] * 5:
            machine.wait()
            start = machine.now()
            machine.launch("copy", buffer=i)
            machine.wait()
            samples.append(machine.now() - start)
        return nbytes / np.median(samples[n:])

    rates = [rate(1)]
    for n in (2, 4, 8, 16, 32, 64):
        rates.append(rate(n))
        steady = np.abs(rates[-1] - rates[-2]) <= 0.05 * rates[-2]
        if steady and rates[-1] <= limit_bytes_per_s:
            return {"bytes_per_s": rates[-1], "buffers": n, "believable": True, "rates": rates}
    return {"bytes_per_s": rates[-1], "buffers": 64, "believable": False, "rates": rates}
