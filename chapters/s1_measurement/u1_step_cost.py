# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What does a step cost?
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({{ colab_url }})
# [![Binder](https://mybinder.org/badge_logo.svg)]({{ binder_url }})
#
# We multiply two matrices and read a clock before and after. The matrices grow by a factor of sixty and more, the
# work by its cube, and the clock does not move: the call takes as long as before. Somebody is lying. Who?
#
# When this unit is done, we can
#
# 1. time work on a device that runs behind our back,
# 2. say which calls to throw away, and sum up the others in numbers that survive a bad neighbour,
# 3. predict from three numbers whether a step is bound by overhead, by bandwidth or by arithmetic,
# 4. find the batch size at which a training step stops wasting the device.
#
# Every section goes the same way: we **predict**, we **measure**, we **explain** the difference. Type a guess into
# the box *before* you run the measuring cell. A wrong guess is the most useful thing you can bring.

# %% [markdown]
# ## The device
#
# Everything below runs on the device that is here. The first cell finds it and prints its card.

# %%
import sys

if "google.colab" in sys.modules:
    # %pip install -q "rooflab @ {{ install_url }}"
    print("Rooflab is installed; torch, JAX and NumPy are Colab's own.")

# %%
import time

import jax
import jax.numpy as jnp
import numpy as np
import torch

from rooflab import costs, measure, measure_all, plots, predict, report, size, tables
from rooflab.session import open_unit

device = open_unit("s1_measurement/u1_step_cost", needs=("torch", "jax"))

# %% [markdown]
# On a CPU the experiments are smaller, so that the whole unit takes about a minute; what they show is the same. All
# sizes stand in one cell. Change them.

# %%
SIDES = size(cpu=[16, 32, 64, 128, 256, 512, 1024], gpu=[16, 64, 256, 1024, 4096, 8192, 16384])  # matrix products
ELEMENTS = size(cpu=[4**i for i in range(13)], gpu=[4**i for i in range(16)])  # elementwise, up to the largest
BATCHES = size(cpu=[4**i for i in range(7)], gpu=[4**i for i in range(9)])  # examples in a training step
WIDTHS = size(cpu=(256, 512, 512, 10), gpu=(1024, 4096, 4096, 1000))  # layers of the MLP of the last section

# %% [markdown]
# ## The naive clock
#
# A framework call does two things. It asks the device for work, and the device does it. If the call returns once the
# work is *asked for*, the two run side by side: Python prepares the next call while the device computes. This is
# **asynchronous execution**. It makes programs fast, and it makes clocks lie.
#
# Which frameworks do that here? Torch is asynchronous on a GPU and synchronous on a CPU. JAX is asynchronous
# everywhere. So there is a liar on every machine, and we can catch it in the act, with two ways to read the clock.

# %%
from rooflab.clocks import wait


def naive(call):
    wait()  # nothing may still be running from before
    start = time.perf_counter()
    result = call()
    stop = time.perf_counter()
    wait(result)  # the clock has been read already
    return stop - start


def waited(call):
    wait()
    start = time.perf_counter()
    wait(call())  # returns when the result is there
    return time.perf_counter() - start


# %% [markdown]
# The two differ by one line: where we wait. Now both, around the same product of two n × n matrices, in torch and in
# JAX. The product takes 2n³ FLOPs: a multiplication and an addition for each of n³ pairs.
#
# If the call only *asks*, its time does not know n at all, and the ratio of the largest to the smallest is 1.

# %%
predict("the naive clock says that the largest JAX product takes … times the smallest", unit="x", model=1.0)

# %%
matmul_jax = jax.jit(jnp.matmul)


def products(n):
    a, b = torch.randn(n, n, device=device.torch), jnp.ones((n, n))
    return {"torch": lambda: a @ a, "JAX": lambda: matmul_jax(b, b)}


def median_of(clock, call, calls=7):
    call()  # the first call is another story: the next section tells it
    return float(np.median([clock(call) for _ in range(calls)]))


seconds = {}
for clock in (naive, waited):
    for name in ("torch", "JAX"):
        seconds[f"{name}, {clock.__name__}"] = [median_of(clock, products(n)[name]) for n in SIDES]

# %%
jax_naive = seconds["JAX, naive"]
report("the naive clock says that the largest JAX product takes … times the smallest", jax_naive[-1] / jax_naive[0])

cubic = [seconds["JAX, waited"][-1] * (n / SIDES[-1]) ** 3 for n in SIDES]
plots.curves(
    SIDES, seconds, bounds={"slope 3": cubic}, key="naive clock",
    title="Without waiting, the clock times the asking and not the work", x="side n of the matrices", y="time per call",
)  # fmt: skip

# %% [markdown]
# Follow the naive line of JAX: it hardly rises. The waited line is flat only while the matrices are tiny, and then
# climbs along the slope 3 that 2n³ demands. Between the two lines lies all the work that the naive clock did not see.
# At the right end of the figure it missed nearly everything.
#
# On a GPU torch's naive line is flat too. On a CPU torch computes inside the call, so that its two lines lie on each
# other: the naive clock is right, by luck. A benchmark that is right by luck becomes wrong on the next machine.
#
# **Takeaway.** A call's return says that the work was accepted. Only a wait says that it was done. From here on we
# wait: `jax.block_until_ready(result)` in JAX, `torch.cuda.synchronize()` in torch, `wait(result)` for both.

# %% [markdown]
# ## The first call
#
# We threw the first call away above. Was that fair? Let us look at the first twenty calls of one small function, a
# chain of elementwise operations, written once for torch and once for JAX, in three forms: **eager** (each operation
# at once), **compiled** (`torch.compile`) and **jitted** (`jax.jit`).
#
# Nothing in this book predicts how long a compiler thinks, so there is no model to compare with. Guess anyway.

# %%
predict("the first call of the compiled function takes … times as long as its twentieth", unit="x", model=None)

# %%
x_torch = torch.randn(size(cpu=2**18, gpu=2**24), device=device.torch)
x_jax = jnp.asarray(x_torch.cpu().numpy())


def chain(x, exp):
    return x * exp(-x * x) + 0.5 * x


compiled = torch.compile(lambda x: chain(x, torch.exp))
jitted = jax.jit(lambda x: chain(x, jnp.exp))
first_calls = {
    "eager (torch)": [waited(lambda: chain(x_torch, torch.exp)) for _ in range(20)],
    "compiled (torch)": [waited(lambda: compiled(x_torch)) for _ in range(20)],
    "jitted (JAX)": [waited(lambda: jitted(x_jax)) for _ in range(20)],
}

# %%
calls = first_calls["compiled (torch)"]
report("the first call of the compiled function takes … times as long as its twentieth", calls[0] / calls[-1])

plots.curves(
    range(1, 21), first_calls, log="y", points=True, key="first calls",
    title="The first call pays for the compiler, the second sometimes too", x="number of the call", y="time of the call",
)  # fmt: skip

# %% [markdown]
# The first points lie far above all others. What happened in them has names:
#
# * **Compilation.** The function is traced, optimized and translated, once per function and per combination of shapes
#   and types. It is the largest item by far, and it comes back when a shape changes.
# * **Loading and allocation.** Libraries open, memory pools grow, a GPU's context is made. The eager function pays
#   this too, a little.
# * **Autotuning.** A library may try several kernels for a new shape and keep the fastest.
# * **Warm-up.** Caches fill, and clocks rise from their idle state.
#
# A fixed number of calls to discard fits none of them: one is enough here and twenty are too few there. The rule that
# `measure` follows is to discard until two timings in a row agree, and to report the first call *apart*, because it
# is a cost too. How many calls does it take until compiling has paid for itself?

# %%
eager_s, compiled_s = (np.median(first_calls[name][5:]) for name in ("eager (torch)", "compiled (torch)"))
saved_s = eager_s - compiled_s
pays = f"after {calls[0] / saved_s:,.0f} calls" if saved_s > 0 else "never at this size: it saves nothing per call"
print(f"compiling took {calls[0]:.2f} s and saves {saved_s * 1e6:.0f} µs a call: it pays {pays}")

# %% [markdown]
# **Takeaway.** The first call measures the compiler. Report it, but never mix it with the others; and ask after how
# many calls it pays.

# %% [markdown]
# ## The spread
#
# The later calls of the last figure did not lie on a line either. Here are a thousand of them.

# %%
thousand = measure(lambda: jitted(x_jax), name="jitted", calls=1, min_samples=1000, max_samples=1000, settle=0)
plots.distribution(thousand.times_s, title="A thousand calls of one function: a steep side, and a long tail")

# %% [markdown]
# The histogram leans. Work has a shortest time and no longest one: an interrupt, another process or a lower clock can
# only add. So the mean lies on the slow side of most calls, and one call in the tail can move it. The **median** asks for the
# middle call and does not care how slow the slowest was. Beside it we give the 20th and 80th percentile, **p20 to
# p80**: where the middle three fifths of the calls lie. If that band is wider than a tenth of the median, something
# else is going on, and `measure` says so.
#
# More samples make the median sharper, but they do not make it *right*. Suppose the device slows down halfway through
# a benchmark, since it grows warm or a neighbour wakes up. We compare two candidates that are the **same function**,
# so the truth is a ratio of exactly 1. The neighbour comes in the second half: once while we time one candidate after
# the other, once while we time them in turn. What will the first comparison say?

# %%
predict("timed one after the other, the second of two equal functions takes … times the first", unit="x", model=1.0)

# %%
from rooflab.neighbour import busy_neighbour

SECONDS = 0.6  # for each candidate; the neighbour comes after that, halfway through
fixed = {"budget_s": SECONDS, "settle": 0, "max_samples": 10**6}
work = lambda: jitted(x_jax)  # noqa: E731

with busy_neighbour(after_s=SECONDS):
    first, second = measure(work, **fixed), measure(work, **fixed)
with busy_neighbour(after_s=SECONDS):
    turns = measure_all({"a": work, "b": work}, **fixed)

# %%
in_turn = turns["b"] / turns["a"]
report("timed one after the other, the second of two equal functions takes … times the first", second / first)
plots.intervals(
    {"one after the other": second / first, "in turn": in_turn}, truth=1.0,
    title="Only candidates timed in turn are slowed alike", x="time of the second / time of the first",
)  # fmt: skip

# %% [markdown]
# One after the other, the neighbour's work is charged to the candidate that happened to come second. In turn, each
# pair of samples lies a moment apart, both see the same device, and the *ratio* within a pair hardly moves, although
# the times themselves went up for both. This is **interleaving**, and `measure_all` does it whenever it is given more
# than one candidate.
#
# **Takeaway.** Median and p20 to p80 guard against outliers; interleaving guards against drift. A sceptic will ask for
# both.

# %% [markdown]
# ## Three regimes
#
# Now that the clock is honest, what does it say? Take the cheapest model of a device that could possibly work. To run
# a kernel costs a fixed time t₀, whatever it does. To move Q bytes takes Q/β, where β is the memory's bandwidth.
# To do W FLOPs takes W/π, where π is the peak rate. The three overlap, so the slowest decides:
#
# $$t = \max\left(t_0,\ \frac{Q}{\beta},\ \frac{W}{\pi}\right)$$
#
# We call a step **overhead-bound**, **bandwidth-bound** or **compute-bound** after the term that wins. Three
# unknowns, so three measurements are enough, each deep inside one regime: a sum of one element, a sum of many, and a
# large product.

# %%
from rooflab.roofline import bound, fit_three, knee_overhead_bytes, matmul_leaves_overhead


def doubled(n):
    x, out = torch.randn(n, device=device.torch), torch.empty(n, device=device.torch)
    return measure(lambda: torch.add(x, x, out=out), costs.elementwise(n, flops_per_element=1, dtype="fp32"), budget_s=0.15)


def squared(n):
    a = torch.randn(n, n, device=device.torch)
    return measure(lambda: a @ a, costs.matmul(n, n, n, "fp32"), budget_s=0.15)


tiny, large, product = doubled(1), doubled(ELEMENTS[-1]), squared(SIDES[-1])
fit = fit_three(
    tiny.median_s, (large.work.bytes, large.median_s), (product.work.flops, product.median_s), dtype="fp32"
)
tables.table({"fitted": fit}, columns=["launch_s", "bytes_per_s"], caption=f"peak: {fit.rate('fp32') / 1e9:,.0f} GFLOP/s")

# %% [markdown]
# That is the whole fit. Everything else is a prediction. An elementwise operation in fp32 reads 4 bytes and writes 4
# for each element, so it leaves the plateau where 8n/β = t₀. A product of n × n matrices does n³ work on n² data: on
# axes of elements and time its line rises with slope 3/2, against slope 1 for the elementwise one. How many elements
# can an addition have before its size matters at all?

# %%
predict("an elementwise operation leaves the plateau at … elements", model=knee_overhead_bytes(fit) / 8)

# %%
sums = [doubled(n) for n in ELEMENTS]
squares = [squared(n) for n in SIDES[:-1]] + [product]


def leaves_plateau(xs, times, factor=2.0):
    """Where a curve first reaches `factor` times its smallest value, interpolated between points on log axes."""
    level = np.log(factor * min(times))
    i = next(i for i, t in enumerate(times) if np.log(t) >= level and i > int(np.argmin(times)))
    share = (level - np.log(times[i - 1])) / (np.log(times[i]) - np.log(times[i - 1]))
    return float(xs[i - 1] * (xs[i] / xs[i - 1]) ** share)


# At twice the plateau the elementwise line is at twice the knee: t = Q/beta from there on.
report("an elementwise operation leaves the plateau at … elements",
       leaves_plateau(ELEMENTS, [m.median_s for m in sums]) / 2)  # fmt: skip

# %%
grid = np.geomspace(1, ELEMENTS[-1], 60)
on_grid = lambda ms, xs: np.exp(np.interp(np.log(grid), np.log(xs), np.log([m.median_s for m in ms]), right=np.nan))  # noqa: E731
models = {
    "model, elementwise": [bound(costs.elementwise(int(n), dtype="fp32"), fit).time_s for n in grid],
    "model, matmul": [bound(costs.matmul(s, s, s, "fp32"), fit).time_s for s in np.sqrt(grid).round().astype(int)],
}
plots.curves(
    grid, {"elementwise": on_grid(sums, ELEMENTS), "matmul": on_grid(squares, np.square(SIDES))}, bounds=models,
    marks={"elementwise leaves": knee_overhead_bytes(fit) / 8, "matmul leaves": matmul_leaves_overhead(fit, "fp32") ** 2},
    title="Three numbers predict the plateau, both slopes and both knees", x="elements of one operand", y="time per call",
)  # fmt: skip
