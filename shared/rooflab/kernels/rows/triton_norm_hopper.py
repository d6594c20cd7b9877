# mypy: disallow-untyped-defs=False, disable-error-code="assignment,misc"
"""Backward of RMS norm and layer norm over long rows for Hopper: a row waits in shared memory, not in registers.

The mathematics is that of :mod:`rooflab.kernels.rows.triton_norm`. A row is needed twice, for mean(n g) and mean(g),
and then for dx and the sums over all rows. These sums fill the registers, so that no row fits beside them. Here x and
dy wait in shared memory (:mod:`rooflab.kernels.rows.triton_ring_hopper`), from where each block is loaded twice.

* w stays in shared memory, since what is left of the cache beside it is small.
* The statistics of the next row are loaded a row ahead.
* Where the sums alone are too many, PARTS programs share the columns. The columns of others pass through the ring
  first, for the two means only. Both programs are at about the same row, which comes from memory once.

In Gluon, because Triton's own pipeline brings a block to registers once for all of its uses.

>>> norm_backward_hopper_kernel.__name__
'norm_backward_hopper_kernel'
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.language.extra.cuda import gdc_launch_dependents

from .triton_ring_hopper import add_pairs, arrived, block_layout, columns, ring, send_for, widened

__all__ = ["norm_backward_hopper_kernel"]


@gluon.jit
def _statistics(mean, rstd, r, rows, CENTRED: gl.constexpr):
    s = gl.load(rstd + r, mask=r < rows, other=0.0)
    m = gl.load(mean + r, mask=r < rows, other=0.0) if CENTRED else 0.0 * s
    return s, m


@gluon.jit
def _keep(parts, sums, c, cols):
    gl.store(parts + gl.program_id(1).to(gl.int64) * cols + c, sums, mask=c < cols)


@gluon.jit
def _two_sums(
    rings, weight, arrays, row, turn, m, one,
    CENTRED: gl.constexpr, BLOCKS: gl.constexpr, ALL: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    """The sums of (x - mean) g and of g over a row."""
    layout: gl.constexpr = one.type.layout
    OTHERS: gl.constexpr = ALL - BLOCKS
    along = gl.zeros([one.shape[0]], gl.float32, layout)
    total = gl.zeros([one.shape[0]], gl.float32, layout)
    for t in gl.static_range(ALL):
        # SLOTS blocks have been sent for when a row begins, and one more with each that others own.
        async_copy.wait_group(SLOTS - 1 - max(t - OTHERS, 0))
        slot = (turn + t) % SLOTS
        above, g = arrived(rings, slot, layout)
        above -= m
        g *= widened(weight.index(((gl.program_id(0) + 1) * BLOCKS + t) % ALL).load(layout))
        along += above * g
        total += g
        if t < OTHERS:
            send_for(rings, slot, arrays, row, t + SLOTS, one, BLOCKS, ALL)
    if CENTRED:
        a, b = gl.reduce((along, total), 0, add_pairs)
    else:
        a = gl.sum(along, 0)
        b = 0.0 * a
    return a, b


@gluon.jit
def _finish(
    rings, weight, arrays, sums, row, turn, dx, dh, dh_step, s, m, a, b, one,
    RESIDUAL: gl.constexpr, BIAS: gl.constexpr, BLOCKS: gl.constexpr, ALL: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    """Write a row of dx, and return the sums with what the row adds to them."""
    layout: gl.constexpr = one.type.layout
    OTHERS: gl.constexpr = ALL - BLOCKS
    cols = arrays[3]
    dw = ()
    db = ()
    for k in gl.static_range(BLOCKS):
        slot = (turn + OTHERS + k) % SLOTS
        above, g = arrived(rings, slot, layout)
        above -= m
        if BIAS:
            db = db + (sums[BLOCKS + k] + g,)  # noqa: RUF005 - kernels have no starred tuples
        g *= s
        dw = dw + (sums[k] + g * above,)  # noqa: RUF005
        d = g * widened(weight.index(gl.program_id(0) * BLOCKS + k).load(layout)) - (above * a + b)
        send_for(rings, slot, arrays, row, OTHERS + k + SLOTS, one, BLOCKS, ALL)
        c = columns(OTHERS + k, one, BLOCKS, ALL)
        if RESIDUAL:
            d += gl.load(dh + dh_step.to(gl.int64) * row + c, mask=c < cols, other=0.0).to(gl.float32)
        gl.store(dx + cols.to(gl.int64) * row + c, d.to(dx.dtype.element_ty), mask=c < cols)
    return dw + db


@gluon.jit(do_not_specialize=["rows"])
def norm_backward_hopper_kernel(
    dx, dw_parts, db_parts, dy, dh, x, w, mean, rstd, rows, cols, dy_step, dh_step, x_step,
    RESIDUAL: gl.constexpr, CENTRED: gl.constexpr, BIAS: gl.constexpr, CHAINED: gl.constexpr,
    PARTS: gl.constexpr, BLOCK: gl.constexpr, BLOCKS: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    """The gradient with regard to x, and each program's part of those with regard to w and b, in BLOCKS of columns.

    16 divides `cols` and the steps of rows. Grid: (PARTS, programs); SLOTS >= BLOCKS.
    """
    if CHAINED:
        gdc_launch_dependents()
    ALL: gl.constexpr = PARTS * BLOCKS
    layout: gl.constexpr = block_layout(gl.num_warps())
    rings = ring(x, SLOTS, BLOCK), ring(dy, SLOTS, BLOCK)
    weight = ring(w, ALL, BLOCK)
    arrays = (x, dy), (x_step, dy_step), rows, cols
    one = gl.arange(0, BLOCK, layout=layout)
    first = gl.program_id(1)
    for t in gl.static_range(SLOTS):
        send_for(rings, t, arrays, first, t, one, BLOCKS, ALL)
    for k in gl.static_range(ALL):
        weight.index(k).store(gl.load(w + k * BLOCK + one, mask=k * BLOCK + one < cols, other=0.0))
    sums = ()
    for _ in gl.static_range((1 + BIAS) * BLOCKS):  # of the blocks for w, then for b
        sums = sums + (gl.zeros([BLOCK], gl.float32, layout),)  # noqa: RUF005
    next_s, next_m = _statistics(mean, rstd, first, rows, CENTRED)
    turn = 0
    for row in range(first, rows, gl.num_programs(1)):
        s, m = next_s, next_m
        next_s, next_m = _statistics(mean, rstd, row + gl.num_programs(1), rows, CENTRED)
        a, b = _two_sums(rings, weight, arrays, row, turn, m, one, CENTRED, BLOCKS, ALL, SLOTS)
        sums = _finish(
            rings, weight, arrays, sums, row, turn, dx, dh, dh_step, s, m, a * s * s * s / cols, b * s / cols, one,
            RESIDUAL, BIAS, BLOCKS, ALL, SLOTS,
        )  # fmt: skip
        turn += ALL
    async_copy.wait_group(0)
    for k in gl.static_range(BLOCKS):
        c = (gl.program_id(0) * BLOCKS + k) * BLOCK + one
        _keep(dw_parts, sums[k], c, cols)
        if BIAS:
            _keep(db_parts, sums[BLOCKS + k], c, cols)
