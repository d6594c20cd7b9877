# mypy: disallow-untyped-defs=False
"""Forward of RMS norm and layer norm over rows that are read twice, in blocks, so that registers hold little of a row.

The mathematics is that of :mod:`rooflab.kernels.rows.triton_norm`. A row of 32,768 in registers leaves a multiprocessor
with one program, which loads, then reduces, then stores, while memory waits. Here 32 registers a thread suffice, and
2,048 threads fit: some programs load while others store. Memory still moves the least, since the second reading comes
from the caches; it goes backwards, for what was read last is what they still have.

What a program loads of w and b serves all of its rows. With one row in bf16 of 32,768 columns, 64 KB of x come from the
cache of all, 64 again, 64 of w and 64 of b; with two rows 192 KB for each, with four 160.

Mean and variance come from one reading, of what the numbers are above the mean f of the row's first eight: that is at
most sqrt(n / 8) deviations off, so that the difference of the sums cannot cancel more than n / 8 times the roundoff of
fp32.

>>> norm_twice_kernel.__name__
'norm_twice_kernel'
"""

from __future__ import annotations

import triton
import triton.language as tl

from .triton_ahead import fetch_ahead
from .triton_norm import add_pairs, moments

__all__ = ["norm_twice_kernel"]

EACH = tl.constexpr(8)  # numbers of a thread in a block, whose sums need no other thread


@triton.jit
def read(first, c, cols, policy: tl.constexpr):
    return tl.load(first + c, mask=c < cols, other=0.0, eviction_policy=policy).to(tl.float32)


@triton.jit
def mean_of_few(x, r, h, cols, RESIDUAL: tl.constexpr):
    """The mean of each row's first numbers, in the format in which sums are kept."""
    c = tl.arange(0, EACH)[None, None, :]
    v = read(x, c, cols, "evict_last")
    if RESIDUAL:
        v += read(r, c, cols, "evict_last")
        v = v.to(h.dtype.element_ty).to(tl.float32)
    return tl.sum(v, 2, keep_dims=True) / EACH


@triton.jit
def norm_twice_kernel(
    y, h, x, r, w, b, mean, rstd, rows, cols, x_step, r_step, eps,
    RESIDUAL: tl.constexpr, CENTRED: tl.constexpr, BIAS: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, COLS: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Normalize the rows of x, ROWS in each program; COLS, a power of two, is at least `cols`."""
    # Where rows are left over, the last program takes the last row more than once.
    i = tl.minimum(tl.program_id(0) * ROWS + tl.arange(0, ROWS), rows - 1)[:, None, None].to(tl.int64)
    own = x + i * x_step
    added = r + i * r_step
    kept = h + i * cols
    one = EACH * tl.arange(0, BLOCK // EACH)[None, :, None] + tl.arange(0, EACH)[None, None, :]
    f = mean_of_few(own, added, h, cols, RESIDUAL) if CENTRED else 0.0
    total = tl.zeros([ROWS, BLOCK // EACH], tl.float32)
    squares = tl.zeros([ROWS, BLOCK // EACH], tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + one
        v = read(own, c, cols, "evict_first" if RESIDUAL else "evict_last")
        if RESIDUAL:
            v += read(added, c, cols, "evict_first")
            tl.store(kept + c, v, mask=c < cols)
            v = v.to(h.dtype.element_ty).to(tl.float32)  # what is normalized is what is kept
        if CENTRED:
            v = tl.where(c < cols, v - f, 0.0)
            total += tl.sum(v, 2)
        squares += tl.sum(v * v, 2)
    if AHEAD:  # behind the loads of its own row, and beside all that follows
        fetch_ahead(x, cols, x_step, COLS, AHEAD)
        if RESIDUAL:
            fetch_ahead(r, cols, r_step, COLS, AHEAD)
    if CENTRED:
        m, variance = moments(*tl.reduce((total, squares), 1, add_pairs), cols)
        m = m[:, None, None] + f
        tl.store(mean + i, m)
    else:
        m, variance = 0.0, tl.sum(squares, 1) / cols
    s = tl.rsqrt(variance + eps)[:, None, None]
    tl.store(rstd + i, s)
    if RESIDUAL:  # the sum is read again, of which other threads may have written a part
        tl.debug_barrier()
        own = kept
    for back in range(0, cols, BLOCK):
        c = (tl.cdiv(cols, BLOCK) - 1) * BLOCK - back + one
        v = (read(own, c, cols, "evict_first") - m) * s * read(w, c, cols, "evict_last")
        if BIAS:
            v += read(b, c, cols, "evict_last")
        tl.store(y + i * cols + c, v, mask=c < cols)
