# mypy: disallow-untyped-defs=False
"""Backward of RMS norm and layer norm over rows that do not fit into registers beside the sums over all rows.

The mathematics is that of :mod:`rooflab.kernels.rows.triton_norm`. A multiprocessor has 65,536 registers. Of a row of
16,384 the sums for w and b take 32,768, x and dy as many again, and nothing is left: registers spill.

So a row is read twice. The first time leaves two numbers of it, mean(n g) and mean(g); the second time, from the
nearest cache, is for dx and the sums. Memory still moves 3 s n bytes, but nothing of a row stays in registers in
between. Where the sums alone are too many, PARTS programs share the columns: each reads the whole row first, then its
part again, and since they stand side by side the row comes from memory once.

A program would leave memory idle between its two readings. So it asks for the next row before, into the cache that all
share: no registers are needed for that.

>>> long_norm_backward_kernel.__name__
'long_norm_backward_kernel'
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents

from ..triton_prefetch import prefetch
from .triton_norm import add_pairs

__all__ = ["long_norm_backward_kernel"]


@triton.jit
def fetch(row, start, cols, COLS: tl.constexpr):
    """Have NVIDIA's chips bring COLS numbers from memory to the cache of all, a line of 128 bytes for each thread."""
    LINE: tl.constexpr = 1024 // row.dtype.element_ty.primitive_bitwidth
    prefetch(row + tl.minimum(start + tl.arange(0, COLS // LINE) * LINE, cols - 1))


@triton.jit
def read(first, c, cols, policy: tl.constexpr):
    return tl.load(first + c, mask=c < cols, other=0.0, eviction_policy=policy).to(tl.float32)


@triton.jit
def keep(parts, sums, c, cols):
    tl.store(parts + tl.program_id(1).to(tl.int64) * cols + c, sums, mask=c < cols)


@triton.jit
def long_norm_backward_kernel(
    dx, dw_parts, db_parts, dy, dh, x, w, mean, rstd, rows, cols, dy_step, dh_step, x_step,
    RESIDUAL: tl.constexpr, CENTRED: tl.constexpr, BIAS: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr,
    PARTS: tl.constexpr, AHEAD: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """The gradient with regard to x, and each program's part of those with regard to w and b, in BLOCKS of columns."""
    if CHAINED:
        gdc_launch_dependents()
    one = tl.arange(0, BLOCK)
    own = tl.program_id(0) * BLOCKS * BLOCK
    sums = (tl.zeros([BLOCK], tl.float32),) * ((1 + BIAS) * BLOCKS)  # of the blocks for w, then for b
    for row in range(tl.program_id(1), rows, tl.num_programs(1)):
        r = tl.zeros([], tl.int64) + row
        if AHEAD and row + tl.num_programs(1) < rows:
            fetch(x + (r + tl.num_programs(1)) * x_step, own, cols, BLOCKS * BLOCK)
            fetch(dy + (r + tl.num_programs(1)) * dy_step, own, cols, BLOCKS * BLOCK)
        s = tl.load(rstd + r)
        m = tl.load(mean + r) if CENTRED else 0.0
        along = tl.zeros([BLOCK], tl.float32)
        total = tl.zeros([BLOCK], tl.float32)
        # Unrolled as a whole, its loads would come first, all of them, and there are not that many registers.
        for block in tl.range(PARTS * BLOCKS, loop_unroll_factor=2):
            c = block * BLOCK + one
            g = read(dy + r * dy_step, c, cols, "evict_last") * read(w, c, cols, "evict_last")
            along += (read(x + r * x_step, c, cols, "evict_last") - m) * g
            total += g
        if CENTRED:
            a, t = tl.reduce((along, total), 0, add_pairs)
        else:
            a, t = tl.sum(along, 0), 0.0
        a, t = a * s * s * s / cols, t * s / cols
        dw = ()
        db = ()
        for block in tl.static_range(BLOCKS):
            c = own + block * BLOCK + one
            # Another policy, too, so that the compiler does not take these loads for the ones above.
            above = read(x + r * x_step, c, cols, "evict_first") - m
            g = read(dy + r * dy_step, c, cols, "evict_first")
            if BIAS:
                db += (sums[BLOCKS + block] + g,)  # type: ignore[assignment]
            g *= s
            dw += (sums[block] + g * above,)  # type: ignore[assignment]
            d = g * read(w, c, cols, "") - (above * a + t)
            if RESIDUAL:
                d += read(dh + r * dh_step, c, cols, "")
            tl.store(dx + r * cols + c, d, mask=c < cols)
        sums = dw + db
    for block in tl.static_range(BLOCKS):
        keep(dw_parts, sums[block], own + block * BLOCK + one, cols)
        if BIAS:
            keep(db_parts, sums[BLOCKS + block], own + block * BLOCK + one, cols)
