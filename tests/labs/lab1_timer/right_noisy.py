"""Right, and writes to stderr on the way: a progress bar, a warning."""


# %% exercise="time_call"
def time_call(settings, min_s):
    from tqdm import tqdm

    machine = connect(settings)
    machine.launch("work")
    machine.wait()
    calls = 1
    while True:
        start = machine.now()
        for _ in tqdm(range(calls)):
            machine.launch("work")
        machine.wait()
        elapsed = machine.now() - start
        if elapsed >= min_s:
            return elapsed / calls
        calls *= 2


# %% exercise="summarize"
def summarize(times_s):
    import warnings

    if len(times_s) < 6:
        warnings.warn("few samples")
    p20, middle, p80 = np.percentile(times_s, [20, 50, 80]).tolist()
    spread = (p80 - p20) / middle
    excess = float(np.mean(times_s)) / middle - 1
    return {"median_s": middle, "p20_s": p20, "p80_s": p80, "spread": spread, "excess": excess, "steady": spread <= 0.1}
