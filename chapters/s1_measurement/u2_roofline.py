# %% [markdown]
# # How fast could it be?
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({{ colab_url }})
# [![Binder](https://mybinder.org/badge_logo.svg)]({{ binder_url }})
#
# A kernel runs at 200 GFLOP/s. Is that good? For a matrix product on a large GPU it is a disaster, on two cores of a
# CPU as good as it gets, and for some operations it is more than the device can give. A rate means nothing before we
# know what was possible. This unit draws the line between the possible and the impossible, and puts the operations of
# deep learning under it.
#
# When this unit is done, we can
#
# 1. measure the two ceilings of a device and say how far they lie below its datasheet,
# 2. derive the arithmetic intensity of an operation and check it against a count,
# 3. bound any operation in a minute, on paper, on any chip,
# 4. name the cause when a measurement falls short of its bound, and move the point.
#
# As before: predict, measure, explain. Commit your guess before you run the measuring cell.

# %% [markdown]
# ## The device

# %%
import sys

if "google.colab" in sys.modules:
    # %pip install -q "rooflab @ {{ install_url }}"
    print("Rooflab is installed; torch, JAX and NumPy are Colab's own.")

# %%
from rooflab import open_unit

device = open_unit("s1_measurement/u2_roofline", needs=("torch", "jax"))

import jax
import jax.numpy as jnp
import torch
import torch.nn.functional as F

from rooflab import (
    bound,
    costs,
    count,
    measure,
    measure_all,
    plots,
    predict,
    report,
    size,
    specs,
    tables,
    widgets,
)
from rooflab.ceilings import matmul_rate, measured_ceilings
from rooflab.session import show_ceilings

# %%
FORMATS = [fmt for fmt in ("fp64", "fp32", "tf32", "bf16", "fp8") if device.supports(fmt)]
BYTES = size(cpu=[4**i for i in range(6, 14)] + [2**27], gpu=[4**i for i in range(7, 17)])  # buffers of the sweep
SIDES = size(cpu=[64, 128, 256, 512, 1024], gpu=[256, 512, 1024, 2048, 4096, 8192])  # matrix products
N = size(cpu=3072, gpu=16384)  # rows and columns of the large arrays
DTYPE = size(cpu="fp32", gpu="bf16")  # the format of all operations below
FLOAT = {"torch": size(cpu=torch.float32, gpu=torch.bfloat16), "JAX": size(cpu=jnp.float32, gpu=jnp.bfloat16)}

# %% [markdown]
# ## Two ceilings
#
# Whatever a kernel computes, its operands come from memory and its results go back. So there are two ceilings: how
# many bytes a second the memory moves, **β**, and how many FLOPs a second the units compute, **π**. A datasheet
# promises both. We trust measurements.
#
# For β we do as little arithmetic as possible: we copy, or add 1 in place, buffers of growing size. Each byte is read
# once and written once. Small buffers are all overhead, those in the middle live in a cache, and only the right end
# of the curve shows the memory. How much faster than memory does the best cache look? (We ask it of torch's
# addition.)

# %%
roof = measured_ceilings(device, fresh=True)  # measured now, and kept with the date for others to use
predict("the highest bandwidth of the sweep is … times that of the largest buffer", unit="x", model=1.0)

# %%
added_jax = jax.jit(lambda x: x + 1, donate_argnums=0)  # the argument is given away: JAX may work in place


def bandwidths(nbytes):
    x = torch.ones(nbytes // 4, device=device.torch)
    y, given = torch.empty_like(x), [jnp.ones(nbytes // 4)]

    def in_jax():
        given[0] = added_jax(given[0])
        return given[0]

    calls = {"torch, copy": lambda: y.copy_(x), "torch, add in place": lambda: x.add_(1), "JAX, add in place": in_jax}
    return measure_all(calls, costs.copy(nbytes // 4, "fp32"), budget_s=0.12)


sweep = [bandwidths(n) for n in BYTES]
series = {name: [m[name] for m in sweep] for name in sweep[0]}
rates = [m.bytes_per_s for m in series["torch, add in place"]]
report("the highest bandwidth of the sweep is … times that of the largest buffer", max(rates) / rates[-1])
plots.curves(
    BYTES, series, attribute="bytes_per_s", unit="B/s", x_unit="B", key="bandwidth sweep",
    bounds={"β, measured": [roof.bytes_per_s] * len(BYTES)},
    title="Only the right end of a bandwidth sweep is the memory",
    x="size of the buffer", y="bytes read and written per second",
)  # fmt: skip

# %% [markdown]
# The curves rise while the overhead shrinks beside the work. Where a cache holds the buffer they may stand above β,
# and at the right end they lie on it or somewhat below: β is the best of several runs and of several ways to move
# bytes. (JAX adds in place too, for its argument was given away; its program may still be slower.) At the right end,
# on a CPU, the copy lies below the addition in place, although both move the same bytes *by our count*. A CPU reads a
# line of memory before it overwrites part of it (**write-allocate**), so the copy moves three bytes for every two
# that we count. The addition has read its line anyway.
#
# For π we multiply matrices, in each format that the device has. On a GPU each product is timed alone, between two
# events and with flushed caches, as the benchmark in Triton's library does. Products back to back are another
# experiment: their operands may still be in a cache, and the chip sets its clock by its power.

# %%
products = {fmt: [matmul_rate(device, fmt, n) for n in SIDES] for fmt in FORMATS}
reached = {fmt: max(m.flops_per_s for m in sweep) for fmt, sweep in products.items()}
near = [m.flops_per_s >= 0.9 * reached[DTYPE] for m in products[DTYPE]]
full = next((n for at, n in enumerate(SIDES) if all(near[at:])), None)  # from here on all are near
message = f"near its peak from n = {full:,} on" if full else f"below its peak again at n = {SIDES[-1]:,}"

# %%
roof = roof.raised(bytes_per_s=max(times[-1].bytes_per_s for times in series.values()), flops_per_s=reached)
plots.curves(
    SIDES, products, attribute="flops_per_s", unit="FLOP/s", key="matmul sweep", x="side n of the matrices", y="FLOP/s",
    bounds={f"π, {DTYPE}": [roof.rate(DTYPE)] * len(SIDES)}, title=f"{DTYPE} is {message}",
)  # fmt: skip
show_ceilings(roof, device)

# %% [markdown]
# A ceiling that a measurement breaks through was none, so the roof is raised to the best of the sweeps. (Where a
# curve bends down at its right end, we suspect the clock again: a product that lasts long has time to heat the chip.)
#
# The row *launch* is the t₀ of the first unit: the time of a call with next to no work, here the cheaper of an
# addition and a product of a handful of numbers. It belongs to a call and to a run, and need not equal what the first
# unit found. Where there is a datasheet, we usually reach a part of it and not the whole. The peak of a format
# assumes the boost clock, and a chip at full load lowers its clock to stay within its power. The peak also assumes
# that every unit works in every cycle, while a real product has edges, and starts and ends. The memory loses a part
# to refreshing and to turning between reads and writes. From here on, π and β are the *measured* ones: a kernel
# should be compared with what this device does on its best day, not with a promise.
#
# **Takeaway.** Two numbers describe a device. Measure them with work that does nothing else, at sizes that leave
# overhead and caches behind.

# %% [markdown]
# ## Intensity
#
# Which ceiling holds an operation back? It does W FLOPs and moves at least Q bytes: each input read once, each output
# written once. Moving takes Q/β, computing takes W/π, and the two overlap. Arithmetic is the longer one if
#
# $$\frac{W}{\pi} > \frac{Q}{\beta} \quad\Longleftrightarrow\quad I = \frac{W}{Q} > \frac{\pi}{\beta}$$
#
# In the second inequality the left side belongs to the operation alone: its **arithmetic intensity** I, in FLOPs per
# byte. The right side belongs to the device alone: its **ridge point**. To compare the two says which ceiling is the
# lower one.
#
# Let s be the bytes of a number. `axpy` (y ← ax + y) does 2 FLOPs for each 3s bytes: I = 2/(3s). A sum does one for
# each s bytes. Softmax does about five and layer norm about seven for each 2s, GELU about five. A matrix-vector
# product uses each weight once: 2 FLOPs for s bytes. None of these depends on the size. In only two of our operations
# does reuse grow with it. The product of two n × n matrices does 2n³ FLOPs on 3n² numbers: I = 2n/(3s). Attention
# over L positions, if the scores never go to memory, does about 4L²d on 4Ld numbers per head: I = L/s. These two can
# be made as intense as we like, as long as the pieces that are reused fit on the chip.

# %%
TINY, SMALL, MEDIUM, LARGE = size(cpu=(16, 192, 768, 1536), gpu=(128, 512, 2048, 8192))  # sides of four products
SHORT, LONG = size(cpu=(256, 1024), gpu=(1024, 8192))  # lengths of two attentions, of 2 x 8 heads of 64
sides = {"matmul, tiny": TINY, "matmul, small": SMALL, "matmul, medium": MEDIUM, "matmul, large": LARGE}
lengths = {"attention, short": SHORT, "attention, long": LONG}


def operations(fmt):
    return {
        "axpy": costs.axpy(N * N, fmt),
        "sum": costs.reduction(N * N, fmt),
        "softmax": costs.softmax(N, N, fmt),
        "layer norm": costs.layer_norm(N, N, fmt),
        "GELU": costs.gelu(N * N, fmt),
        "matrix-vector": costs.matvec(N, N, fmt),
        **{name: costs.matmul(n, n, n, fmt) for name, n in sides.items()},
        **{name: costs.attention(2, 8, n, n, 64, fmt) for name, n in lengths.items()},
    }


works = operations(DTYPE)
above = sum(work.intensity > roof.ridge(DTYPE) for work in works.values())
predict(f"of these {len(works)} operations, … lie to the right of this device's ridge", model=above, out_of=len(works))


# %%
def random(*shape):
    return torch.randn(shape, device=device.torch, dtype=FLOAT["torch"])


# Used far below, and compiled here, before there are arrays: a compiler needs about as much memory as all of them.
fused_chain = torch.compile(lambda x, out: out.copy_(x * torch.sigmoid(x) + 0.5 * x))
_ = fused_chain(random(N, N), random(N, N))

x, y, gain, bias = random(N, N), random(N, N), random(N), random(N)
squares = {name: (random(n, n), random(n, n)) for name, n in sides.items()}
heads = {name: [random(2, 8, n, 64) for _ in "qkv"] for name, n in lengths.items()}
calls = {
    "axpy": lambda: y.add_(x, alpha=0.5),
    "sum": lambda: x.sum(),
    "softmax": lambda: x.softmax(-1),
    "layer norm": lambda: F.layer_norm(x, (N,), gain, bias),
    "GELU": lambda: F.gelu(x),
    "matrix-vector": lambda: x @ gain,
    **{name: lambda a=a, b=b: a @ b for name, (a, b) in squares.items()},
    **{name: lambda qkv=qkv: F.scaled_dot_product_attention(*qkv) for name, qkv in heads.items()},
}

# %%
counted = {name: count(call) for name, call in calls.items()}
rows = {
    name: {"derived_flops": w.flops, "counted_flops": counted[name].flops, "derived_bytes": w.bytes,
           "counted_bytes": counted[name].bytes, "intensity": w.intensity, "bound by": bound(w, roof).regime}
    for name, w in works.items()
}  # fmt: skip
report(
    f"of these {len(works)} operations, … lie to the right of this device's ridge",
    sum(c.intensity > roof.ridge(DTYPE) for c in counted.values()),
)
tables.table(rows, columns=list(rows["axpy"]), caption=f"ridge point in {DTYPE}: {roof.ridge(DTYPE):.3g} FLOP/byte")

# %% [markdown]
# Which operations ran, on which shapes, and how many bytes they touch comes from the framework: `count` runs the call
# once and sees each operation pass. How many FLOPs a softmax has, it does not say. For softmax, layer norm and GELU
# both columns use our convention, and their agreement proves only that one kernel ran.
#
# Note the last column. An operation to the left of the ridge is not always bound by bandwidth, nor one to the right
# by arithmetic, for there is a third limit that intensity does not see. The tiny product is over before the next call
# can be launched.
#
# **Takeaway.** Intensity is a property of the operation, the ridge point one of the device. Reuse makes intensity,
# and in products and attention it grows with the size.

# %% [markdown]
# ## The picture
#
# Put intensity on one axis and the rate on the other. The bound min(π, βI) becomes a sloped line and a flat one that
# meet at the ridge: the **roofline**. An operation is a point. Its x is derived, its y is measured, and the roof
# above it says how fast it could be.

# %%
measured = {name: measure(call, works[name], name=name, budget_s=0.25, min_samples=5) for name, call in calls.items()}
reached = {DTYPE: max(m.flops_per_s for m in measured.values())}
roof = roof.raised(bytes_per_s=measured["axpy"].bytes_per_s, flops_per_s=reached)
title = "What each operation could reach, and what it does reach"
plots.roofline(roof, measured, key="roofline", title=title, launches=lambda n: costs.matmul(n, n, n, DTYPE))

# %% [markdown]
# The roof was raised once more before it was drawn, and so was the grey one: π to the best rate that any operation of
# its run reached, β to that of axpy. (Most of axpy's bytes are read, which a CPU may do faster, and its arrays are
# too large for a cache.) Hollow points are the model: on the roof, or below it where the launch decides. The dotted
# line is that third roof, for square products that take one launch. Solid points are measured. Grey ones, unless this
# *is* the recorded device, are that device's, in its own format and at its larger sizes: the same order from left to
# right, at rates that are orders of magnitude apart. The picture is a property of the operations more than of the
# device.
#
# One roof is missing. The flat one is that of products, which are nothing but multiplications and additions.
# Operations that do something else, an exponential say, have a lower one of their own, and the next section runs into
# it.
#
# The same in numbers, with JAX beside torch. `jax.jit` compiles each function to a program of its own. We hand it its
# arrays as arguments; had it found them as constants, it would have computed the result once, while compiling.


# %%
def layer_norm_jax(x, gain, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * gain + bias


xj, yj, gj, bj = (jnp.asarray(t.float().cpu().numpy(), dtype=FLOAT["JAX"]) for t in (x, y, gain, bias))
aj = jnp.asarray(squares["matmul, large"][0].float().cpu().numpy(), dtype=FLOAT["JAX"])
programs = {
    "axpy": (lambda y, x: y + 0.5 * x, yj, xj),
    "sum": (jnp.sum, xj),
    "softmax": (jax.nn.softmax, xj),
    "layer norm": (layer_norm_jax, xj, gj, bj),
    "GELU": (lambda x: jax.nn.gelu(x, approximate=False), xj),
    "matrix-vector": (jnp.matmul, xj, gj),
    "matmul, large": (jnp.matmul, aj, aj),
}
rows = {}
for name, (function, *arrays) in programs.items():
    program = jax.jit(function)
    jitted = measure(lambda p=program, a=arrays: p(*a), works[name], name=name, budget_s=0.25, min_samples=5)
    best_s, torch_s = bound(works[name], roof).time_s, measured[name].median_s
    rows[name] = {"bound_s": best_s, "torch_s": torch_s, "JAX_s": jitted.median_s,
                  "torch / bound": torch_s / best_s, "JAX / bound": jitted.median_s / best_s}  # fmt: skip
tables.table(rows, columns=list(rows["axpy"]))

# %% [markdown]
# A ratio near 1 leaves nothing to gain. (It may lie a little below: β and π were measured at other sizes.) Large
# ratios are questions. Who is far off on this device, and what do they have in common? (Attention in the figure we
# leave as a question. On a large GPU the short one is mostly launch, and the long one computes many exponentials
# beside its products.)
#
# **Takeaway.** The roofline turns "how fast?" into "how far below what is possible?", and the distance is a question
# with an answer.

# %% [markdown]
# ## Those that fall short
#
# Four causes are common enough to look for first. For each there is an experiment that removes the cause and leaves
# the rest as it is. We describe all four, guess, and then measure.
#
# **Allocation.** Softmax returns a *new* array. On a GPU, torch's allocator keeps freed memory and hands it out
# again. On a CPU a large array comes from the operating system, page by page, each page cleared before we get it. So
# we write the same softmax into an array that is there already. The bytes that the model counts are the same: it
# expects no change.
#
# **Overhead.** The tiny product lies far below the roof. If the launch is to blame, then many products in *one* call
# must come at nearly the price of their work, or of one launch, whichever is longer. We run 256 of them, as a loop
# and as one batched call.
#
# **Waste.** A kernel may move more bytes than it uses. Memory is not read by the number. It comes in lines: 64 bytes
# on most CPUs, sectors of 32 bytes on NVIDIA's GPUs. We add 1 to every eighth number of a buffer. That is an eighth
# of the work and an eighth of the bytes *used*, so a bound from used bytes promises an eighth of the time. Beside it
# we add 1 to as many numbers that lie together, which removes the cause.
#
# **Chains.** An eager framework runs one kernel for each operation, and each reads its input from memory and writes
# its output back. The chain x·σ(x) + x/2 is four kernels, with several times the traffic of one that reads x once. A
# compiler fuses them. If traffic is the cause, the gain must be the ratio of the bytes. (Both chains write into
# arrays that are there already: allocation has had its turn.)


# %%
given, u, v = (torch.empty_like(x) for _ in range(3))  # written into: nothing is allocated while the clock runs


def eager_chain():
    torch.sigmoid(x, out=given)
    torch.mul(x, given, out=u)
    torch.mul(x, 0.5, out=v)
    return torch.add(u, v, out=given)


many, loop = random(256, TINY, TINY), 256 * works["matmul, tiny"]
one_call = costs.matmul(TINY, TINY, TINY, DTYPE, batch=256)
eager, fused = count(eager_chain), costs.elementwise(N * N, dtype=DTYPE, flops_per_element=4)
speedup = bound(loop, roof).time_s / bound(one_call, roof).time_s
predict("softmax into a new array takes … times as long as into a given one", unit="x", model=1.0)
predict("a loop over tiny products takes … times as long as one batched call", unit="x", model=speedup)
predict("adding 1 to every eighth number takes … times as long as to all", unit="x", model=1 / 8)
predict("fusing the chain makes it … times as fast", unit="x", model=eager.bytes / fused.bytes)

# %%
into = {"new": lambda: x.softmax(-1), "given": lambda: torch.softmax(x, -1, out=given)}
made = measure_all(into | {"exp alone": lambda: torch.exp(x, out=given)}, works["softmax"], min_samples=5)
tiny = measure_all({"loop": lambda: [m @ m for m in many], "one call": lambda: many @ many})
report("softmax into a new array takes … times as long as into a given one", made["new"] / made["given"])
report("a loop over tiny products takes … times as long as one batched call", tiny["loop"] / tiny["one call"])
tables.table(made, columns=["median_s", "bytes_per_s"], caption=f"the memory's β: {roof.bytes_per_s / 1e9:,.0f} GB/s")

# %% [markdown]
# The first table says what a new array costs *here*. JAX arrays are immutable, so a JAX function always makes a new
# one, unless its argument is given away, as in the sweep at the beginning.
#
# The second says how much of a tiny product is launch. Its two times may lie on either side of the model's, since a
# product and its library have a t₀ of their own; the *ratio* can agree when neither time does.
#
# The third goes on with what is left of the softmax once it writes into a given array. Beside it stands nothing but
# an exponential of the same array. Where the two take nearly the same time, as on a CPU, the exponential is the
# limit: we counted it as *one* FLOP, and it is many instructions. Where the exponential runs at the memory's speed,
# something else holds the softmax back. We suspect the sum over the row, which has to be there before the first
# result can be written, for the layer norm has such a sum too, and falls short as well.

# %%
buffer = torch.ones(size(cpu=2**26, gpu=2**29), device=device.torch)
parts = {"all": buffer, "every eighth": buffer[::8], "the first eighth": buffer[: len(buffer) // 8]}
every = measure_all({name: lambda part=part: part.add_(1) for name, part in parts.items()}, min_samples=5)
report("adding 1 to every eighth number takes … times as long as to all", every["every eighth"] / every["all"])
tables.table(every, columns=["median_s"])

# %% [markdown]
# Eight times less work, and the time hardly changes, unless the numbers lie together. (A cache that can hold the
# first eighth makes it faster still.) The count of *used* bytes was the wrong count. The right one counts the sectors
# that are touched, and it takes no clock: `moved` works it out from the addresses. Where Triton's interpreter runs, a
# real kernel is counted beside it, load by load and store by store.

# %%
few, traffic = torch.ones(2**13), {}


def moved(step, sector=32):
    """Bytes of the sectors that hold every step-th number in fp32, read and written."""
    return 2 * sector * len({4 * i // sector for i in range(0, len(few), step)})


for step in (1, 2, 4, 8, 16):
    traffic[f"every {step}"] = {
        "bytes_used": 2 * 4 * len(few[::step]),
        "bytes_moved": moved(step),
        "counted_bytes_moved": None,
    }
try:
    import triton
    import triton.language as tl

    @triton.jit
    def add_one(x, n, step: tl.constexpr, BLOCK: tl.constexpr):
        i = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) * step
        tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

    for step in (1, 2, 4, 8, 16):
        kernel = count(lambda s=step: add_one[(len(few) // s // 256,)](few, len(few), s, 256))
        traffic[f"every {step}"]["counted_bytes_moved"] = kernel.bytes_moved
except (ImportError, RuntimeError) as reason:
    print(f"No kernel is counted here. {reason}")
tables.table(traffic, columns=list(traffic["every 1"]), caption="adding 1 to every k-th of 8,192 numbers in fp32")

# %% [markdown]
# Up to the width of a sector, every number that we skip is moved all the same. Past it, whole sectors stay untouched
# and the waste stops growing. A CPU's line is twice as wide. The true intensity divides by the bytes *moved*, and the
# point slides to the left until it lies on the slope again.
#
# Now the chain: its four kernels as the framework ran them, and the same chain compiled to one.

# %%
chains = measure_all({"eager": eager_chain, "compiled": lambda: fused_chain(x, given)}, min_samples=5)
report("fusing the chain makes it … times as fast", chains["eager"] / chains["compiled"])
kernels = {row["name"]: row for row in eager.rows()} | {"all four": eager, "one kernel (derived)": fused}
tables.table(kernels, columns=["launches", "flops", "bytes"])

# %% [markdown]
# Where the gain falls short of the bytes, the one kernel has met another limit: on a CPU the exponential in σ.
#
# **Takeaway.** Below the roof, ask four questions. Is it the launch? Is it the allocation? Are more bytes moved than
# used? Are there more kernels than needed? Each has an experiment that removes the cause and watches the time.

# %% [markdown]
# ## Moving a point
#
# An operation that lies *on* the slope gets faster only if it moves: by more FLOPs for the same bytes, or by fewer
# bytes for the same FLOPs. Fusing did the second. A smaller number format does it too, and raises the flat roof
# besides: half the bytes for each number, so half the time on the slope.
#
# The first is what batching does. A matrix-vector product reads each weight for one multiplication. With a batch of b
# vectors it is read once for b of them, so that I ≈ 2b/s until the vectors weigh as much as the matrix. A language
# model that writes one text reads all its weights for each token. From which batch on would it be bound by
# arithmetic?


# %%
vectors = {f"batch {2**i:,}": random(2**i, N) for i in range(0, size(cpu=10, gpu=15), size(cpu=1, gpu=2))}
batched = {name: costs.matmul(len(v), N, N, DTYPE) for name, v in vectors.items()}
wide, wide_vector = (t.to(size(cpu=torch.float64, gpu=torch.float32)) for t in (x, gain))
ridge_batch = next(b for b in range(1, 10**5) if costs.matmul(b, N, N, DTYPE).intensity >= roof.ridge(DTYPE))
predict("a batch of … brings the product of vectors with a matrix to the ridge", model=ridge_batch)
predict("in half the format the matrix-vector product is … times as fast", unit="x", model=2.0)

# %%
moving = {b: measure(lambda v=v: v @ x, batched[b], min_samples=5) for b, v in vectors.items()}
near = [len(vectors[b]) for b, m in moving.items() if m.flops_per_s > 0.7 * roof.rate(DTYPE)] or [float("nan")]
halved = measure_all({"wide": lambda: wide @ wide_vector, "half": lambda: x @ gain}, min_samples=5)
report("a batch of … brings the product of vectors with a matrix to the ridge", near[0])
report("in half the format the matrix-vector product is … times as fast", halved["wide"] / halved["half"])
plots.roofline(roof, moving, key="batches", title="A batch moves the point from the slope to the flat roof")

# %% [markdown]
# (Measured is the first batch of the sweep that reaches seven tenths of π, and – if none does. A point above the flat
# roof is a product whose shape suits the library even better than all before it: π was still too low.) To the left
# of the ridge the model gives all batches the *same time*: the time to read the matrix. Each vector more is free,
# which is why a server gathers requests before it multiplies. Do the solid points agree? Where a thin batch falls far
# behind its hollow twin, we suspect that the library has no kernel made for it, and here is something left to win.
#
# **Takeaway.** On the slope only moving helps: batch, fuse, or shrink the numbers.

# %% [markdown]
# ## Other chips
#
# Nothing in the picture is special to this device. Given two rows of a datasheet we can redo it for any chip. The
# ridge points of the figure below, in the dense rate of bf16, lie closer together than the rates behind them: who
# builds faster units must buy faster memory. But units have had the lead, as the H100 beside the A100 shows. The two
# lines are products of a batch of 16 and of 400 vectors with a square matrix of 8,192 rows. A chip whose bar ends
# left of a line is bound by arithmetic there, one whose bar reaches past it by bandwidth. A batch of 16 is bound by
# bandwidth on all of them. A batch of 400 is not so clear: the same program, with the same bytes and the same FLOPs,
# wants a faster memory on one chip and faster units on another. So "is it memory-bound?" is no question about a
# program. It is a question about a program and a chip.
#
# The table takes all operations of this unit, in bf16 and in the sizes of this device, to every chip of `chips.toml`
# that has the format. Most of them never change sides, and most for a reason that we know: their intensity does not
# depend on a size, so no reuse lifts it to any ridge. Only a row with two counts above zero asks for a chip before it
# can be answered.
#
# Below the table is an explorer. Pick a chip, a format and sizes, and drag. Find a layer norm that is bound by
# arithmetic (one chip and one format do it: whose fp64 was given up?). Find the batch at which the product flips,
# then choose fp8 and see where it flips now.

# %%
SHOWN = ["a100-sxm4-80gb", "h100-sxm", "h200", "b200", "mi300x", "mi355x", "tpu-v5e", "tpu-v6e", "tpu7x", "gaudi3",
         "trainium2", "rtx-4090"]  # fmt: skip
rows_of = {row.id: row for row in specs.chips()}
chosen = sorted((rows_of[name] for name in SHOWN), key=lambda row: row.ridge("bf16"))
decode, prefill = costs.matmul(16, 8192, 8192, "bf16"), costs.matmul(400, 8192, 8192, "bf16")
plots.bars(
    {row.name: row.ridge("bf16") for row in chosen}, unit="",
    marks={"batch 16": decode.intensity, "batch 400": prefill.intensity},
    title="A product of batch 400 changes sides from chip to chip", y="ridge point in bf16 (FLOP/byte)",
)  # fmt: skip
ridges = [row.ridge("bf16") for row in rows_of.values() if "bf16" in row.flops_per_s]
rows = {
    name: {"intensity": work.intensity, "chips on which bandwidth binds": sum(work.intensity <= r for r in ridges),
           "on which arithmetic does": sum(work.intensity > r for r in ridges)}
    for name, work in (operations("bf16") | {"batch 16": decode, "batch 400": prefill}).items()
}  # fmt: skip
tables.table(rows, columns=list(rows["axpy"]), caption=f"of {len(ridges)} chips; launches are left aside")
widgets.roofline(roof)

# %% [markdown]
# ## What we learned
#
# 1. Two measured ceilings, β and π, describe a device; their ratio is its ridge point.
# 2. W/Q describes an operation. Left of the ridge memory is the limit, right of it arithmetic, unless the launch is.
# 3. The bound is max(t₀, Q/β, W/π): a minute on paper, for any operation on any chip. A rate is good or bad beside
#    its bound only.
# 4. Below the roof look for launches, allocation, wasted bytes and unfused kernels, and prove the cause by removing
#    it.
# 5. On the slope move the point: batch, fuse, shrink.

# %% [markdown]
# ## Go further
#
# * The lab of this series, [lab1_timer](../../labs/s1_measurement/lab1_timer.ipynb), and the unit before this one,
#   [What does a step cost?](u1_step_cost.ipynb).
# * Williams, Waterman and Patterson, *Roofline: An Insightful Visual Performance Model for Multicore Architectures*,
#   CACM 52(4), 2009: the paper that drew the picture.
# * Ilic, Pratas and Sousa, *Cache-Aware Roofline Model: Upgrading the Loft*, IEEE Computer Architecture Letters
#   13(1), 2014; Yang, Kurth and Williams, *Hierarchical Roofline Analysis for GPUs: Accelerating Performance
#   Optimization for the NERSC-9 Perlmutter System*, CCPE 32(20), 2020: one roof for each level of memory.
# * Ivanov et al., *Data Movement Is All You Need: A Case Study on Optimizing Transformers*, MLSys 2021: the same
#   question for a whole transformer.
# * The datasheets behind every number of the chip table are named in its rows: `specs.chip("h200").source`.
