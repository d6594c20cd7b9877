# mypy: disallow-untyped-defs=False
"""Cross-entropy of logits that are there, its gradient, and a soft cap on them: the row is read twice and written once.

    u = c tanh(z / c)   (or u = z)      loss = log sum exp u - u[target]
    dz = (softmax(u) - onehot(target)) (1 - (u / c)^2)

z [N, V] in s bytes. Once through memory would be 2 s N V bytes: a program has a row of some 100 kB, so few rows are in
work at a time that the second reading finds them in the cache. What else takes time are the special functions, 16 a
clock on each multiprocessor of NVIDIA's. So many of them an H200 has time for while a logit of 2 bytes is read and
written:

>>> round(132 * 16 * 1.75e9 / (4.2e12 / 4), 1)
3.5

With a cap there are four, one for each tanh and each exponential, which is why tanh is an instruction here: by
exponentials there would be six. Its error of 2^-11 is a quarter of what logits in bf16 are off by anyway. A cap also
makes the maximum unnecessary: e^c is no large number.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["cross_entropy_kernel"]

LOG2E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)


@triton.jit
def tanh_of(x, INSTRUCTION: tl.constexpr):
    """tanh in fp32, by NVIDIA's instruction for it (relative error 2^-11) or by an exponential."""
    if INSTRUCTION:
        y = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        y = 1.0 - 2.0 / (1.0 + tl.exp2(x * (2.0 * LOG2E)))
    return y


@triton.jit
def cross_entropy_kernel(
    losses, dz, z, targets, V, z_step, dz_step, cap, ignored,
    CAPPED: tl.constexpr, INSTRUCTION: tl.constexpr, GRADIENT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row: its loss, and with GRADIENT the gradient of that loss.

    Maximum and sum are kept for each lane until the end of the row. A target that is no word makes the loss NaN.
    """
    row = tl.program_id(0).to(tl.int64)
    z += row * z_step
    i = tl.arange(0, BLOCK)
    once = 1.0 / cap
    most, total = tl.full([BLOCK], -float("inf"), tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in range(0, V, BLOCK):
        x = tl.load(z + start + i, mask=start + i < V, other=-float("inf")).to(tl.float32)
        if CAPPED:
            e = tl.exp2(tanh_of(x * once, INSTRUCTION) * cap * LOG2E)
            total += tl.where(start + i < V, e, 0.0)
        else:
            larger = tl.maximum(most, tl.where(x == x, x, -float("inf")))
            shift = tl.where(larger == -float("inf"), 0.0, larger)  # -inf - -inf would be NaN
            total = total * tl.exp2((most - shift) * LOG2E) + tl.exp2((x - shift) * LOG2E)
            most = larger
    if CAPPED:
        highest = 0.0
    else:
        highest = tl.max(most, 0)
        highest = tl.where(highest == -float("inf"), 0.0, highest)
        total = total * tl.exp2((most - highest) * LOG2E)
    sums = tl.sum(total, 0)
    target = tl.load(targets + row)
    is_word, counts = (target >= 0) & (target < V), target != ignored
    right = tl.load(z + target, mask=is_word & counts, other=float("nan")).to(tl.float32)
    if CAPPED:
        right = tanh_of(right * once, INSTRUCTION) * cap
    tl.store(losses + row, tl.where(counts, highest + tl.log2(sums) * LN2 - right, 0.0))
    if GRADIENT:
        dz += row * dz_step
        part = tl.where(counts, 1.0 / sums, 0.0)
        one = tl.where(counts, 1.0, 0.0)
        for start in range(0, V, BLOCK):
            x = tl.load(z + start + i, mask=start + i < V, other=0.0).to(tl.float32)
            t = x
            if CAPPED:
                t = tanh_of(x * once, INSTRUCTION)
                x = t * cap
            g = tl.exp2((x - highest) * LOG2E) * part - tl.where(start + i == target, one, 0.0)
            if CAPPED:
                g *= 1.0 - t * t
            g = tl.where(counts, g, 0.0)  # also where the logits are no numbers
            tl.store(dz + start + i, g.to(dz.dtype.element_ty), mask=start + i < V)
