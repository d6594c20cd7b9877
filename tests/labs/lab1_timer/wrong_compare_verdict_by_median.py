"""Names a winner whenever the median is not 1, however wide the band."""


# %% exercise="compare"
def compare(settings, rounds):
    machine = connect(settings)
    for kernel in ("a", "b"):
        machine.launch(kernel)
    machine.wait()
    ratios = []
    for i in range(rounds):
        time_s = {}
        for kernel in ("a", "b") if i % 2 == 0 else ("b", "a"):
            start = machine.now()
            machine.launch(kernel)
            machine.wait()
            time_s[kernel] = machine.now() - start
        ratios.append(time_s["a"] / time_s["b"])
    p20, speedup, p80 = np.percentile(ratios, [20, 50, 80]).tolist()
    faster = "b" if speedup > 1 else "a" if speedup < 1 else "neither"
    return {"speedup": speedup, "p20": p20, "p80": p80, "faster": faster}
