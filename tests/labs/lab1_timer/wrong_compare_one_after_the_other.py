"""Times all of a, then all of b: the heat is charged to b."""


# %% exercise="compare"
def compare(settings, rounds):
    machine = connect(settings)
    for kernel in ("a", "b"):
        machine.launch(kernel)
    machine.wait()
    times = {"a": [], "b": []}
    for kernel in ("a", "b"):
        for _ in range(rounds):
            start = machine.now()
            machine.launch(kernel)
            machine.wait()
            times[kernel].append(machine.now() - start)
    ratios = [a / b for a, b in zip(times["a"], times["b"], strict=True)]
    p20, speedup, p80 = np.percentile(ratios, [20, 50, 80]).tolist()
    faster = "b" if p20 > 1 else "a" if p80 < 1 else "neither"
    return {"speedup": speedup, "p20": p20, "p80": p80, "faster": faster}
