# mypy: disallow-untyped-defs=False
"""Cross-entropy of logits that are there, its gradient, and a soft cap on them: the row is read twice and written once.

    u = c tanh(z / c)   (or u = z)      loss = log sum exp u - u[target]
    dz = (softmax(u) - onehot(target)) (1 - (u / c)^2)

z [N, V] in s bytes. Once through memory would be 2 s N V bytes. A row of 50,304 words in bf16 has 100 kB, and the
second reading finds it in the cache of all if few rows are in work at a time: two programs of 1,024 threads fill each
of 132 multiprocessors, and have 27 MB in work. The second reading goes backwards, for what was read last is what the
cache still has; what it has read and what is written is the first to leave the cache. With 16 programs of 128 threads
it would be 212 MB, four times what an H200's holds:

>>> [round(programs * 132 * 50_304 * 2 / 1e6) for programs in (2, 16)]
[27, 212]

What else takes time are the special functions, 16 a clock on each multiprocessor of NVIDIA's. So many of them an H200
has time for while a logit of 2 bytes is read and written:

>>> round(132 * 16 * 1.75e9 / (4.2e12 / 4), 1)
3.5

Without a cap there are 2.1: the largest logit so far is kept for eight at a time, the 16 bytes that a thread loads, and
a larger one scales down the sum so far. With a cap there are four, one for each tanh and each exponential, which is why
tanh is an instruction here: by exponentials there would be six. Its error of 2^-11 is a quarter of what logits in bf16
are off by anyway. A cap also makes the maximum unnecessary: e^c is no large number.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["cross_entropy_kernel"]

LOG2E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)
LOWEST = tl.constexpr(-3.4028234663852886e38)  # finite, since -inf - -inf would be NaN


@triton.jit
def tanh_of(x, INSTRUCTION: tl.constexpr):
    """tanh in fp32, by NVIDIA's instruction for it (relative error 2^-11) or by an exponential."""
    if INSTRUCTION:
        y = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        y = 1.0 - 2.0 / (1.0 + tl.exp2(x * (2.0 * LOG2E)))
    return y


@triton.jit
def capped_log_sum(z, i, V, cap, INSTRUCTION: tl.constexpr):
    """log2 sum exp u of a row, in blocks of indices i."""
    once, scale = 1.0 / cap, cap * LOG2E
    total = tl.zeros([i.shape[0]], tl.float32)
    for start in range(0, V, i.numel):
        x = tl.load(z + start + i, mask=start + i < V, other=0.0).to(tl.float32)
        e = tl.exp2(tanh_of(x * once, INSTRUCTION) * scale)
        total += tl.sum(tl.where(start + i < V, e, 0.0), 1)
    return tl.log2(tl.sum(total, 0))


@triton.jit
def highest_and_log_sum(z, i, V):
    """Maximum of a row, and log2 sum exp (z - maximum), in blocks of indices i; the rows of i meet at the end."""
    most, total = tl.full([i.shape[0]], LOWEST, tl.float32), tl.zeros([i.shape[0]], tl.float32)
    for start in range(0, V, i.numel):
        x = tl.load(z + start + i, mask=start + i < V, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(most, tl.max(x, 1))  # may pass over NaN: the sum does not
        total = total * tl.exp2((most - larger) * LOG2E) + tl.sum(tl.exp2((x - larger[:, None]) * LOG2E), 1)
        most = larger
    highest = tl.max(most, 0)
    return highest, tl.log2(tl.sum(total * tl.exp2((most - highest) * LOG2E), 0))


@triton.jit
def softmax_of(x, highest, log_sum, cap, CAPPED: tl.constexpr, INSTRUCTION: tl.constexpr):
    """softmax(u), with a cap times the derivative of u."""
    if CAPPED:
        t = tanh_of(x * (1.0 / cap), INSTRUCTION)
        p = tl.exp2(t * (cap * LOG2E) - log_sum) * (1.0 - t * t)
    else:
        p = tl.exp2((x - highest) * LOG2E - log_sum)
    return p


@triton.jit
def cross_entropy_kernel(
    losses, dz, z, targets, V, z_step, dz_step, cap, ignored,
    CAPPED: tl.constexpr, INSTRUCTION: tl.constexpr, GRADIENT: tl.constexpr, BLOCK: tl.constexpr, EACH: tl.constexpr,
):  # fmt: skip
    """One row: its loss, and with GRADIENT the gradient of that loss. A target that is no word makes the loss NaN.

    EACH neighbours of a block have one maximum: as many as a thread loads at a time, so that it needs no other thread.
    """
    row = tl.program_id(0).to(tl.int64)
    z += row * z_step
    dz += row * dz_step
    i = EACH * tl.arange(0, BLOCK // EACH)[:, None] + tl.arange(0, EACH)[None, :]
    target = tl.load(targets + row)
    if target == ignored:
        tl.store(losses + row, 0.0)
        if GRADIENT:
            for start in range(0, V, BLOCK):
                tl.store(dz + start + i, tl.zeros(i.shape, dz.dtype.element_ty), mask=start + i < V)
    else:
        is_word = (target >= 0) & (target < V)
        right = tl.load(z + target, mask=is_word, other=float("nan")).to(tl.float32)
        slope = 1.0
        if CAPPED:
            highest, log_sum = 0.0, capped_log_sum(z, i, V, cap, INSTRUCTION)
            t = tanh_of(right * (1.0 / cap), INSTRUCTION)
            right, slope = t * cap, 1.0 - t * t
        else:
            highest, log_sum = highest_and_log_sum(z, i, V)
        tl.store(losses + row, (highest - right) + log_sum * LN2)
        if GRADIENT:
            for back in range(0, V, BLOCK):
                c = (tl.cdiv(V, BLOCK) - 1) * BLOCK - back + i
                x = tl.load(z + c, mask=c < V, other=0.0, eviction_policy="evict_first").to(tl.float32)
                g = softmax_of(x, highest, log_sum, cap, CAPPED, INSTRUCTION)
                tl.store(dz + c, g.to(dz.dtype.element_ty), mask=c < V, eviction_policy="evict_first")
            tl.debug_barrier()  # the target's gradient was written by one thread, and is replaced by another
            g = (tl.exp2((right - highest) * LOG2E - log_sum) - 1.0) * slope
            tl.store(dz + target, g.to(dz.dtype.element_ty), mask=is_word)
