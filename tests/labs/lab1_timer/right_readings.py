"""Reads the clock once between two samples, and asks more often than it must whether the queue is empty."""


# %% exercise="time_call"
def time_call(settings, min_s):
    machine = connect(settings)
    marks = []
    calls = 1
    machine.launch("work")
    machine.wait()
    marks.append(machine.now())
    while len(marks) < 2 or marks[-1] - marks[-2] < min_s:
        if len(marks) > 1:
            calls += calls
        for _ in range(calls):
            machine.launch("work")
        machine.wait()
        marks.append(machine.now())
    return (marks[-1] - marks[-2]) / calls


# %% exercise="warmup_length"
def warmup_length(times_s, tolerance=0.1, run=3):
    n = len(times_s)
    steady = median(times_s[n - (n + 1) // 2 :])
    far = [i for i, t in enumerate(times_s) if abs(t / steady - 1) > tolerance]
    # A run fits into each gap between two far samples that is wide enough.
    for before, after in zip([-1, *far], [*far, n], strict=True):
        if after - before - 1 >= run:
            return before + 1
    return n


# %% exercise="settle"
def settle(settings, width, cap):
    from bisect import insort

    machine = connect(settings)
    machine.launch("work")
    machine.wait()
    ordered, mark = [], machine.now()
    while True:
        machine.launch("work")
        machine.wait()
        mark, before = machine.now(), mark
        insort(ordered, mark - before)
        n = len(ordered)
        a = max(1, math.floor(n / 2 - 0.98 * math.sqrt(n)))
        b = min(n, math.ceil(n / 2 + 1 + 0.98 * math.sqrt(n)))
        answer = {"median_s": median(ordered), "low_s": ordered[a - 1], "high_s": ordered[b - 1], "samples": n}
        answer["settled"] = n > 5 and answer["high_s"] - answer["low_s"] <= width * answer["median_s"]
        if answer["settled"] or n == cap:
            return answer


# %% exercise="compare"
def compare(settings, rounds):
    from statistics import quantiles

    machine = connect(settings)
    machine.launch("a")
    machine.wait()
    machine.launch("b")
    machine.wait()
    ratios = []
    for i in range(rounds):
        first, second = "ab" if i % 2 == 0 else "ba"
        marks = [machine.now()]
        for kernel in (first, second):
            machine.launch(kernel)
            machine.wait()
            marks.append(machine.now())
        ratio = (marks[1] - marks[0]) / (marks[2] - marks[1])
        ratios.append(ratio if first == "a" else 1 / ratio)
    fifths = quantiles(ratios, n=5, method="inclusive") if rounds > 1 else ratios * 4
    p20, p80 = fifths[0], fifths[3]
    return {
        "speedup": median(ratios), "p20": p20, "p80": p80,
        "faster": "b" if p20 > 1 else "neither" if p80 >= 1 else "a",
    }  # fmt: skip
