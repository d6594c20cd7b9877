# %% [markdown]
# # What does a step cost?
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({{ colab_url }})
# [![Binder](https://mybinder.org/badge_logo.svg)]({{ binder_url }})
#
# We multiply two matrices and read a clock before and after. The matrices grow, the work grows with their cube, and
# the clock hardly notices. Who is lying?
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
# Everything below runs on the device that is here. The first cell matters on Colab only; the second finds the device
# and prints its card. Should the card end with a *load*, others compute here too: close what you can, and take what
# you measure for theirs and yours together.

# %%
import sys

if "google.colab" in sys.modules:
    # %pip install -q "rooflab @ {{ install_url }}"
    print("Rooflab is installed; torch, JAX and NumPy are Colab's own.")

# %%
from rooflab import open_unit

device = open_unit("s1_measurement/u1_step_cost", needs=("torch", "jax"))

import math
import time
import warnings
from itertools import cycle

import jax
import jax.numpy as jnp
import numpy as np
import torch

from rooflab import costs, count, measure, measure_all, plots, predict, report, size, tables, widgets
from rooflab.clocks import GraphClock, wait
from rooflab.display import show_source
from rooflab.knees import knee_overhead_bytes, leaves_plateau, matmul_leaves_overhead
from rooflab.mlp import jax_step, torch_step, training_steps
from rooflab.neighbour import busy_neighbour
from rooflab.roofline import bound, fit_three, sequence_regime, sequence_time_s

jax.config.update("jax_default_matmul_precision", "highest")  # or JAX rounds fp32 to TF32 on NVIDIA chips
warnings.filterwarnings("ignore", message="TensorFloat32")  # torch's hint to let it round as well

# %% [markdown]
# On a CPU the experiments are smaller, so that the whole unit takes about a minute; what they show is the same. All
# sizes stand in one cell. Change them.

# %%
SIDES = size(cpu=[16, 32, 64, 128, 256, 512, 1024], gpu=[16, 128, 1024, 4096, 8192])  # matrix products
ELEMENTS = size(cpu=[4**i for i in range(13)], gpu=[4**i for i in range(16)])  # elementwise, up to the largest
BATCHES = size(cpu=[4**i for i in range(7)], gpu=[1, 16, 256, 4096, 65536])  # examples in a training step
WIDTHS = size(cpu=(64, 128, 10), gpu=(1024, 8192, 1000))  # layers of the MLP of the last section

# %% [markdown]
# ## The naive clock
#
# A **kernel** is one piece of work that the device does as a whole, such as one matrix product. (Jupyter's kernel is
# something else.) The **host** is the CPU that runs Python and **launches** kernels; the **device** runs them, and
# may be the same CPU.
#
# So a framework call does two things. It asks the device for work, and the device does it. If the call returns once
# the work is *asked for*, the two run side by side: Python prepares the next call while the device computes. This is
# **asynchronous execution**. It makes programs fast, and it makes clocks lie.
#
# Which frameworks do that here? Torch is asynchronous on a GPU and synchronous on a CPU. JAX is asynchronous on every
# device. So there is a liar on every machine, and we can catch it in the act, with two clocks that differ in one
# thing: whether they wait for the result before they are read. Each is put around the same product of two n × n
# matrices, in torch and in JAX. It takes 2n³ FLOPs: a multiplication and an addition for each of n³ pairs. If the
# call only *asks*, its time does not know n at all, and the ratio of the largest to the smallest is 1.


# %%
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


predict("the naive clock says that the largest JAX product takes … times the smallest", unit="x", model=1.0)

# %%
matmul_jax = jax.jit(jnp.matmul)


def products(n):
    a, b = torch.randn(n, n, device=device.torch), jnp.ones((n, n))
    return {"torch": lambda: a @ a, "JAX": lambda: matmul_jax(b, b)}


def medians(call, rounds=9):
    wait(call())  # the first call is another story: the next section tells it
    both = [(naive(call), waited(call)) for _ in range(rounds)]  # in turn, so that both see the same machine
    return np.median(both, axis=0).tolist()


read = [{name: medians(call) for name, call in products(n).items()} for n in SIDES]
seconds = {
    f"{name}, {clock}": [both[name][i] for both in read]
    for i, clock in enumerate(("naive", "waited"))
    for name in ("torch", "JAX")
}

# %%
smallest_s, *_, largest_s = seconds["JAX, naive"]
report("the naive clock says that the largest JAX product takes … times the smallest", largest_s / smallest_s)
waited_s = seconds["JAX, waited"][-1]
cubic = [waited_s * (n / SIDES[-1]) ** 3 for n in SIDES[-3:]]
title = f"Without waiting, the clock misses {max(0.0, 1 - largest_s / waited_s):.0%} of the largest JAX product"
labels = {"x": "side n of the matrices", "y": "time per call"}
plots.curves(SIDES, seconds, bounds={"slope 3": (SIDES[-3:], cubic)}, key="naive clock", title=title, **labels)

# %% [markdown]
# (Grey marks, here and in all figures, are the same experiment on another device, whose run was recorded.) Follow the
# naive line of JAX: on a quiet machine it rises little. It is not flat, for a larger result has to be allocated,
# among other things. But compare it with the work, which grew by the cube. The waited line is flat only while the
# matrices are tiny, and then climbs along the slope 3 that 2n³ demands. Between the two lines lies all the work that
# the naive clock did not see. How much it missed at the right end, the title says.
#
# On a GPU torch's naive line is nearly flat too. On a CPU torch computes inside the call, so that its two lines come
# together once the work outweighs the wait: the naive clock is right, by luck. (For a tiny product JAX's may meet
# too: its CPU runtime does not hand so little work to another thread.) A benchmark that is right by luck becomes
# wrong on the next machine.
#
# **Takeaway.** A call's return says that the work was accepted. Only a wait says that it was done. From here on we
# wait: `jax.block_until_ready(result)` in JAX, `torch.cuda.synchronize()` in torch, `wait(result)` for both.

# %% [markdown]
# ## The first call
#
# We threw the first call away above. Was that fair? Let us look at the first twenty calls of one small function, a
# chain of elementwise operations, written once for torch and once for JAX, in three forms: **eager** (each operation
# as Python reaches it), **compiled** (`torch.compile`) and **jitted** (`jax.jit`).
#
# Nothing in this book predicts how long a compiler thinks, so there is no model to compare with. Guess anyway. (The
# twentieth call stands for *a later call*. Any single one may have met something, so we compare with the median of
# the last fifteen.)


# %%
def chain(x, exp):
    return x * exp(-x * x) + 0.5 * x


compiled, jitted = torch.compile(lambda x: chain(x, torch.exp)), jax.jit(lambda x: chain(x, jnp.exp))
x_torch = torch.randn(size(cpu=2**18, gpu=2**24), device=device.torch)
predict("the first call of the compiled function takes … times as long as its twentieth", unit="x", model=None)

# %%
x_jax = jnp.asarray(x_torch.cpu().numpy())
first_calls = {
    "eager (torch)": [waited(lambda: chain(x_torch, torch.exp)) for _ in range(20)],
    "compiled (torch)": [waited(lambda: compiled(x_torch)) for _ in range(20)],
    "jitted (JAX)": [waited(lambda: jitted(x_jax)) for _ in range(20)],
}
first_s, later_s = first_calls["compiled (torch)"][0], np.median(first_calls["compiled (torch)"][5:])
saved_s = np.median(first_calls["eager (torch)"][5:]) - later_s
pays = f"pays after {first_s / saved_s:,.0f} calls" if saved_s > 0 else "never pays at this size"
print(f"compiling took {first_s:.2f} s and {pays}")
report("the first call of the compiled function takes … times as long as its twentieth", first_s / later_s)
plots.curves(
    range(1, 21), first_calls, log="y", points=True, key="first calls", x="number of the call", y="time of the call",
    title="The first call pays for compiling and loading",
)  # fmt: skip

# %% [markdown]
# The first points lie far above all others. What happened in them has names:
#
# * **Compilation.** The function is traced, optimized and translated, once per function and per combination of shapes
#   and types. For `torch.compile` it is the largest item by far, and it comes back when a shape changes.
# * **Loading and allocation.** Libraries open, memory pools grow, a GPU's context is made. The eager function
#   compiles nothing, and pays this all the same.
# * **Autotuning.** A library may try several kernels for a new shape and keep the fastest.
# * **Warm-up.** Caches fill, and clocks rise from their idle state.
#
# A fixed number of calls to discard fits none of them: one is enough for one form, while another still gets faster
# after several. It takes a rule that looks at the timings. That of `measure` is a cheap one: it discards until two in
# a row agree within a fifth, ten at most, and leaves the rest to the median. (The lab builds a better one.) It
# reports the first call *apart*, because that is a cost too. The line above the figure says after how many calls
# compiling has paid for itself, if it does.
#
# **Takeaway.** The first call measures compiling and loading. Report it, but never mix it with the others; and ask
# after how many calls it pays.

# %% [markdown]
# ## The spread
#
# The later calls of the last figure did not lie on a line either. Here are a thousand of them.

# %%
thousand = measure(lambda: jitted(x_jax), name="jitted", calls=1, min_samples=1000, max_samples=1000, settle=0)
plots.distribution(thousand.times_s, title="A thousand calls of one function do not take one time")
print(thousand)

# %% [markdown]
# The histogram is no bell. It has hills, where the device was in different states, and a tail of calls that met
# something: work has a shortest time and no longest one, since an interrupt, another process or a lower clock can
# only add. So the mean is drawn to the slow side, and one call in the tail can move it. The **median** asks for the
# middle call and does not care how slow the slowest was. Beside it we give the 20th and 80th percentile, **p20 to
# p80**: where the middle three fifths of the calls lie. If that band is wider than a tenth of the median, something
# else is going on, and the line that a measurement prints says so.
#
# More samples make the median sharper, but they do not make it *right*. Suppose the device slows down halfway through
# a benchmark, since it grows warm or a neighbour wakes up. We compare two candidates that are the **same function**,
# so the truth is a ratio of exactly 1. The neighbour comes in the second half: once while we time one candidate after
# the other, once while we time them in turn. What will the first comparison say?

# %%
predict("timed one after the other, the second of two equal functions takes … times the first", unit="x", model=1.0)
SECONDS = 1.0  # for each candidate; the neighbour comes after that, halfway through
fixed = {"budget_s": SECONDS, "settle": 0, "calls": 40}  # long samples: no neighbour can be slept through

# %%
with busy_neighbour(after_s=SECONDS):
    first, second = measure(lambda: jitted(x_jax), **fixed), measure(lambda: jitted(x_jax), **fixed)
with busy_neighbour(after_s=SECONDS):
    turns = measure_all({"a": lambda: jitted(x_jax), "b": lambda: jitted(x_jax)}, **fixed)
ratios = {"one after the other": second / first, "in turn": turns["b"] / turns["a"]}
after, in_turn = ratios.values()
report("timed one after the other, the second of two equal functions takes … times the first", float(after))
seen = "Only candidates timed in turn are slowed alike", "This time the order made no difference"
title = seen[abs(after - 1) <= abs(in_turn - 1)]
plots.intervals(ratios, truth=1.0, title=title, x="time of the second / time of the first")

# %% [markdown]
# One after the other, the neighbour's work is charged to the candidate that happened to come second. In turn, each
# pair of samples lies a moment apart, both see the same device, and the *ratio* within a pair scatters around 1,
# although the times themselves went up for both. This is **interleaving**, and `measure_all` does it whenever it is
# given more than one candidate. (Where the title says that the order made no difference, others were here already
# when we began, and our neighbour was one more.)
#
# **Takeaway.** The median guards against outliers, the band from p20 to p80 shows them, and interleaving guards
# against drift. A sceptic will ask for all three.

# %% [markdown]
# ## Three regimes
#
# Now that the clock is honest, what does it say? Take the cheapest model of a device that could possibly work. To
# launch a kernel costs a fixed time t₀, its **overhead**, whatever it does. To move Q bytes takes Q/β, where β is the
# memory's bandwidth. To do W FLOPs takes W/π, where π is the peak rate. If the three overlap as well as they can, the
# slowest decides:
#
# $$t = \max\left(t_0,\ \frac{Q}{\beta},\ \frac{W}{\pi}\right)$$
#
# We call a step **overhead-bound**, **bandwidth-bound** or **compute-bound** after the term that wins. (Where they do
# not overlap, as on a CPU that is its own host, they add up: to three times as much at most.) Three unknowns, so
# three measurements are enough, each deep inside one regime: adding 1 to a single number, adding 1 to many numbers in
# place, and a large product.
#
# Everything else is then a prediction. While t₀ wins, the time does not depend on the size: on a chart it is a
# **plateau**, which ends in a **knee**. Adding 1 in place in fp32 reads 4 bytes and writes 4 for each element, so its
# knee lies where 8n/β = t₀. A product of n × n matrices does n³ work on n² data: on axes of elements and time its
# line rises with slope 3/2, against slope 1 for the addition. How many elements can an addition have before its size
# matters at all?


# %%
def added(n):
    x = torch.randn(n, device=device.torch)
    return measure(lambda: x.add_(1.0), costs.elementwise(n, dtype="fp32"), budget_s=0.15)


def squared(n):
    a = torch.randn(n, n, device=device.torch)
    return measure(lambda: a @ a, costs.matmul(n, n, n, "fp32"), budget_s=0.15)


tiny, large, product = added(1), added(ELEMENTS[-1]), squared(SIDES[-1])
moved, computed = (large.work.bytes, large.median_s), (product.work.flops, product.median_s)
fit = fit_three(tiny.median_s, moved, computed, dtype="fp32")
fitted = {"launch_s": fit.launch_s, "bytes_per_s": fit.bytes_per_s, "fp32_flops_per_s": fit.rate("fp32")}
tables.table({"fitted": fitted}, columns=list(fitted))
predict("an elementwise operation leaves the plateau at … elements", model=knee_overhead_bytes(fit) / 8)

# %%
sums, squares = [added(n) for n in ELEMENTS], [squared(n) for n in SIDES]
doubled = leaves_plateau(ELEMENTS, [m.median_s for m in sums])  # twice the plateau, so twice the knee
report("an elementwise operation leaves the plateau at … elements", doubled / 2)

sides = np.unique(np.geomspace(1, SIDES[-1], 60).astype(int)).tolist()
models = {
    "model, elementwise": (ELEMENTS, [bound(m.work, fit).time_s for m in sums]),
    "model, matmul": (np.square(sides), [bound(costs.matmul(n, n, n, "fp32"), fit).time_s for n in sides]),
}
knees = {"knee, elementwise": knee_overhead_bytes(fit) / 8, "knee, matmul": matmul_leaves_overhead(fit, "fp32") ** 2}
near = [0.5 <= m.median_s / bound(m.work, fit).time_s <= 2 for m in sums + squares]
plots.curves(
    ELEMENTS, {"elementwise": sums, "matmul": (np.square(SIDES), squares)}, bounds=models, marks=knees,
    key="three regimes", title=f"Three numbers predict {sum(near)} of {len(near)} times within a factor of two",
    x="elements of one operand", y="time per call",
)  # fmt: skip

# %% [markdown]
# Three numbers, and the model draws a plateau, two slopes and two knees. The title counts how many points came near.
#
# If they are few, and the line below the figure says that others computed meanwhile, look for a *second plateau*,
# high above the first. A kernel that runs on all cores waits for the one that somebody else has. So it lasts a turn
# of the scheduler, whatever its size, and its band is narrow, since all calls wait alike: no statistic of these times
# gives it away. Only the load does. What follows describes a machine of one's own.
#
# Where do the points leave the model? The small products do not lie on the plateau of the addition, and may even
# start below it. Our t₀ is an addition's, and a product goes through another library: t₀ belongs to a call, and not
# only to a device.
#
# Look also at the middle of the elementwise line, between the knee and the largest sizes. On a CPU some points may
# lie *below* the model: faster than the memory. The model may be crude, but nothing should beat a bound. On a large
# GPU hardly any may do so, because what fits into its cache takes about as long as one t₀, and the launch hides most
# of it. Hidden or not, it asks for an experiment, and the next section makes it.
#
# **Takeaway.** Measure t₀, β and π once, and a bound on the time of a new operation is a matter of counting its FLOPs
# and bytes.

# %% [markdown]
# ## A cache lies too
#
# A benchmark repeats the same call on the same buffer. A small buffer never leaves the cache after the first call, so
# from the second call on we time the cache and call it memory. The remedy is to **rotate**: as many buffers as no
# cache can hold, one after the other, so that each is gone before its turn comes again.
#
# We add to a buffer that fits into the last-level cache, once over and over, once rotating. (On a GPU the launch
# would hide the difference, so the calls are recorded as a graph and replayed.) The model knows one memory and
# expects no difference.

# %%
SMALL = size(cpu=2**18, gpu=2**22)  # elements of one buffer, of four bytes each
COPIES = max(8, math.ceil((device.cache_bytes or 2**26) / SMALL))  # together at least four times the cache
clock = GraphClock(unroll=COPIES) if device.torch == "cuda" else "host"  # a launch takes longer than a cached buffer
predict("one buffer, over and over, shows a bandwidth … times that of rotating buffers", unit="x", model=1.0)

# %%
buffers = [torch.randn(SMALL, device=device.torch) for _ in range(COPIES)]
in_place = costs.elementwise(SMALL, dtype="fp32")  # each element is read once and written once
chosen = {"one buffer": buffers[:1], f"{COPIES} buffers in rotation": buffers}
turns = {name: cycle(some) for name, some in chosen.items()}
calls = {name: lambda turn=turn: next(turn).add_(1.0) for name, turn in turns.items()}
times = measure_all(calls, in_place, clock=clock, budget_s=1)
same, rotating = times.values()

report("one buffer, over and over, shows a bandwidth … times that of rotating buffers", rotating / same)
tables.table(times | {f"one of {large.work.bytes / 2e6:,.0f} MB": large}, columns=["median_s", "bytes_per_s"])

# %% [markdown]
# Where the ratio in the first table is above 1, the single small buffer beats the rotating ones by it, and none of
# that speed belongs to the memory. (Where it is not, the buffer found no room in a cache that others fill too, or
# each call waited for a core that others had. The line below the table tells.) The rotating ones may stay somewhat
# below the large buffer, which no cache can hold: a small buffer also pays for starting and ending. So a point of the
# three regimes that dipped below the model is no miracle: the model's β is the memory's, and that addition never went
# to memory.
#
# Which of the two numbers is right? Both: a kernel whose input was just written by the kernel before it finds it in
# the cache, a step that walks through all its weights does not. What is wrong is to report the first and call it
# memory bandwidth. (Each of the two candidates has its own rotation, for they are timed in turn. For a single one
# `measure(..., inputs=[...])` rotates, and `measure(..., cold=True)` overwrites the caches before
# each call.) A reported bandwidth above the memory's own is a sure sign that something is wrong: the cache answered,
# or nobody waited, or the bytes were miscounted.
#
# **Takeaway.** Ask of every bandwidth: could this buffer have stayed in a cache?

# %% [markdown]
# ## A whole step
#
# Now the thing itself: a training step of a small multilayer perceptron, forward, backward and update. It is a
# sequence of kernels: a product per layer going forward and two coming back (one for the first layer), with
# elementwise operations between them. `costs.mlp_parts` lists each with its FLOPs and bytes. The device works them
# off one after another, while the host prepares the next one, so for a step of kernels with work (Wᵢ, Qᵢ) the model
# says
#
# $$t = \max\left(\sum_i t_0,\ \sum_i \max\left(\frac{Q_i}{\beta}, \frac{W_i}{\pi}\right)\right)$$
#
# At batch 1 there is next to no arithmetic, and what remains does not depend on the batch: the launches, or the
# reading of the weights, whichever takes longer. (Wide layers on a fast chip have so many weights that it is the
# second.) As the batch grows, arithmetic and activations catch up, and from there on a larger batch costs more time.
# We read that knee off where the step takes twice as long as at batch 1. At half of that batch it takes at most half
# as long again.


# %%
def parts(batch):
    return costs.mlp_parts(WIDTHS, batch, "fp32", training=True).values()


fine = np.unique(np.geomspace(1, BATCHES[-1], 200).astype(int)).tolist()
free_batch = leaves_plateau(fine, [sequence_time_s(parts(b), fit) for b in fine])
predict("the eager step takes twice as long as at batch 1 from batch … on", model=free_batch)

# %% [markdown]
# The step itself is ordinary code. Here it is in both frameworks, as the library has it:

# %%
show_source(torch_step)
show_source(jax_step)

# %%
makers = training_steps(WIDTHS, device)
by_batch = [measure_all({name: make(b) for name, make in makers.items()}, budget_s=0.4) for b in BATCHES]
steps = {name: [times[name] for times in by_batch] for name in makers}
times_s = [m.median_s for m in steps["torch eager"]]
report("the eager step takes twice as long as at batch 1 from batch … on", leaves_plateau(BATCHES, times_s))
low_s, last_s, share = min(times_s), times_s[-1], [b / BATCHES[-1] for b in BATCHES]
# An accelerator works beside the host, and the longer of the two decides; a CPU is its own host, and they add up.
own = [max(low_s, last_s * x) if device.is_accelerator else low_s + (last_s - low_s) * x for x in share]
print(f"A plateau and a slope through the step's lowest and last time: batch {leaves_plateau(BATCHES, own):,.0f}.")
rows = {
    f"batch {b:,}": {"regime, by the model": sequence_regime(parts(b), fit), "model_s": sequence_time_s(parts(b), fit),
                     "eager_s": eager.median_s, "eager / model": eager.median_s / sequence_time_s(parts(b), fit)}
    for b, eager in zip(BATCHES, steps["torch eager"], strict=True)
}  # fmt: skip
tables.table(rows, columns=list(rows["batch 1"]))

# %%
modelled = {"model": [row["model_s"] for row in rows.values()]}
title, labels = "Up to its knee a larger batch is nearly free", {"x": "batch", "y": "time per training step"}
plots.curves(BATCHES, steps, bounds=modelled, key="training step", title=title, **labels)

step = {"listed": costs.mlp(WIDTHS, 64, "fp32", training=True), "counted": count(makers["torch eager"](64))}
tables.table(step, columns=["launches", "flops", "bytes"], caption="a step at batch 64")

# %% [markdown]
# The table says in which regime the model sees each batch: as long as the launches are the longer sum, overhead;
# after that, what most of the device's time goes into. On a machine of one's own the shape of the curves is the
# model's: flat, then rising with the batch. The lines differ where the model is silent. The eager step starts far
# above its sum of t₀: our t₀ is the price of one bare call, and a training step pays for the autograd graph, the
# optimizer's bookkeeping and Python between the kernels as well.
#
# Where the measured knee lies far from the model's, is it the model's shape that is wrong, or its constants? The
# printed line keeps the shape, a plateau and a slope, and takes both from the step itself: from its lowest time, and
# from its time at the largest batch. Does it come nearer? Then most of the gap lay in the constants, and what remains
# is the shape's.
#
# `torch.compile` was given the loss. It compiles the loss's forward *and* backward pass, but as two programs. Between
# them stand autograd and the gradients, after them the optimizer in Python, and before each call a check that the
# compiled code still applies. We also asked for one program for all batches (`dynamic=True`), which forgoes what a
# fixed shape allows. So it may win little at batch 1, or even lose. JAX hands the device *one* program for the whole
# step, and Python is called once. It starts lowest: on a CPU even below the model, since its kernels are calls inside
# one program, while on a GPU each of them is still launched. And it leaves its plateau *earliest*, because there is
# less overhead to hide in. What separates the three at the largest batch is how well each library's kernels fit these
# shapes; and narrow layers, as on a CPU here, stay below a π that was measured at a large square, where wide ones
# reach the model.
#
# Did the model list the right kernels? The table counts those of the eager step, without a clock. FLOPs and bytes
# agree. The extra launches are autograd's, which starts from a gradient of one, and on a CPU the optimizer's: one for
# each of four parameters instead of one for all.
#
# **Takeaway.** Below its knee a step costs about the same at any batch: the arithmetic units idle. Find the knee
# before you buy a faster device, which would only idle more.

# %% [markdown]
# ## Drag the regimes
#
# The model has three numbers and one size. Start from this device, then drag. Halve the overhead and watch the
# plateau sink. Multiply the peak by ten: which sizes gain, and when does a stretch of bandwidth appear? Then choose
# the addition: does the peak matter at all?

# %%
widgets.regimes(fit)

# %% [markdown]
# ## What we learned
#
# 1. A call returns when the work is accepted. Wait for the result, or time nothing but the asking.
# 2. The first call measures compiling and loading: report it apart.
# 3. The median survives outliers; interleaving survives drift; rotation survives caches.
# 4. t = max(t₀, Q/β, W/π): three measured numbers say in which regime a step is before it runs.
# 5. Below the knee a larger batch is nearly free. Above it, time is work.

# %% [markdown]
# ## Go further
#
# * The lab of this series, [lab1_timer](../../labs/s1_measurement/lab1_timer.ipynb): write a benchmark function that
#   survives all of these traps at once, on a machine built to fool it.
# * The next unit, [How fast could it be?](u2_roofline.ipynb), turns β and π into the roofline.
# * Williams, Waterman and Patterson, *Roofline: An Insightful Visual Performance Model for Multicore Architectures*,
#   CACM 52(4), 2009.
# * Hoefler and Belli, *Scientific Benchmarking of Parallel Computing Systems: Twelve Ways to Tell the Masses When
#   Reporting Performance Results*, SC 2015: twelve rules, and why.
# * Le Boudec, *Performance Evaluation of Computer and Communication Systems*, EPFL Press 2010, chapter 2: confidence
#   intervals of a median.
# * CUDA C++ Programming Guide, section on asynchronous concurrent execution; JAX documentation, *Asynchronous
#   dispatch*; PyTorch documentation, `torch.utils.benchmark`.
