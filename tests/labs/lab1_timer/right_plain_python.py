"""Plain loops and the standard library only, with helpers of its own."""


# %% exercise="time_call"
def time_batch(machine, calls):
    begin = machine.now()
    for _ in range(calls):
        machine.launch("work")
    machine.wait()
    return machine.now() - begin


def time_call(settings, min_s):
    machine = connect(settings)
    time_batch(machine, 1)
    power = 0
    lasted = time_batch(machine, 1)
    while lasted < min_s:
        power += 1
        lasted = time_batch(machine, 2**power)
    return lasted / 2**power


# %% exercise="warmup_length"
def warmup_length(times_s, tolerance=0.1, run=3):
    late = sorted(times_s[-math.ceil(len(times_s) / 2) :])
    half = len(late) // 2
    steady = late[half] if len(late) % 2 else (late[half - 1] + late[half]) / 2
    in_a_row = 0
    for i, t in enumerate(times_s):
        in_a_row = in_a_row + 1 if steady - tolerance * steady <= t <= steady + tolerance * steady else 0
        if in_a_row == run:
            return i - run + 1
    return len(times_s)


# %% exercise="summarize"
def position(ordered, q):
    exact = q * (len(ordered) - 1) / 100
    left = math.floor(exact)
    if left == len(ordered) - 1:
        return ordered[left]
    return ordered[left] * (left + 1 - exact) + ordered[left + 1] * (exact - left)


def summarize(times_s):
    ordered = sorted(times_s)
    p20, middle, p80 = position(ordered, 20), position(ordered, 50), position(ordered, 80)
    spread = (p80 - p20) / middle
    mean = sum(times_s) / len(times_s)
    answer = {"median_s": middle, "p20_s": p20, "p80_s": p80, "spread": spread, "steady": not spread > 0.1}
    answer["excess"] = (mean - middle) / middle
    return answer


# %% exercise="settle"
def settle(settings, width, cap):
    def result(ordered):
        n = len(ordered)
        a = max(1, int(n / 2 - 0.98 * n**0.5))
        b = min(n, -int((-n / 2 - 1 - 0.98 * n**0.5) // 1))
        middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
        low, high = ordered[a - 1], ordered[b - 1]
        return {"median_s": middle, "low_s": low, "high_s": high, "samples": n, "settled": high - low <= width * middle}

    machine, ordered = connect(settings), []
    for call in range(cap + 1):
        begin = machine.now()
        machine.launch("work")
        machine.wait()
        if call > 0:
            ordered = sorted([*ordered, machine.now() - begin])
        if call >= 6 and result(ordered)["settled"]:
            break
    return result(ordered)


# %% exercise="compare"
def compare(settings, rounds):
    machine = connect(settings)

    def sample(kernel):
        begin = machine.now()
        machine.launch(kernel)
        machine.wait()
        return machine.now() - begin

    sample("a"), sample("b")
    ratios = []
    for i in range(rounds):
        if i % 2:
            b = sample("b")
            a = sample("a")
        else:
            a = sample("a")
            b = sample("b")
        ratios.append(a / b)
    ratios.sort()

    def percentile(q):
        where = q * (rounds - 1)
        i = int(where)
        j = min(i + 1, rounds - 1)
        return ratios[i] + (where - i) * (ratios[j] - ratios[i])

    answer = {"speedup": percentile(0.5), "p20": percentile(0.2), "p80": percentile(0.8), "faster": "neither"}
    if answer["p20"] > 1:
        answer["faster"] = "b"
    elif answer["p80"] < 1:
        answer["faster"] = "a"
    return answer


# %% exercise="bandwidth"
def bandwidth(settings, nbytes, limit_bytes_per_s):
    machine, rates = connect(settings), []
    for power in range(7):
        buffers, times = 2**power, []
        for call in range(5 * buffers):
            begin = machine.now()
            machine.launch("copy", buffer=call % buffers)
            machine.wait()
            if call >= buffers:
                times.append(machine.now() - begin)
        times.sort()
        rates.append(nbytes / ((times[2 * buffers - 1] + times[2 * buffers]) / 2))
        good = power > 0 and rates[power] <= limit_bytes_per_s and abs(rates[power] / rates[power - 1] - 1) <= 0.05
        if good:
            break
    return {"bytes_per_s": rates[-1], "buffers": buffers, "believable": good, "rates": rates}
