"""Divides the medians: samples of different rounds are compared."""


# %% exercise="compare"
def compare(settings, rounds):
    machine = connect(settings)
    for kernel in ("a", "b"):
        machine.launch(kernel)
    machine.wait()
    times = {"a": [], "b": []}
    for i in range(rounds):
        for kernel in ("a", "b") if i % 2 == 0 else ("b", "a"):
            start = machine.now()
            machine.launch(kernel)
            machine.wait()
            times[kernel].append(machine.now() - start)
    ratios = [a / b for a, b in zip(times["a"], times["b"], strict=True)]
    p20, speedup, p80 = np.percentile(ratios, [20, 50, 80]).tolist()
    speedup = median(times["a"]) / median(times["b"])
    faster = "b" if p20 > 1 else "a" if p80 < 1 else "neither"
    return {"speedup": speedup, "p20": p20, "p80": p80, "faster": faster}
