"""Alternates, but a always goes first, so b always meets the hotter chip."""


# %% exercise="compare"
def compare(settings, rounds):
    machine = connect(settings)
    for kernel in ("a", "b"):
        machine.launch(kernel)
    machine.wait()
    ratios = []
    for _ in range(rounds):
        time_s = {}
        for kernel in ("a", "b"):
            start = machine.now()
            machine.launch(kernel)
            machine.wait()
            time_s[kernel] = machine.now() - start
        ratios.append(time_s["a"] / time_s["b"])
    p20, speedup, p80 = np.percentile(ratios, [20, 50, 80]).tolist()
    faster = "b" if p20 > 1 else "a" if p80 < 1 else "neither"
    return {"speedup": speedup, "p20": p20, "p80": p80, "faster": faster}
