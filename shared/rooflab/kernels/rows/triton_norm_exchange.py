# mypy: disallow-untyped-defs=False, disable-error-code="assignment,misc"
"""Backward of RMS norm and layer norm over long rows for Hopper: programs share a row's columns, and exchange sums.

The mathematics is that of :mod:`rooflab.kernels.rows.triton_norm`. The sums over all rows of 16,384 columns or more
leave registers for few threads. Here PARTS programs share the columns of a row. Each reads x, dy and w, writes dx, and
keeps sums over all rows for its own columns alone. Of the others it only needs two numbers a row, their parts of the
sums of (x - mean) g and of g.

* These numbers pass through global memory, in one store of 64 bits: nobody sees one of them without the other, and no
  flag is needed. A cell that nobody has written yet is EMPTY: both halves of it are a NaN that no arithmetic of
  NVIDIA's makes (0xFFFFFFFF; it makes 0x7FFFFFFF, whatever came in).
* They are written LEAD rows ahead of the row that is finished, so that nobody waits for them, unless a program is so
  many rows behind. Programs that wait have written what the others wait for: no two wait for each other, provided that
  all programs of a row are on the chip at the same time.
* All add up the parts in the same order, so that results are the same each time.

The rows in between wait in shared memory (:mod:`rooflab.kernels.rows.triton_ring_hopper`).

>>> norm_backward_exchange_kernel.__name__
'norm_backward_exchange_kernel'
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.language.extra.cuda import gdc_launch_dependents

from .triton_ring_hopper import add_pairs, arrived, block_layout, ring, send_for, widened

__all__ = ["EMPTY", "norm_backward_exchange_kernel"]

EMPTY = gl.constexpr(-1)
_LINE = gl.constexpr(64)  # numbers of 16 bits in a line of the cache: no two programs write to one


@gluon.jit
def _mean(mean, row, rows, CENTRED: gl.constexpr):
    return gl.load(mean + row, mask=row < rows, other=0.0) if CENTRED else 0.0


@gluon.jit
def _own(array, c, last, BLOCKS: gl.constexpr):
    """A program's blocks of a row."""
    found = ()
    for k in gl.static_range(BLOCKS):
        block = k * c.shape[0] + c
        found = found + (gl.load(array + block, mask=block < last, other=0.0),)  # noqa: RUF005 - kernels have no stars
    return found


@gluon.jit
def _zeros(one, BLOCKS: gl.constexpr):
    layout: gl.constexpr = one.type.layout
    made = ()
    for _ in gl.static_range(BLOCKS):
        made = made + (gl.zeros([one.shape[0]], gl.float32, layout),)  # noqa: RUF005
    return made


@gluon.jit
def _publish(cell, inside, a, b):
    """Write a program's parts of two sums over a row."""
    low = a.to(gl.int32, bitcast=True).to(gl.int64) & 0xFFFFFFFF
    high = b.to(gl.int32, bitcast=True).to(gl.int64) << 32
    gl.atomic_xchg(cell, high | low, mask=inside, sem="relaxed", scope="gpu")


@gluon.jit
def _glance(cells, PARTS: gl.constexpr):
    """What all programs have written of a row so far."""
    found = ()
    for p in gl.static_range(PARTS):
        found = found + (gl.load(cells + p, volatile=True),)  # noqa: RUF005
    return found


@gluon.jit
def _collect(cells, found, PARTS: gl.constexpr):
    """Two sums over a row, of the parts that were found; those that were not there yet are waited for."""
    a = 0.0
    b = 0.0
    for p in gl.static_range(PARTS):
        both = found[p]
        while both == EMPTY:
            both = gl.load(cells + p, volatile=True)
        a += both.to(gl.int32).to(gl.float32, bitcast=True)
        b += (both >> 32).to(gl.int32).to(gl.float32, bitcast=True)
    return a, b


@gluon.jit
def _add_up(
    rings, weight, cells, row, rows, turn, m, one,
    OPEN: gl.constexpr, CENTRED: gl.constexpr, PARTS: gl.constexpr, BLOCKS: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    """Publish the sums of (x - mean) g and of g over a program's own columns of a row.

    The row's first block is `turn` turns from the first of all; after it, OPEN blocks may still be on their way.
    """
    layout: gl.constexpr = one.type.layout
    along = ()
    total = ()
    for k in gl.static_range(BLOCKS):
        async_copy.wait_group(OPEN - k)
        above, g = arrived(rings, (turn + k) % SLOTS, layout)
        g *= widened(weight[k])
        if CENTRED:
            above -= m
        # Nothing is added to the first block: the reduction adds products, by one multiply-add each.
        along = above * g + along if k else above * g
        total = g + total if k else g
    if CENTRED:
        a, b = gl.reduce((along, total), 0, add_pairs)
    else:
        a = gl.sum(along, 0)
        b = 0.0 * a
    _publish(cells + row * PARTS + gl.program_id(0), row < rows, a, b)


@gluon.jit
def _finish(
    rings, weight, arrays, sums, row, turn, dx, more, s, m, a, b, one,
    RESIDUAL: gl.constexpr, CENTRED: gl.constexpr, BIAS: gl.constexpr, BLOCKS: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    """Write a row of dx, and return the sums over rows with what the row adds to them."""
    layout: gl.constexpr = one.type.layout
    dw = ()
    db = ()
    for k in gl.static_range(BLOCKS):
        slot = (turn + k) % SLOTS
        above, g = arrived(rings, slot, layout)
        if CENTRED:
            above -= m
        if BIAS:
            db = db + (sums[BLOCKS + k] + g,)  # noqa: RUF005
        g *= s
        dw = dw + (sums[k] + g * above,)  # noqa: RUF005
        d = g * widened(weight[k]) - (above * a + b)
        send_for(rings, slot, arrays, row, k + SLOTS, one, BLOCKS, BLOCKS)
        c = k * one.shape[0] + one
        if RESIDUAL:
            d += more[k].to(gl.float32)
        gl.store(dx + c, d.to(dx.dtype.element_ty), mask=c < arrays[3])
    return dw + db


@gluon.jit
def _keep(parts, sums, c, last, FIRST: gl.constexpr, BLOCKS: gl.constexpr):
    for k in gl.static_range(BLOCKS):
        block = k * c.shape[0] + c
        gl.store(parts + block, sums[FIRST + k], mask=block < last)


@gluon.jit(do_not_specialize=["rows"])
def norm_backward_exchange_kernel(
    dx, dw_parts, db_parts, dy, dh, x, w, mean, rstd, rows, cols, dy_step, dh_step, x_step, cells,
    RESIDUAL: gl.constexpr, CENTRED: gl.constexpr, BIAS: gl.constexpr, CHAINED: gl.constexpr,
    PARTS: gl.constexpr, LEAD: gl.constexpr, BLOCK: gl.constexpr, BLOCKS: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    """The gradient with regard to x, and each program's part of those with regard to w and b, in BLOCKS of columns.

    16 divides `cols` and the steps of rows; `cells`, [rows, PARTS] of 64 bits, are EMPTY.
    Grid: (PARTS, programs), all of them on the chip at a time; SLOTS >= (LEAD + 1) * BLOCKS.
    """
    if CHAINED:
        gdc_launch_dependents()
    rings = ring(x, SLOTS, BLOCK), ring(dy, SLOTS, BLOCK)
    share = gl.cdiv(cols, PARTS * _LINE) * _LINE
    before = gl.program_id(0) * share
    last = gl.minimum(cols - before, share)
    arrays = (x + before, dy + before), (x_step, dy_step), rows, last
    one = gl.arange(0, BLOCK, layout=block_layout(gl.num_warps()))
    part = 1.0 / cols  # of a mean
    first = gl.program_id(1)
    step = gl.num_programs(1)
    for t in gl.static_range(SLOTS):
        send_for(rings, t, arrays, first, t, one, BLOCKS, BLOCKS)
    weight = _own(w + before, one, last, BLOCKS)
    sums = _zeros(one, (1 + BIAS) * BLOCKS)  # of the blocks for w, then for b
    for t in gl.static_range(LEAD):
        m = _mean(mean, first + t * step, rows, CENTRED)
        _add_up(
            rings, weight, cells, first + t * step, rows, t * BLOCKS, m, one,
            SLOTS - 1 - t * BLOCKS, CENTRED, PARTS, BLOCKS, SLOTS,
        )  # fmt: skip
    next_m = _mean(mean, first + LEAD * step, rows, CENTRED)
    turn = 0
    for row in range(first, rows, step):
        # What is asked for here is there when the sums of the row ahead are written.
        found = _glance(cells + row * PARTS, PARTS)
        s, m, ahead_m = gl.load(rstd + row), _mean(mean, row, rows, CENTRED), next_m
        ahead = row + LEAD * step
        next_m = _mean(mean, ahead + step, rows, CENTRED)
        more = _own(dh + before + dh_step.to(gl.int64) * row, one, last, BLOCKS if RESIDUAL else 0)
        _add_up(
            rings, weight, cells, ahead, rows, turn + LEAD * BLOCKS, ahead_m, one,
            SLOTS - 1 - LEAD * BLOCKS, CENTRED, PARTS, BLOCKS, SLOTS,
        )  # fmt: skip
        a, b = _collect(cells + row * PARTS, found, PARTS)
        sums = _finish(
            rings, weight, arrays, sums, row, turn, dx + before + cols.to(gl.int64) * row, more, s, m,
            a * s * s * (s * part), b * (s * part), one, RESIDUAL, CENTRED, BIAS, BLOCKS, SLOTS,
        )  # fmt: skip
        turn += BLOCKS
    async_copy.wait_group(0)
    place = before + gl.program_id(1).to(gl.int64) * cols
    _keep(dw_parts + place, sums, one, last, 0, BLOCKS)
    if BIAS:
        _keep(db_parts + place, sums, one, last, BLOCKS, BLOCKS)
