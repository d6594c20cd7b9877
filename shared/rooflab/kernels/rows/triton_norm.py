# mypy: disallow-untyped-defs=False
"""RMS norm and layer norm over rows, forward and backward, with the gradients of their parameters.

    layer norm:  y = (x - mean) rstd w + b         RMS norm:  y = x rstd w

with rstd = 1 / sqrt(variance + eps), or 1 / sqrt(mean of squares + eps). With n = (x - mean) rstd and g = dy w,

    dx = rstd (g - n mean(n g) [- mean(g)]),       dw = sum over rows of dy n,       db = sum over rows of dy.

Forward moves the least, s n read and s n written for n elements of s bytes; backward reads x and dy and writes dx.
Layer norm needs the mean before the variance, two reductions that wait for each other. Of formats of 16 bits both come
from one: with f the first number of the row, sum(x - f) and sum((x - f)^2), whose difference cannot cancel more than n
times the roundoff of fp32, little beside that of the format.

With a residual r, x is x + r, which is written too: the addition costs what it moves, and no pass of its own; backward
the gradient of that sum is read and added.

The sums over rows are the difficulty: atomic additions would come in another order each time, and so give other last
bits. Here some programs stay on the chip and take rows in turn. Each adds up what it sees in registers and writes one
partial sum for each column; a second, small kernel adds these up, always in the same order.

>>> norm_kernel.__name__, norm_backward_kernel.__name__, add_partial_sums_kernel.__name__
('norm_kernel', 'norm_backward_kernel', 'add_partial_sums_kernel')
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from .triton_ahead import fetch_ahead

__all__ = ["add_partial_sums_kernel", "norm_backward_kernel", "norm_kernel"]


@triton.jit
def add_pairs(a, b, c, d):
    """Two sums at once: a reduction over threads takes its time however much is added up in it."""
    return a + c, b + d


@triton.jit
def moments(total, squares, cols):
    """Mean and variance of numbers from their sum and that of their squares."""
    above = tl.maximum(squares - total * total / cols, 0.0, propagate_nan=tl.PropagateNan.ALL)
    return total / cols, above / cols


@triton.jit
def norm_kernel(
    y, h, x, r, w, b, mean, rstd, rows, cols, x_step, r_step, eps,
    RESIDUAL: tl.constexpr, CENTRED: tl.constexpr, BIAS: tl.constexpr, ONE_PASS: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, FULL: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Normalize rows of x, `x_step` elements apart; keep what the backward pass needs of each row.

    FULL: a row has COLS numbers, so that nothing of it has to be masked.
    """
    if FULL:
        cols = COLS
    i = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    c = tl.arange(0, COLS)[None, :]
    inside = (i < rows) & (c < cols)
    v = tl.load(x + i * x_step + c, mask=inside, other=0.0).to(tl.float32)
    # Loads keep their order: after the reduction each program would wait once more, for the parameters.
    weight = tl.load(w + c, mask=c < cols, other=0.0)
    bias = tl.load(b + c, mask=c < cols, other=0.0) if BIAS else weight
    if AHEAD:
        fetch_ahead(x, cols, x_step, COLS, AHEAD)
        if RESIDUAL:
            fetch_ahead(r, cols, r_step, COLS, AHEAD)
    if RESIDUAL:
        v += tl.load(r + i * r_step + c, mask=inside, other=0.0).to(tl.float32)
        tl.store(h + i * cols + c, v, mask=inside)
        v = v.to(h.dtype.element_ty).to(tl.float32)  # what is normalized is what is kept
    m = 0.0
    if ONE_PASS:  # mean and variance by one reduction, of what the numbers are above the row's first
        first = tl.load(x + i * x_step, mask=i < rows, other=0.0).to(tl.float32)
        if RESIDUAL:
            first += tl.load(r + i * r_step, mask=i < rows, other=0.0).to(tl.float32)
            first = first.to(h.dtype.element_ty).to(tl.float32)
        v = tl.where(c < cols, v - first, 0.0)
        m, variance = moments(*tl.reduce((v, v * v), 1, add_pairs, keep_dims=True), cols)
        tl.store(mean + i, first + m, mask=i < rows)
    else:
        if CENTRED:
            mid = tl.sum(v, 1, keep_dims=True) / cols
            v = tl.where(c < cols, v - mid, 0.0)  # what is outside of the row must not enter its variance
            tl.store(mean + i, mid, mask=i < rows)
        variance = tl.sum(v * v, 1, keep_dims=True) / cols
    s = tl.rsqrt(variance + eps)
    tl.store(rstd + i, s, mask=i < rows)
    v = (v * s - m * s) * weight.to(tl.float32) if ONE_PASS else v * s * weight.to(tl.float32)
    if BIAS:
        v += bias.to(tl.float32)
    tl.store(y + i * cols + c, v, mask=inside)


@triton.jit
def norm_backward_kernel(
    dx, dw_parts, db_parts, dy, dh, x, w, mean, rstd, rows, cols, dy_step, dh_step, x_step,
    RESIDUAL: tl.constexpr, CENTRED: tl.constexpr, BIAS: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """The gradient with regard to x, and each program's part of those with regard to w and b."""
    if CHAINED:  # the kernel that adds up the parts may be brought to the chip: it waits there for their end
        gdc_launch_dependents()
    c = tl.arange(0, COLS)
    known = c < cols
    weight = tl.load(w + c, mask=known, other=0.0).to(tl.float32)[None, :]
    dw = tl.zeros([COLS], tl.float32)
    db = tl.zeros([COLS], tl.float32)
    for block in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES):
        r = (block * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (r < rows) & known[None, :]
        n = tl.load(x + r * x_step + c[None, :], mask=inside, other=0.0).to(tl.float32)
        g = tl.load(dy + r * dy_step + c[None, :], mask=inside, other=0.0).to(tl.float32)
        s = tl.load(rstd + r, mask=r < rows, other=0.0)
        if CENTRED:
            n -= tl.load(mean + r, mask=r < rows, other=0.0)
        n *= s
        dw += tl.sum(g * n, 0)
        if BIAS:
            db += tl.sum(g, 0)
        g *= weight  # 0 outside of the row, where n may be anything
        if CENTRED:
            along, total = tl.reduce((n * g, g), 1, add_pairs, keep_dims=True)
            d = g * s - (n * (along * s / cols) + total * s / cols)
        else:
            d = g * s - n * (tl.sum(n * g, 1, keep_dims=True) * s / cols)
        if RESIDUAL:  # what comes along the residual stream
            d += tl.load(dh + r * dh_step + c[None, :], mask=inside, other=0.0).to(tl.float32)
        tl.store(dx + r * cols + c[None, :], d, mask=inside)
    place = tl.program_id(0).to(tl.int64) * cols + c
    tl.store(dw_parts + place, dw, mask=known)
    if BIAS:
        tl.store(db_parts + place, db, mask=known)


@triton.jit
def add_partial_sums_kernel(
    dw, db, parts, programs, cols, PARTS: tl.constexpr, COLS: tl.constexpr, CHAINED: tl.constexpr
):  # fmt: skip
    """Add up [1 or 2, programs, cols] over the programs, always in the same order, into dw and db.

    One of few programs takes as long as its loads follow each other: with PARTS programs at a time there are few turns.
    """
    c = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    parts += tl.program_id(1).to(tl.int64) * programs * cols
    total = tl.zeros([PARTS, COLS], tl.float32)
    if CHAINED:  # launched while the programs before still run: here the wait for them
        gdc_wait()
    for first in range(0, programs, PARTS):
        p = first + tl.arange(0, PARTS)[:, None]
        total += tl.load(parts + p.to(tl.int64) * cols + c, mask=(p < programs) & (c < cols), other=0.0)
    found = tl.sum(total, 0, keep_dims=True)
    if tl.program_id(1) == 0:
        tl.store(dw + c, found, mask=c < cols)
    else:
        tl.store(db + c, found, mask=c < cols)
