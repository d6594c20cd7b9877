# %% [markdown]
# # Lab 1: A timer that a sceptic believes
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({{ colab_url }})
#
# *How long does this take?* sounds like the easiest question of the course. In this lab we answer it on a machine
# that we built ourselves: a host, a device with a queue, and a clock that moves only when the two work. The machine
# deceives a careless timer in the ways in which real machines do. But here we know the truth, so we can watch each
# trap bite.
#
# At the end you can
#
# * say whether a reading of the clock belongs to the host or to the device;
# * discard warm-up, summarize samples and stop sampling by rules that you can write down;
# * compare two candidates on a machine that drifts;
# * reject a measurement because it cannot be true.
#
# You write six functions and answer one question. Allow two hours. Below each function stands a check that tells you
# what it expected and what it found. After you hand in, further checks run your functions on machines with other
# settings.
#
# | exercise | you write | difficulty | points |
# |---|---|---|---|
# | 1. Wait for the device | `time_call` | 1 of 3 | 3 |
# | 2. Discard the warm-up | `warmup_length` | 2 of 3 | 3 |
# | 3. Summarize | `summarize` | 1 of 3 | 3 |
# | 4. Settle, or say that you did not | `settle` | 3 of 3 | 4 |
# | 5. Interleave the candidates | `compare` | 2 of 3 | 3 |
# | 6. Bound by sense | `bandwidth` | 3 of 3 | 4 |
# | 7. A colleague's benchmark | an answer in words | 2 of 3 | 5 |

# %%
import sys

if "google.colab" in sys.modules:
    # %pip install -q "rooflab @ {{ install_url }}"
    print("rooflab is installed.")

# %% [markdown]
# ## The machine
#
# A machine is described by its *settings*, a dictionary. Times in it are whole nanoseconds; what is left out has a
# usual value (a launch costs the host 5 µs, a wait 3 µs). To look one up, run `from rooflab.simulate import Settings`
# and `help(Settings)`. `connect` makes the machine. It has three calls:
#
# * `machine.launch(kernel)` puts a kernel into the device's queue and returns;
# * `machine.wait()` returns when the queue is empty;
# * `machine.now()` reads the host's clock, in seconds. Reading costs no time.
#
# Your functions take settings and return numbers. So the checks can run them on machines that you have never seen,
# and you can run them on the real device at the end.

# %%
import math
import time
from statistics import median

import numpy as np

from rooflab import check, clocks, find_device, measure, plots, size
from rooflab.session import show_device
from rooflab.simulate import FakeMachine

check.session("s1_measurement/lab1_timer")
GB_PER_S = 1e9
MACHINES = {"fake": FakeMachine}


def connect(settings):
    """Return the machine that the settings describe, with an empty queue; a fake one unless they say otherwise."""
    others = {name: value for name, value in settings.items() if name != "machine"}
    return MACHINES[settings.get("machine", "fake")](**others)


# %% [markdown]
# ## 1. Wait for the device
#
# Three launches of a kernel that takes 40 µs. We read the clock twice: right after the launches, and again after a
# wait. Before you run the cell: what does the first reading say?

# %% tags=["demo"]
machine = connect({"kernels": {"work": 40_000}})
for _ in range(3):
    machine.launch("work")
early_s = machine.now()
machine.wait()
late_s = machine.now()
print(f"per call, without a wait: {early_s / 3 * 1e6:5.1f} µs\nper call, with a wait:    {late_s / 3 * 1e6:5.1f} µs")

# %% [markdown]
# The first number is no time of the kernel. It is the time that the host needs to *ask* for the kernel. The machine
# keeps a log of what happened, and the log shows why.

# %% tags=["demo"]
launches = [event for event in machine.log if event[0] == "launch"]
alt = "Timeline of three short launches on the host and then three long kernels on the device, one after the other."
with plots.figure(
    "The launches return long before the kernels have run", x="time (µs)", alt=alt, size=(7.2, 2.4)
) as ax:
    for i, (_, host_ns, _, _, start_ns, end_ns) in enumerate(launches):
        ax.barh("host", 5, left=host_ns / 1e3 - 5, color="#555555", edgecolor="white")
        ax.barh("device", (end_ns - start_ns) / 1e3, left=start_ns / 1e3, color="#7fb3d5", edgecolor="white")
        ax.text((start_ns + end_ns) / 2e3, "device", f"kernel {i}", ha="center", va="center")
    for read_s, name, side in ((early_s, "read too early", "left"), (late_s, "read after the wait", "right")):
        ax.axvline(read_s * 1e6, color="#D55E00", linestyle="--")
        ax.text(read_s * 1e6, 0.5, f" {name} ", ha=side, va="center", color="#D55E00")

# %% [markdown]
# The second trap sits in the clock itself. Clocks move in steps, and some steps are longer than the kernel. We time
# batches of calls, each with one wait at its end, on a clock with a step of 100 µs.

# %% tags=["demo"]
print("calls   lasts (µs)   per call (µs)")
for calls in (1, 4, 16, 64, 256, 1024):
    machine = connect({"kernels": {"work": 40_000}, "resolution_ns": 100_000})
    for _ in range(calls):
        machine.launch("work")
    machine.wait()
    print(f"{calls:5}   {machine.now() * 1e6:10.0f}   {machine.now() / calls * 1e6:13.2f}")

# %% [markdown]
# A batch of $k$ calls that lasts $T$ is off by at most one step $\delta$, so the time per call is off by at most
# $\delta / k$. As a share of the result that is $\delta / T$: to be right to one percent, time a batch that lasts a
# hundred steps. A large batch also spreads the cost of the wait over its calls.
#
# But how many calls make a batch that long? We do not know before we have timed the kernel. So we double the batch
# until it lasts.
#
# <details><summary>Hint: my result is too large, by about one kernel</summary>
#
# The untimed call is still in the queue when you read the clock for the first time. Who empties the queue?
#
# </details>
# <details><summary>Hint: the structure</summary>
#
# An outer loop over batch sizes, an inner loop over the launches of one batch. The clock is read outside the inner
# loop, and so is the wait.
#
# </details>


# %% exercise="time_call"
def time_call(settings, min_s):
    """Return the seconds per call of the kernel "work". Difficulty 1 of 3.

    1. Make one untimed call: a first call may compile.
    2. Time a batch of 1 call, then batches of 2, 4, 8, ... calls. When a batch begins, nothing is queued. It ends when
       its last kernel has finished. There is one wait at its end, none between its calls.
    3. The first batch that lasts at least ``min_s`` seconds decides: return its time divided by its number of calls.

    All of it happens on one machine, ``connect(settings)``.
    """
    ### BEGIN SOLUTION
    machine = connect(settings)
    machine.launch("work")
    machine.wait()
    calls = 1
    while True:
        start = machine.now()
        for _ in range(calls):
            machine.launch("work")
        machine.wait()
        elapsed = machine.now() - start
        if elapsed >= min_s:
            return elapsed / calls
        calls *= 2
    ### END SOLUTION


# %% check="time_call" points=1
with check.exercise("time_call"):
    quick = {"kernels": {"work": 50_000}, "launch_ns": 4_000, "wait_ns": 6_000}
    check.close(
        time_call({**quick, "compile_ns": 20_000_000}, 0.0), 4e-6 + 50e-6 + 6e-6, rtol=1e-9, unit="s",
        what="a batch of one call",
        hint="Far too large: the first call compiles. Too large by a kernel: it was still queued when the batch began. "
        "Too small: you read the clock before the device had finished.",
    )  # fmt: skip
    check.close(
        time_call(quick, 1e-3), (4e-6 + 32 * 50e-6 + 6e-6) / 32, rtol=1e-9, unit="s",
        what="the first batch of a millisecond",
        hint="A batch has one wait, after its last launch; its time is divided by its own calls, not by all so far.",
    )  # fmt: skip
    check.close(
        time_call({**quick, "resolution_ns": 100_000}, 10e-3), 50e-6, rtol=0.01, unit="s", what="a coarse clock",
        hint="One call is shorter than a step of this clock. Does your batch grow until it lasts min_s?",
    )  # fmt: skip

# %% hidden="time_call" points=1
from copy import deepcopy

from rooflab.simulate import FakeMachine


def _batches(settings, min_s):
    machine, calls, elapsed = FakeMachine(**settings), 1, -1.0
    machine.launch("work")
    machine.wait()
    while True:
        start = machine.now()
        for _ in range(calls):
            machine.launch("work")
        machine.wait()
        elapsed = machine.now() - start
        if elapsed >= min_s:
            return elapsed / calls
        calls *= 2


draw = check.draw()
for min_s in (0.0, 0.7e-3, 3e-3):
    fresh = {
        "kernels": {"work": draw.randrange(20_000, 90_000)}, "launch_ns": draw.randrange(3_000, 9_000),
        "wait_ns": draw.randrange(2_000, 8_000), "compile_ns": draw.randrange(10**6, 10**8), "jitter": 0.2,
        "drift_per_call": 1e-3, "seed": draw.randrange(10**6),
    }  # fmt: skip
    expected = _batches(fresh, min_s)
    check.close(time_call(deepcopy(fresh), min_s), expected, rtol=1e-9, unit="s", what=f"fresh machine, {min_s=}",
                hint=f"Noise and drift belong to the answer; the settings do not hold it: {fresh}")  # fmt: skip

# %% hidden="time_call" points=1
draw = check.draw()
short = {"kernels": {"work": draw.randrange(500, 1500)}, "launch_ns": draw.randrange(4_000, 6_000), "wait_ns": 9_000}
check.close(time_call(deepcopy(short), 2e-3), short["launch_ns"] / 1e9, rtol=0.05, unit="s", what="launches bind",
            hint=f"Kernels shorter than their launch run as fast as they are launched: {short}")  # fmt: skip
# 256 calls last 15 to 20 ms, 128 calls do not last 10 ms; a step more or less is less than one percent.
coarse = {
    "kernels": {"work": draw.randrange(43_000, 56_000)}, "jitter": 0.6, "drift_per_call": 4e-4,
    "resolution_ns": 100_000, "seed": draw.randrange(10**6),
}  # fmt: skip
expected = _batches({**coarse, "resolution_ns": 1}, 10e-3)
check.close(time_call(deepcopy(coarse), 10e-3), expected, rtol=0.011, unit="s",
            what="a coarse clock", hint=f"The first batch that lasts min_s decides: {coarse}")  # fmt: skip

# %% [markdown]
# **Takeaway.** Empty the queue before you start the clock and before you stop it, and let a batch last a hundred
# steps of the clock.
#
# ## 2. Discard the warm-up
#
# The first calls are unlike the others. A framework compiles the kernel, a library tries several variants and keeps
# the fastest, caches and pages fill. And not every warm-up is slow: a cold chip runs at a higher clock until it gets
# hot. Here are the first forty calls on three machines.

# %% tags=["demo"]
STARTS = {
    "compiles and tunes": {"compile_ns": 300_000, "tune_factors": [3, 2.2, 1.01, 2.8, 1.9, 1.6], "seed": 1},
    "cold chip": {"drift_per_call": 0.03, "drift_limit": 1.5, "seed": 2},
    "warm already": {"hiccup_every": 19, "hiccup_ns": 90_000, "seed": 3},
}


def first_calls(settings, n=40):
    """Return the seconds between the ends of the first n calls, from the log of a machine."""
    machine = connect({"jitter": 0.08, **settings})
    for _ in range(n):
        machine.launch("work")
        machine.wait()
    return np.diff([0] + [event[1] / 1e9 for event in machine.log if event[0] == "wait"]).tolist()


title = "No constant number of calls is the warm-up of every machine"
alt = "Forty calls on three machines: the first calls are slow on one, fast on the second, like all others on the last."
with plots.figure(title, x="call", alt=alt, size=(8.4, 3.2), columns=3) as axes:
    for ax, (name, settings) in zip(axes, STARTS.items(), strict=True):
        ax.plot([1e6 * t for t in first_calls(settings)], "o", markersize=3.5, color="#0072B2")
        ax.axvline(2.5, color="#D55E00", linestyle="--")
        ax.set(title=name, yscale="log", ylim=(90, 800))
        ax.set_yticks([100, 200, 400, 800], ["100", "200", "400", "800"])
        ax.minorticks_off()
    axes[0].set_ylabel("time of the call (µs)")
    axes[0].text(3.5, 700, "discard three", color="#D55E00", va="top")

# %% [markdown]
# "Discard the first three" keeps warm-up on two of the machines and throws good samples away on the third. We need a
# rule that looks at the samples. It has to survive two accidents that you see in the figure: one *lucky* call in the
# middle of the warm-up (tuning tried the best variant, then went on to try worse ones), and one *unlucky* call long
# after it (a hiccup).
#
# Our rule takes the second half of the samples as the steady state, and asks when the samples join it: not when the
# first one comes near, but when several in a row do.
#
# <details><summary>Hint: why the median of the last half?</summary>
#
# The last sample may be a hiccup, the smallest a lucky call, and each of them moves the mean. The median of the last
# half is right as long as the warm-up is over by then.
#
# </details>


# %% exercise="warmup_length"
def warmup_length(times_s, tolerance=0.1, run=3):
    """Return how many samples at the start of the list (of one or more) are warm-up. Difficulty 2 of 3.

    * The steady time is the median of the last half of the samples (of five samples: the last three).
    * A sample is near when it differs from the steady time, up or down, by at most ``tolerance`` times the steady time.
    * The warm-up ends where ``run`` samples in a row are near, for the first time: return the index of the first of
      those samples.
    * If that never happens there is nothing to keep: return the number of samples.
    """
    ### BEGIN SOLUTION
    steady = median(times_s[len(times_s) // 2 :])
    near = [abs(t - steady) <= tolerance * steady for t in times_s]
    for start in range(len(near) - run + 1):
        if all(near[start : start + run]):
            return start
    return len(times_s)
    ### END SOLUTION


# %% check="warmup_length" points=1
with check.exercise("warmup_length"):
    tuned = [90.0, 3.0, 1.02, 2.5, 1.3, 1.0, 1.01, 0.99, 1.0, 1.02, 1.0, 7.0]
    check.equal(warmup_length(tuned), 5, what="slow, then steady",
                hint="One near sample (index 2) is luck: three in a row count. A late hiccup does not.")  # fmt: skip
    check.equal(warmup_length([0.6, 0.7, 0.8, 0.88, 0.95, 1.0, 1.01, 0.99, 1.0, 1.0]), 4, what="fast, then steady",
                hint="A cold chip is faster: near means near from both sides.")  # fmt: skip
    check.equal(warmup_length([1.0, 1.0, 1.01, 1.0, 0.99, 1.0]), 0, what="no warm-up at all",
                hint="A rule, not a constant: here every sample is good.")  # fmt: skip
    check.equal(warmup_length([3.0, 1.0, 1.01]), 3, what="two near samples at the end",
                hint="Two samples are no run of three, also where the list ends.")  # fmt: skip
    check.equal(warmup_length([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), 7, what="never steady",
                hint="No three samples in a row are near, so all seven have to go.")  # fmt: skip

# %% hidden="warmup_length" points=1
from statistics import median as _median


def _joins(times_s, tolerance, run):
    steady, streak = _median(times_s[-((len(times_s) + 1) // 2) :]), 0
    for i, t in enumerate(times_s):
        streak = streak + 1 if abs(t - steady) <= tolerance * steady else 0
        if streak == run:
            return i + 1 - run
    return len(times_s)


draw = check.draw()
for slow, lucky in ((4, True), (9, True), (0, False), (19, False), (draw.randrange(1, 12), False)):
    times = [draw.uniform(1.3, 4.0) for _ in range(slow)] + [draw.uniform(0.97, 1.05) for _ in range(20)]
    if lucky:
        times[1:3] = [1.0, 1.01]
    times[-1], times[-4] = 9.0, 5.0
    times = [float(f"{1e-4 * t:.4g}") for t in times]
    check.equal(warmup_length(list(times)), _joins(times, 0.1, 3), what="slow at the start",
                hint=f"Look for three near ones in a row, from the start: {times}")  # fmt: skip
for rise in (0.01, 0.02, 0.03):
    times = [float(f"{1e-3 * min(0.7 + rise * i, 1.0) * draw.uniform(0.995, 1.005):.4g}") for i in range(70)]
    check.equal(warmup_length(list(times)), _joins(times, 0.1, 3), what="fast at the start",
                hint=f"Near means near from both sides: {times}")  # fmt: skip

# %% hidden="warmup_length" points=1
draw = check.draw()
for tolerance, run in ((0.02, 3), (0.3, 2), (0.05, 6), (0.1, 1)):
    times = [round(1 + 3 * draw.random() * 0.8**i + draw.uniform(0, 0.06), 4) for i in range(draw.randrange(30, 40))]
    check.equal(warmup_length(list(times), tolerance, run), _joins(times, tolerance, run),
                what=f"{tolerance=}, {run=}", hint=f"Not always 0.1 and 3: {times}")  # fmt: skip
times = [draw.choice((1.0, 2.0)) * 1.5**i for i in range(12)]
check.equal(warmup_length(list(times)), _joins(times, 0.1, 3), what="never steady", hint=f"Keep nothing: {times}")
for short, length in (
    ([3.0, 1.0, 1.01], 3), ([1.0, 1.0, 1.0, 2.0, 1.0], 0), ([2.0], 1), ([5.0, 4.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0], 4),
    ([3.0, 1.0, 1.0, 1.0, 1.0, 9.0], 1),
):  # fmt: skip
    check.equal(warmup_length(list(short)), length, what=f"{short}",
                hint="The last half of five samples is three samples. Two samples are no run of three.")  # fmt: skip

# %% [markdown]
# Your rule on the three machines of the figure:

# %% tags=["demo"]
for name, settings in STARTS.items():
    print(f"{name:20} discard {warmup_length(first_calls(settings)):2} of 40 calls")

# %% [markdown]
# **Takeaway.** Warm-up is over when several samples in a row look like the late ones. If none do, the run has no
# steady state, and no number to report.
#
# ## 3. Summarize
#
# The samples that are left still differ. Which single number stands for them? On the machine below, every seventh
# call meets a hiccup (the operating system does something else), and now and then a call is an outlier.

# %% tags=["demo"]
noisy = {"jitter": 0.15, "hiccup_every": 7, "hiccup_ns": 60_000, "outlier_share": 0.01, "outlier_factor": 12, "seed": 4}
machine = connect(noisy)
for _ in range(1000):
    machine.launch("work")
plots.distribution(machine.durations_s(), title="The mean lies where there are hardly any calls", clip=0.985)

# %% [markdown]
# The mean answers a question of its own: a thousand calls take a thousand means, hiccups included. It does not say
# what a call is like, and one outlier moves it by any amount. The median hardly moves. Beside it we report the band
# from the 20th to the 80th percentile, which holds the middle three fifths of the samples. A wide band is a warning:
# something else is going on, and another run may tell another story.
#
# Percentiles of few samples need a rule. We take the usual one: sort the $n$ samples, number them from 0, and read
# the percentile $q$ at position $q (n - 1)$, on the straight line between the two neighbours where the position is no
# whole number. The median is the 50th percentile.


# %% exercise="summarize"
def summarize(times_s):
    """Return what a reader has to know about one or more samples. Difficulty 1 of 3.

    A dictionary:

    * "median_s", "p20_s", "p80_s": the percentiles, by the rule above;
    * "spread": the width of the band from p20 to p80 as a share of the median;
    * "excess": by what share a long run takes longer than the median promises: mean over median, minus 1;
    * "steady": True when the spread is at most 0.1, else False.
    """
    ### BEGIN SOLUTION
    p20, middle, p80 = np.percentile(times_s, [20, 50, 80]).tolist()
    spread = (p80 - p20) / middle
    return {
        "median_s": middle,
        "p20_s": p20,
        "p80_s": p80,
        "spread": spread,
        "excess": float(np.mean(times_s)) / middle - 1,
        "steady": spread <= 0.1,
    }
    ### END SOLUTION


# %% check="summarize" points=1
with check.exercise("summarize"):
    found = summarize([4.0, 1.0, 3.0, 2.0, 15.0, 5.0])
    check.close(found["median_s"], 3.5, rtol=1e-9, what="the median of an even number of samples",
                hint="Sort first. The median of 6 samples is between the two in the middle. No mean here.")  # fmt: skip
    check.close([found["p20_s"], found["p80_s"]], [2.0, 5.0], rtol=1e-9, what="p20 and p80",
                hint="Positions 0.2 * 5 = 1 and 0.8 * 5 = 4 of the sorted samples, counted from 0.")  # fmt: skip
    check.close(found["spread"], 3.0 / 3.5, rtol=1e-9, what="spread", hint="p80 minus p20, over the median.")
    check.close(found["excess"], 5.0 / 3.5 - 1, rtol=1e-9, what="excess",
                hint="The mean of all samples, outliers included: whoever runs the code pays for them.")  # fmt: skip
    check.equal(found["steady"], False, what="steady", hint="A spread above 0.1 is a warning.")


# %% hidden="summarize" points=2
def _percentile(times_s, share):
    ordered, position = sorted(times_s), share * (len(times_s) - 1)
    below = min(int(position + 1e-9), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


draw = check.draw()
for count, noise in ((1, 0.5), (2, 0.5), (9, 0.02), (10, 1.0), (37, 0.04), (200, 0.3)):
    times = [1e-4 * (1 + noise * draw.random() ** 2) for _ in range(count)]
    times[count // 2] *= 10 if count > 2 else 1
    p20, middle, p80 = (_percentile(times, share) for share in (0.2, 0.5, 0.8))
    spread, excess = (p80 - p20) / middle, sum(times) / count / middle - 1
    found, what = summarize(list(times)), f"{count} sample{'s' * (count > 1)}"
    check.close([found["p20_s"], found["median_s"], found["p80_s"]], [p20, middle, p80], rtol=1e-9, what=what,
                hint="Percentiles by position, of any number of samples in any order.")  # fmt: skip
    check.close([found["spread"], found["excess"]], [spread, excess], rtol=1e-6, atol=1e-9, what=what,
                hint="Both relate to the median; the mean is that of all samples.")  # fmt: skip
    check.equal(found["steady"], spread <= 0.1, what=what, hint="The spread is a share: at most 0.1.")

# %% [markdown]
# **Takeaway.** Report a median and a band. The mean is what a long run costs; when the two differ, say both.
#
# ## 4. Settle, or say that you did not
#
# How many samples are enough? Let us look from outside, which only a fake machine allows: we make the whole
# measurement a hundred times, each on a machine with another seed, and see how far the medians lie apart.


# %% tags=["demo"]
def many_medians(settings, samples, runs=100):
    """Return the medians, in seconds, that so many runs would report, each from so many samples."""
    medians = []
    for seed in range(runs):
        machine = connect({**settings, "seed": seed})
        for _ in range(samples):
            machine.launch("work")
        medians.append(median(machine.durations_s()))
    return medians


counts = [3, 6, 12, 25, 50]
ranges = {
    f"noise up to {100 * jitter:.0f} %": np.percentile(
        [many_medians({"jitter": jitter}, n) for n in counts], [2.5, 97.5], axis=1
    )
    for jitter in (0.4, 0.05)
}
plots.bands(
    counts, ranges, title="The noisier machine needs more samples for the same certainty", ticks=True,
    x="samples in a run", y="median of a run (95 % of runs)",
)  # fmt: skip

# %% [markdown]
# A fixed number of samples is too many for one machine and too few for the other. But in real life there is one run,
# not a hundred. Can a single run know how uncertain its median is?
#
# It can, whatever the noise looks like, as long as the samples do not depend on each other. Each sample falls below
# the true median with probability one half, like a coin. The number of heads among $n$ coins lies within
# $n/2 \pm 0.98 \sqrt n$ in 95 % of all cases. So the true median lies, with the same confidence, between two of our
# own sorted samples: those with the ranks
#
# $$ a = \lfloor n/2 - 0.98 \sqrt n \rfloor, \qquad b = \lceil n/2 + 1 + 0.98 \sqrt n \rceil , $$
#
# counted from 1 and kept within 1 and $n$. This is the *confidence interval of the median*. For fewer than six
# samples even the whole range is not wide enough for 95 %.
#
# Now sampling can stop by itself: when the interval is narrow. And if it does not become narrow, the honest answer is
# the interval that there is, and the word "unsettled".
#
# <details><summary>Hint: ranks and indices</summary>
#
# The sample of rank $a$, counted from 1, is `ordered[a - 1]`. For $n = 6$: $6/2 - 0.98 \cdot 2.449 = 0.6$, so $a$
# would be 0 and is kept at 1.
#
# </details>


# %% exercise="settle"
def settle(settings, width, cap):
    """Sample the kernel "work" until the median is certain enough. Difficulty 3 of 3.

    1. Make one untimed call.
    2. Take one sample after the other. A sample is one call from an empty queue until it has finished.
    3. After each sample, from the sixth on, compute the median of all samples so far and its 95 % confidence interval
       (from "low" to "high"). When high - low is at most ``width`` times the median, the median is settled: stop.
    4. Stop after ``cap`` samples (6 or more), settled or not.

    Return {"median_s": ..., "low_s": ..., "high_s": ..., "samples": how many were taken, "settled": True or False}.
    """
    ### BEGIN SOLUTION
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
        ordered, half = sorted(times), 0.98 * math.sqrt(n)
        low = ordered[max(1, math.floor(n / 2 - half)) - 1]
        high = ordered[min(n, math.ceil(n / 2 + 1 + half)) - 1]
        settled = high - low <= width * median(times)
    return {"median_s": median(times), "low_s": low, "high_s": high, "samples": len(times), "settled": settled}
    ### END SOLUTION


# %% check="settle" points=1
with check.exercise("settle"):
    calm = settle({"kernels": {"work": 100_000}, "compile_ns": 10**6}, 0.01, 50)
    check.equal([calm["samples"], calm["settled"]], [6, True], what="samples on a machine without noise",
                hint="Six equal samples settle it. Does the untimed call keep the compilation out?")  # fmt: skip
    check.close(calm["median_s"], 108e-6, rtol=1e-9, unit="s", what="median on a machine without noise",
                hint="A sample is launch, kernel and wait: from an empty queue until the call is done.")  # fmt: skip
    # Calls 1 to 10 are timed; 4, 5 and 6 are half as long again.
    busy = {"kernels": {"work": 92_000}, "neighbour_calls": [[4, 7]], "neighbour_factor": 1.5}
    capped = settle(busy, 0.1, 10)
    check.equal([capped["samples"], capped["settled"]], [10, False], what="a neighbour, at most 10 samples",
                hint="The interval still spans both levels after 10 samples: give up and say so.")  # fmt: skip
    check.close([capped["low_s"], capped["median_s"], capped["high_s"]], [100e-6, 100e-6, 146e-6], rtol=1e-9, unit="s",
                what="the interval of 10 samples", hint="Ranks 1 and 10, counted from 1; no p20, no mean.")  # fmt: skip
    # Call k, counted from 1, takes 100 µs and k times 0.92 µs.
    slower = settle({"kernels": {"work": 92_000}, "drift_per_call": 0.01}, 0.0, 20)
    check.close([slower["low_s"], slower["median_s"], slower["high_s"]], [104.6e-6, 109.66e-6, 114.72e-6], rtol=1e-9,
                unit="s", what="the interval of 20 samples, each slower than the last",
                hint="Ranks 5 and 16 of the sorted samples, counted from 1: rank 1 is ordered[0].")  # fmt: skip
    longer = settle(busy, 0.1, 100)
    check.equal([longer["samples"], longer["settled"]], [16, True], what="the same neighbour, at most 100 samples",
                hint="Compute the ranks anew for every n, and stop at the first n that is narrow enough.")  # fmt: skip

# %% hidden="settle" points=2
from copy import deepcopy
from math import ceil, floor, sqrt
from statistics import median as _median

from rooflab.simulate import FakeMachine


def _settled(settings, width, cap):
    machine, samples = FakeMachine(**settings), []
    for _ in range(cap + 1):
        begin = machine.now()
        machine.launch("work")
        machine.wait()
        samples.append(machine.now() - begin)
    n, narrow = 5, False
    while not narrow and n < cap:
        n += 1
        ordered = sorted(samples[1 : n + 1])
        low = ordered[max(floor(n / 2 - 0.98 * sqrt(n)), 1) - 1]
        high = ordered[min(ceil(n / 2 + 1 + 0.98 * sqrt(n)), n) - 1]
        narrow = high - low <= width * _median(ordered)
    return [n, narrow], [low, _median(ordered), high]


draw = check.draw()
for jitter, width in ((0.1, 0.02), (0.3, 0.05), (0.3, 0.1), (0.02, 0.05), (0.5, 0.002)):
    cap = 150
    fresh = {
        "kernels": {"work": draw.randrange(50_000, 200_000)}, "compile_ns": 10**7, "jitter": jitter,
        "outlier_share": 0.05, "hiccup_every": 11, "hiccup_ns": 70_000, "seed": draw.randrange(10**6),
    }  # fmt: skip
    counts, values = _settled(fresh, width, cap)
    found, what = settle(deepcopy(fresh), width, cap), f"fresh machine, {width=}, {cap=}"
    check.equal([found["samples"], found["settled"]], counts, what=what,
                hint=f"Stop at the first n that is enough: {fresh}")  # fmt: skip
    check.close([found["low_s"], found["median_s"], found["high_s"]], values, rtol=1e-9, unit="s", what=what,
                hint=f"Median and interval are those of all timed samples, the slow ones too: {fresh}")  # fmt: skip

# %% hidden="settle" points=1
draw = check.draw()
for cap in (6, 13, draw.randrange(40, 90)):
    fresh = {
        "kernels": {"work": draw.randrange(50_000, 200_000)}, "seed": draw.randrange(10**6), "jitter": 0.8,
        "max_launches": cap + 20,
    }  # fmt: skip
    counts, values = _settled(fresh, 1e-4, cap)
    found, what = settle(deepcopy(fresh), 1e-4, cap), f"noisy machine, {cap=}"
    check.equal([found["samples"], found["settled"]], counts, what=what,
                hint=f"At the cap, stop and say unsettled: {fresh}")  # fmt: skip
    check.close([found["low_s"], found["median_s"], found["high_s"]], values, rtol=1e-9, unit="s", what=what,
                hint=f"An unsettled median comes with its interval all the same: {fresh}")  # fmt: skip

# %% [markdown]
# Does the interval keep its promise? On a fake machine we can ask: we settle on four hundred machines and count how
# often the interval holds the true median. The noise is $j u^2$ with $u$ uniform in $[0, 1)$, so the true median is
# at $j / 4$.

# %% tags=["demo"]
JITTER = 0.3
truth_s = 5e-6 + 100e-6 * (1 + JITTER / 4) + 3e-6  # launch, kernel, wait
results = [settle({"jitter": JITTER, "seed": seed}, 0.07, 200) for seed in range(400)]
holds = sum(r["low_s"] <= truth_s <= r["high_s"] for r in results)
fixed = [settle({"jitter": JITTER, "seed": seed}, 0, 40) for seed in range(400)]  # a width of 0 is never reached
holds_fixed = sum(r["low_s"] <= truth_s <= r["high_s"] for r in fixed)
print(f"stopped when narrow: {holds / len(results):.0%} of the intervals hold the true median; they took "
      f"{min(r['samples'] for r in results)} to {max(r['samples'] for r in results)} samples.")  # fmt: skip
print(f"always 40 samples:   {holds_fixed / len(fixed):.0%}")

# %% [markdown]
# Two things pull the share away from 95 %. The ranks are rounded outwards, which makes the interval of few samples
# safer: the second line shows that alone. And we look after every sample and stop at the first narrow interval; one
# that is narrow by accident is more likely to be wrong. Statisticians call this *optional stopping*, and the first
# line shows what it costs. A larger minimum number of samples softens it.
#
# **Takeaway.** The number of samples is a result, not a setting. Stop when the interval is narrow; when it stays
# wide, report that.
#
# ## 5. Interleave the candidates
#
# Most measurements serve a comparison: is `b` faster than `a`? On the machine below `a` takes 100 µs and `b` takes 97
# µs. But the chip is heating up, and its clock decays with every call. We run all of `a`, then all of `b`; and on a
# second machine of the same kind both in alternation.

# %% tags=["demo"]
pair = {"kernels": {"a": 100_000, "b": 97_000}, "drift_per_call": 2e-3, "jitter": 0.02, "seed": 5}
schedules = {"one after the other": "a" * 40 + "b" * 40, "interleaved": "abba" * 20}
alt = "Two panels. One after the other: the crosses of b lie mostly above the dots of a. Interleaved: they lie below."
with plots.figure("Only one of the two orders tells the truth", x="call", alt=alt, size=(8.4, 3.4), columns=2) as axes:
    for ax, (name, order) in zip(axes, schedules.items(), strict=True):
        machine = connect(pair)
        for kernel in order:
            machine.launch(kernel)
        for kernel, mark, colour in (("a", "o", "#0072B2"), ("b", "x", "#D55E00")):
            calls = [i for i, k in enumerate(order) if k == kernel]
            ax.plot(calls, 1e6 * np.array(machine.durations_s(kernel)), mark, markersize=4, color=colour, label=kernel)
        speedup = median(machine.durations_s("a")) / median(machine.durations_s("b"))
        ax.set(title=f"{name}: b is {speedup:.3f}x as fast", ylim=(95, 120))
    axes[0].set_ylabel("time of the call (µs)")
    axes[0].legend()

# %% [markdown]
# On the left the heat is charged to whoever comes second. More samples do not help; they make it worse.
#
# In alternation both candidates see the same machine, almost. If `a` always goes first, then `b` always meets a chip
# that is one call hotter. So we change the order from round to round, `a b`, `b a`, `a b`, ... And we compare within
# each round, where the two samples are neighbours in time: each round gives one ratio, and the median of the ratios
# is the speedup. We call `b` faster only when four fifths of the rounds say so, that is, when the 20th percentile of
# the ratios is above 1. That is strict on purpose: a few percent on a noisy machine may well be true and still end as
# "neither". Then more rounds do not help, since they narrow the median and not the band; a quieter machine does.
#
# <details><summary>Hint: why not the ratio of the two medians?</summary>
#
# A neighbour who is busy for a third of the time shifts the two medians by amounts that depend on which samples are
# hit. A ratio of two samples of one round hardly notices: both are hit or neither is.
#
# </details>


# %% exercise="compare"
def compare(settings, rounds):
    """Compare the kernels "a" and "b" on one machine. Difficulty 2 of 3.

    1. Make one untimed call of "a", then one of "b".
    2. Time ``rounds`` rounds of one sample each. Rounds are numbered from 0. In even rounds "a" goes first, in odd
       rounds "b". A sample is one call from an empty queue until it has finished.
    3. Each round has one ratio: the time of "a" over the time of "b". Above 1, "b" was faster.

    Return a dictionary with the percentiles (rule of exercise 3) of the ratios as "speedup" (the median), "p20", "p80",
    and with "faster": "b" when p20 is above 1, "a" when p80 is below 1, else "neither".
    """
    ### BEGIN SOLUTION
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
    faster = "b" if p20 > 1 else "a" if p80 < 1 else "neither"
    return {"speedup": speedup, "p20": p20, "p80": p80, "faster": faster}
    ### END SOLUTION


# %% check="compare" points=1
with check.exercise("compare"):
    plain = {"kernels": {"a": 192_000, "b": 92_000}, "launch_ns": 5_000, "wait_ns": 3_000, "compile_ns": 10**8}
    found = compare(plain, 8)
    check.close(found["speedup"], 2.0, rtol=1e-9, what="200 µs against 100 µs",
                hint="Time of a over time of b. Does each sample begin with an empty queue, all compiled?")  # fmt: skip
    check.equal(found["faster"], "b", what="the faster one", hint="A ratio above 1 means that b took less time.")
    heat = {
        "kernels": {"a": 100_000, "b": 100_000},
        "launch_ns": 0,
        "wait_ns": 0,
        "drift_per_call": 0.01,
        "drift_limit": 9,
    }
    check.close(compare(heat, 3)["speedup"], 1.06 / 1.07, rtol=1e-9, what="the median of three ratios",
                hint="Calls 2 to 7 are a b, b a, a b: the ratios are 1.02/1.03, 1.05/1.04 and 1.06/1.07.")  # fmt: skip
    check.equal(compare(heat, 10)["faster"], "neither", what="the same kernel twice, on a chip that heats up",
                hint="Interleave, and change who goes first: else the heat is charged to one of the two.")  # fmt: skip

# %% hidden="compare" points=1
from copy import deepcopy

from rooflab.simulate import FakeMachine


def _rounds(settings, rounds):
    machine, ratios = FakeMachine(**settings), []
    for order in ["ab"] + ["ab", "ba"] * ((rounds + 1) // 2):
        spent = {}
        for kernel in order:
            begin = machine.now()
            machine.launch(kernel)
            machine.wait()
            spent[kernel] = machine.now() - begin
        ratios.append(spent["a"] / spent["b"])
    ratios = sorted(ratios[1 : rounds + 1])
    at = [share * (rounds - 1) for share in (0.2, 0.5, 0.8)]
    pairs = [(p - int(p), ratios[int(p)], ratios[min(int(p) + 1, rounds - 1)]) for p in at]
    return [low + part * (high - low) for part, low, high in pairs]


draw = check.draw()
for rounds, lead in ((1, 0.9), (2, 1.2), (15, 0.97), (30, 1.04), (41, 1.0)):
    fast = draw.randrange(60_000, 120_000)
    fresh = {
        "kernels": {"a": round(fast * lead), "b": fast}, "compile_ns": 10**7, "jitter": 0.1, "hiccup_every": 5,
        "hiccup_ns": 60_000, "drift_per_call": 4e-3, "outlier_share": 0.05, "seed": draw.randrange(10**6),
        "neighbour_calls": [[20, 33]], "neighbour_factor": 1.8,
    }  # fmt: skip
    found, values = compare(deepcopy(fresh), rounds), _rounds(fresh, rounds)
    check.close([found["p20"], found["speedup"], found["p80"]], values, rtol=1e-9, what=f"fresh machine, {rounds=}",
                hint=f"One machine; a first in even rounds, b in odd; a ratio each round: {fresh}")  # fmt: skip

# %% hidden="compare" points=1
draw = check.draw()
for lead, faster in ((1.02, "b"), (0.98, "a"), (1.0, "neither")):
    fresh = {
        "kernels": {"a": round(100_000 * lead), "b": 100_000}, "drift_per_call": 6e-3, "jitter": 0.01,
        "seed": draw.randrange(10**6),
    }  # fmt: skip
    check.equal(compare(deepcopy(fresh), 40)["faster"], faster, what="the faster one, on a chip that heats up",
                hint=f"The drift is larger than the difference: only rounds can tell: {fresh}")  # fmt: skip

# %% [markdown]
# On the machine of the figure, where `b` takes 97 µs and `a` 100 µs before the launch and the wait are added:

# %% tags=["demo"]
print(f"the truth:      {(100 + 5 + 3) / (97 + 5 + 3):.3f}")
result = compare(pair, 40)
print(f"your timer:     {result['speedup']:.3f} (p20 to p80: {result['p20']:.3f} to {result['p80']:.3f})")

# %% [markdown]
# **Takeaway.** Whatever changes with time must change for both. Interleave, alternate who goes first, and compare
# neighbours.
#
# ## 6. Bound by sense
#
# A copy moves a known number of bytes. Bytes over time is a bandwidth, and the datasheet says what the memory can do
# at most: 500 GB/s on this machine. We copy buffers of growing size, each of them twenty times.

# %% tags=["demo"]
MEMORY = {"kernels": {"copy": 0}, "memory_bytes_per_ns": 470, "cache_bytes": 64 << 20, "cache_bytes_per_ns": 3000}
LIMIT = 500 * GB_PER_S
sizes = [1 << k for k in range(20, 31)]
rates = []
for nbytes in sizes:
    machine = connect({**MEMORY, "kernel_bytes": {"copy": nbytes}})
    for _ in range(20):
        machine.launch("copy")
    machine.wait()
    rates.append(20 * nbytes / machine.now())

plots.curves(
    sizes,
    {"the same buffer, twenty times": rates},
    bounds={"datasheet of the memory": [LIMIT] * len(sizes)},
    title="Above the dashed line it was the cache that answered",
    x="bytes moved by a call",
    x_unit="B",
    y="bandwidth",
    unit="B/s",
    log="x",
)

# %% [markdown]
# The middle of the curve is impossible, so it is not a measurement of the memory. After the first call the buffer
# sits in the cache. On the left the launch overhead hides the same lie: those points look plausible, and are as
# wrong. On the right the share of the cache shrinks slowly: the last point is possible, and still too high.
#
# If we want to know what the memory does, the buffer must have left the cache when its turn comes again. So we use
# several buffers in rotation: 0, 1, ..., $n - 1$, 0, 1, ... A cache does not forget at once. In ours, of $n$ buffers
# in rotation, each as large as the cache, the share $1/n$ of each is still there when its turn comes. How many
# buffers, then? The bound rejects what is impossible, but a rate just below the bound may still owe a part to the
# cache. So we ask for two things: the rate is possible, and it no longer depends on $n$.
#
# <details><summary>Hint: the order of the buffers</summary>
#
# Sample $i$ uses buffer $i \bmod n$: `machine.launch("copy", buffer=i % n)`. Timing one buffer four times before you
# go to the next measures the cache again.
#
# </details>


# %% exercise="bandwidth"
def bandwidth(settings, nbytes, limit_bytes_per_s):
    """Measure the bandwidth of the memory with the kernel "copy", and believe only what is possible. Difficulty 3 of 3.

    A call of "copy" moves ``nbytes`` bytes of one buffer: ``machine.launch("copy", buffer=i)`` uses buffer i. On one
    machine, for n = 1, 2, 4, 8, 16, 32, 64 buffers:

    1. make one untimed call on each of the buffers 0 to n - 1;
    2. take 4 n samples, of one call each, on the buffers 0, 1, ..., n - 1, 0, 1, ... in turn; a sample lasts from an
       empty queue until the call has finished;
    3. the rate is ``nbytes`` over the median of the 4 n samples;
    4. stop if this rate is believable: at most ``limit_bytes_per_s``, and within 5 % of the rate before, whose number
       of buffers was half as large: |rate - before| <= 0.05 * before. The first rate, of n = 1, has none before it.

    Return {"bytes_per_s": the last rate, "buffers": the last n, "believable": True or False, "rates": [all rates, in
    order]}.
    """
    ### BEGIN SOLUTION
    machine = connect(settings)
    rates, believable, n = [], False, 1
    while True:
        for buffer in range(n):
            machine.launch("copy", buffer=buffer)
        machine.wait()
        times = []
        for i in range(4 * n):
            start = machine.now()
            machine.launch("copy", buffer=i % n)
            machine.wait()
            times.append(machine.now() - start)
        rate = nbytes / median(times)
        if rates:
            believable = rate <= limit_bytes_per_s and abs(rate - rates[-1]) <= 0.05 * rates[-1]
        rates.append(rate)
        if believable or n == 64:
            return {"bytes_per_s": rate, "buffers": n, "believable": believable, "rates": rates}
        n *= 2
    ### END SOLUTION


# %% check="bandwidth" points=1
with check.exercise("bandwidth"):
    bare = {
        "kernels": {"copy": 0}, "kernel_bytes": {"copy": 160_000_000}, "memory_bytes_per_ns": 1000, "launch_ns": 1_000,
        "wait_ns": 1_000,
    }  # fmt: skip
    found = bandwidth(bare, 160_000_000, 1100 * GB_PER_S)
    check.close(found["rates"], [160e6 / 162e-6, 160e6 / 162e-6], rtol=1e-9, unit="B/s", what="rates without a cache",
                hint="162 µs a call: launch and wait belong to the sample.")  # fmt: skip
    check.equal([found["buffers"], found["believable"]], [2, True], what="buffers without a cache",
                hint="One rate cannot show that it does not depend on n: compare with the one before.")  # fmt: skip
    cached = {**bare, "cache_bytes": 160_000_000, "cache_bytes_per_ns": 4000}
    found = bandwidth(cached, 160_000_000, 1100 * GB_PER_S)
    # The share 1 / n of a buffer is still in the cache. From there all of it takes 40 µs, from memory 160 µs.
    rates = [160e6 / (2e-6 + (40e-6 + (n - 1) * 160e-6) / n) for n in (1, 2, 4, 8, 16)]
    check.close(found["rates"], rates, rtol=1e-9, unit="B/s", what="rates with a cache",
                hint="Sample i uses buffer i mod n, after one untimed call on each. The rate of 8 buffers is below the "
                "limit, but not within 5 % of the rate of 4.")  # fmt: skip
    found = bandwidth(cached, 2 * 160_000_000, 1100 * GB_PER_S)
    check.equal([found["buffers"], found["believable"]], [64, False], what="twice as many bytes as are moved",
                hint="No number of buffers makes this rate possible: return the last one, and say so.")  # fmt: skip

# %% hidden="bandwidth" points=1
from copy import deepcopy
from statistics import median as _median

from rooflab.simulate import FakeMachine


def _sweep(settings, nbytes, limit):
    machine, rates = FakeMachine(**settings), []
    for n in (1, 2, 4, 8, 16, 32, 64):
        marks = []
        for i in range(5 * n):
            begin = machine.now()
            machine.launch("copy", buffer=i % n)
            machine.wait()
            marks.append(machine.now() - begin)
        rates.append(nbytes / _median(marks[n:]))
        believable = len(rates) > 1 and rates[-1] <= limit and abs(rates[-1] / rates[-2] - 1) <= 0.05
        if believable:
            break
    return rates, [n, believable]


def _memory(draw, fits):
    """A machine whose buffer fits so many times into the cache, and its bytes per call."""
    nbytes = draw.randrange(30 << 20, 90 << 20)
    settings = {
        "kernels": {"copy": draw.randrange(1_000, 4_000)}, "kernel_bytes": {"copy": nbytes}, "compile_ns": 10**8,
        "memory_bytes_per_ns": draw.uniform(800, 900), "cache_bytes": fits * nbytes,
        "cache_bytes_per_ns": draw.uniform(4000, 6000), "jitter": 0.1, "hiccup_every": 6, "hiccup_ns": 80_000,
        "outlier_share": 0.03, "seed": draw.randrange(10**6),
    }  # fmt: skip
    return settings, nbytes


draw = check.draw()
for fits, limit in ((1, 1e12), (2, 1e12), (4, 1e12), (2, 5e11)):
    fresh, nbytes = _memory(draw, fits)
    rates, rest = _sweep(fresh, nbytes, limit)
    found, what = bandwidth(deepcopy(fresh), nbytes, limit), f"cache for {fits} buffer{'s' * (fits > 1)}, {limit=:.0e}"
    check.close(found["rates"], rates, rtol=1e-9, unit="B/s", what=what,
                hint=f"An untimed round, then 4 n samples in turn; the median: {fresh}")  # fmt: skip
    check.equal([found["buffers"], found["believable"]], rest, what=what,
                hint=f"Possible, and within 5 % of the rate before: {fresh}")  # fmt: skip
    check.close(
        found["bytes_per_s"], rates[-1], rtol=1e-9, unit="B/s", what=what, hint="Report the last rate, not the largest."
    )

# %% hidden="bandwidth" points=2
draw = check.draw()
fresh, nbytes = _memory(draw, 1)
tight = {**fresh, "memory_bytes_per_ns": 1000, "cache_bytes_per_ns": 8000, "jitter": 0.01, "hiccup_every": 0}
for settings, limit, hint in (
    (fresh, 500 * GB_PER_S, "A rate above the limit is not believable, however steady"),
    ({**fresh, "cache_bytes": 0}, 1000 * GB_PER_S, "Without a cache two rates suffice, and show it"),
    (tight, 1300 * GB_PER_S, "The first rate below the limit still owes a part to the cache"),
):
    rates, rest = _sweep(settings, nbytes, limit)
    found, what = bandwidth(deepcopy(settings), nbytes, limit), f"fresh machine, {limit=:.1e}"
    hint += f": {settings}"
    check.equal([found["buffers"], found["believable"]], rest, what=what, hint=hint)
    check.close(found["bytes_per_s"], rates[-1], rtol=1e-9, unit="B/s", what=what, hint=hint)

# %% [markdown]
# Your sweep on the machine of the figure, with 64 MiB a call:

# %% tags=["demo"]
found = bandwidth({**MEMORY, "kernel_bytes": {"copy": 64 << 20}}, 64 << 20, LIMIT)
for k, rate in enumerate(found["rates"]):
    verdict = "impossible" if rate > LIMIT else "possible"
    print(f"buffers: {2**k:2}   {rate / GB_PER_S:7.0f} GB/s  {verdict}")
print(f"believable: {found['believable']}")

# %% [markdown]
# **Takeaway.** Before you report a rate, ask what could not be exceeded. Above the bound the measurement is wrong;
# below it, it is right only if it survives a change that should not matter.
#
# ## 7. A colleague's benchmark
#
# A colleague has rewritten a kernel and sends you this benchmark and its output. You may run it, and you may use
# everything that you have written on `COLLEAGUE`.

# %% tags=["demo"]
COLLEAGUE = {
    "kernels": {"a": 46_000, "b": 44_000}, "kernel_bytes": {"a": 40_000_000, "b": 40_000_000},
    "cache_bytes": 50_000_000, "compile_ns": 27_000_000, "drift_per_call": 1e-4, "drift_limit": 1.2,
    "jitter": 0.02, "queue_depth": 32, "seed": 8,
}  # fmt: skip


def benchmark(machine, kernel, calls):
    start = machine.now()
    for _ in range(calls):
        machine.launch(kernel)
    return (machine.now() - start) / calls


machine = connect(COLLEAGUE)
machine.launch("b")  # warm up
machine.wait()
old_s = benchmark(machine, "a", calls=1000)
machine.wait()
new_s = min(benchmark(machine, "b", calls=100) for _ in range(5))
machine.wait()
print(f"old kernel (a): {old_s * 1e6:.1f} µs   new kernel (b): {new_s * 1e6:.1f} µs")
print(f"The new kernel is {old_s / new_s:.1f}x as fast!")

# %% [markdown]
# Name three things that are wrong with this benchmark. For each, say why, and which way it bends the result: for the
# new kernel or against it. Then say what you would run instead, and which experiment would convince your colleague.
# Six to ten sentences.

# %% [markdown] written="colleague" points=5
# ### BEGIN SOLUTION
# First, `benchmark` reads the clock without a wait: up to 32 launches are still in the queue, a third of the 100 calls
# of the new kernel, but only a small share of the 1000 of the old one. That favours the new kernel. Second, only `b` is
# warmed up; the first call of `a` compiles inside its timed loop, which favours the new one as well. Third, the new
# kernel gets the minimum of five runs and the old one a single run. Only the first of the five begins with an empty
# queue and skips that third, and the minimum picks it; that favours the new kernel too, and hides the spread. Instead I
# would run `compare(COLLEAGUE, 40)`: one untimed call of each, a wait before every reading, rounds in alternating
# order, and the median of the ratios with p20 and p80. It says that the new kernel gains a few percent. To convince my
# colleague I would hand the benchmark the *same* kernel twice: it reports a speedup although there is none.
# ### END SOLUTION

# %% [markdown] tags=["solution"]
# **Rubric for the colleague's benchmark (5 points).**
#
# * One point for each of three faults of the list below (3 points at most): the fault is named, the mechanism is
#   right, *and* the direction is right. Half a point if the direction is missing or wrong.
# * One point for a protocol that mends the faults named, not a list of good intentions: it says what is called, when
#   it is waited for, in which order, and what is reported.
# * One point for an experiment whose outcome decides: the same kernel as both candidates (an A/A test), the two
#   exchanged, a wait added, the same number of calls for both.
#
# The faults:
#
# 1. *No wait before the second reading*: for the new kernel. That the numbers of calls differ is the same fault, told
#    from the other end, and counts once.
# 2. *Only the new kernel is warmed up*: for the new kernel.
# 3. *A minimum against a single run*: for the new kernel. With a wait the five runs would hardly differ, so the
#    minimum bites only because of the first fault; an answer need not see that.
# 4. *One after the other*, on a chip that heats up: against the new kernel, which comes later. That errors partly
#    cancel does not make a result right.
# 5. *The same buffer every time*, which fits into the cache, while a real step may find it in memory: for the new
#    kernel, since memory would lengthen both by the same amount and bring the ratio nearer to 1.
# 6. *No median, no band, no number of samples that follows from a rule*: the direction is open, and an answer that
#    says so has the full point.
#
# Misconceptions to look for: "the clock is too coarse" (it is not: a batch lasts millions of its steps); "it needs
# more calls" (more calls dilute the queue and the compilation, but neither the drift nor the cache); "the wait after
# `benchmark` makes it correct" (the clock was read before it).

# %% [markdown] tags=["solution"]
# The A/A test, and the comparison as it should be:

# %% tags=["solution"]
same = {**COLLEAGUE, "kernels": {"a": 44_000, "b": 44_000}}
machine = connect(same)
machine.launch("b")
machine.wait()
old_s = benchmark(machine, "a", calls=1000)
machine.wait()
new_s = min(benchmark(machine, "b", calls=100) for _ in range(5))
print(f"colleague's benchmark, the same kernel twice: {old_s / new_s:.1f}x")
print(f"compare, the same kernel twice: {compare(same, 40)}")
print(f"compare, old against new: {compare(COLLEAGUE, 40)}")

# %% [markdown]
# ## The real device
#
# Your functions know three calls. Whatever offers them is a machine. Here is the device on which this notebook runs,
# with a matrix product as its kernel.

# %% tags=["demo"]
device = find_device()
show_device(device)


def product(framework, n):
    """Return a function that launches an n by n matrix product and returns its result."""
    if framework == "torch":
        import torch

        a_NN = torch.randn(n, n, device=device.torch)
    elif framework == "jax":
        import jax

        a_NN = jax.random.normal(jax.random.key(0), (n, n))
    else:
        a_NN = np.random.default_rng(0).standard_normal((n, n), dtype=np.float32)
    return lambda: a_NN @ a_NN


class RealMachine:
    """The device that is there; its kernel "work" is a matrix product."""

    def __init__(self, framework, n):
        self.product, self.result = product(framework, n), None

    def now(self):
        return time.perf_counter()

    def launch(self, kernel="work"):
        self.result = self.product()

    def wait(self):
        clocks.wait(self.result)


MACHINES["real"] = RealMachine

# %% [markdown]
# Before you run the next cell: will the launch return before the product is done? On a GPU it will, and with JAX it
# will everywhere. PyTorch on a CPU computes before it returns.

# %% tags=["demo"]
N = size(cpu=512, gpu=4096)
frameworks = [name for name, there in (("torch", device.torch), ("jax", device.jax)) if there] or ["numpy"]
for framework in frameworks:
    here = {"machine": "real", "framework": framework, "n": N}
    machine, reference = connect(here), measure(product(framework, N), name="rooflab.measure")
    machine.launch()
    machine.wait()
    start_s = machine.now()
    machine.launch()
    unwaited_s = machine.now() - start_s
    settled = settle(here, 0.05, 100)
    print(f"{framework}, {N} x {N}\n  not waited for   {unwaited_s * 1e6:10.1f} µs")
    print(f"  your time_call   {time_call(here, 0.05) * 1e6:10.1f} µs")
    print(f"  your settle      {settled['median_s'] * 1e6:10.1f} µs  (settled: {settled['settled']})")
    print(f"  rooflab.measure  {reference.median_s * 1e6:10.1f} µs  (settled: {reference.settled})")

# %% [markdown]
# Your numbers and the library's should agree within their intervals, and often they will not quite: nobody promises
# that this device is quiet. If `settled` is False, or if two runs of the cell differ by more than their intervals,
# find out what else is running. That is no failure of your timer. It is what your timer is for.
#
# ## What we learned
#
# * A clock on the host measures the host, unless we wait for the device before we read it.
# * Warm-up ends where the samples say so. If they never do, there is nothing to report.
# * A median with a band describes a call; the mean says what many calls cost.
# * The number of samples follows from the uncertainty that we accept, and "unsettled" is a result.
# * Comparisons are made between neighbours in time, and rates are checked against what is possible.
#
# ## Go further
#
# * `rooflab.measure` and `measure_all` do the same job, with inputs in rotation and device events. Read them: you
#   know the reason of nearly every line, and can find where their rules differ from yours.
# * Device events take their timestamps in the device's own queue, without draining it. They suit measurements inside
#   a training loop. They show that there is a gap between two kernels, but not what the host was doing meanwhile.
#   `machine.stamp()` is such a timestamp: time kernels shorter than their launch with it, and with the clock.
# * Nsight Systems draws the timeline of our first figure for a whole real process.
# * T. Hoefler and R. Belli, *Scientific Benchmarking of Parallel Computing Systems: Twelve Ways to Tell the Masses
#   When Reporting Performance Results*, SC 2015.
# * J.-Y. Le Boudec, *Performance Evaluation of Computer and Communication Systems*, EPFL Press 2010, chapter 2: the
#   interval of the median.
# * T. Mytkowicz et al., *Producing Wrong Data Without Doing Anything Obviously Wrong!*, ASPLOS 2009: how the size of
#   an environment variable changes a benchmark.
