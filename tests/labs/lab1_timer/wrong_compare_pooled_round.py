"""Times a and b of a round in one go and splits by the number of calls."""


# %% exercise="compare"
def compare(settings, rounds):
    machine = connect(settings)
    for kernel in ("a", "b"):
        machine.launch(kernel)
    machine.wait()
    times = {"a": [], "b": []}
    for i in range(rounds):
        kernel = "ab"[i % 2]
        start = machine.now()
        for _ in range(2):
            machine.launch(kernel)
        machine.wait()
        times[kernel].append((machine.now() - start) / 2)
    speedup = median(times["a"]) / median(times["b"] or times["a"])
    return {"speedup": speedup, "p20": speedup, "p80": speedup, "faster": "b" if speedup > 1 else "a"}
