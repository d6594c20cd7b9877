# mypy: disallow-untyped-defs=False, disable-error-code="assignment,misc"
"""Forward of RMS norm and layer norm over long rows for Hopper: the next rows are on their way while one is normalized.

With a program for each row, one or two fit on a multiprocessor, and memory waits while they reduce and store. Each
also has to get w and b, for layer norm twice as much as x, through the port by which x comes. Here programs stay, and
bring w and b to shared memory once. There x waits, too (:mod:`rooflab.kernels.rows.triton_ring_hopper`), until a row is
moved to registers, where it is normalized; its slots are sent for again at once.

Mean and variance are of what the numbers are above the mean f of the row's first eight, for the reasons given in
:mod:`rooflab.kernels.rows.triton_norm_twice`. These eight are loaded a row ahead, so that no thread waits for them.

>>> norm_hopper_kernel.__name__
'norm_hopper_kernel'
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from ..attend.triton_gluon import load_each
from .triton_ring_hopper import add_pairs, block_layout, eights, ring, send_for, take, widened

__all__ = ["norm_hopper_kernel"]


@gluon.jit
def _mean_of_eight(arrays, row, layout: gl.constexpr):
    sources, steps, rows, _ = arrays
    few = gl.arange(0, 8, layout=layout)
    found = gl.load(sources[0] + steps[0].to(gl.int64) * row + few, mask=(few >= 0) & (row < rows), other=0.0)
    return gl.sum(found.to(gl.float32), 0) / 8


@gluon.jit
def _take_row(rings, arrays, row, turn, f, one, CENTRED: gl.constexpr, BLOCKS: gl.constexpr, SLOTS: gl.constexpr):
    """What the numbers of a row are above f, in blocks, their sum and that of their squares."""
    blocks = ()
    total = 0.0
    squares = 0.0
    for k in gl.static_range(BLOCKS):
        v = take(rings, arrays, row, turn, k, one, BLOCKS, SLOTS)[0]
        if CENTRED:
            v = gl.where(k * one.shape[0] + one < arrays[3], v - f, 0.0)
            total += gl.sum(eights(v), 1)
        squares += gl.sum(eights(v * v), 1)
        blocks = blocks + (v,)  # noqa: RUF005 - kernels have no starred tuples
    if CENTRED:
        a, b = gl.reduce((total, squares), 0, add_pairs)
    else:
        b = gl.sum(squares, 0)
        a = b  # of no use
    return blocks, a, b


@gluon.jit(do_not_specialize=["rows"])
def norm_hopper_kernel(
    y, x, w, b, mean, rstd, rows, cols, x_step, eps,
    CENTRED: gl.constexpr, BIAS: gl.constexpr, FULL: gl.constexpr,
    BLOCK: gl.constexpr, BLOCKS: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    """Normalize rows of x, `x_step` elements apart, in BLOCKS of columns; keep what backward needs of each row.

    16 divides `cols` and `x_step`. FULL: all columns of the blocks are those of a row. Grid: (1, programs).
    """
    if FULL:
        cols = gl.to_tensor(BLOCKS * BLOCK)
    layout: gl.constexpr = block_layout(gl.num_warps())
    one = gl.arange(0, BLOCK, layout=layout)
    rings = (ring(x, SLOTS, BLOCK),)
    parameters = (ring(w, BLOCKS, BLOCK), ring(b, BLOCKS, BLOCK)) if BIAS else (ring(w, BLOCKS, BLOCK),)
    arrays = (x,), (x_step,), rows, cols
    first = gl.program_id(1)
    for t in gl.static_range(SLOTS):
        send_for(rings, t, arrays, first, t, one, BLOCKS, BLOCKS)
    for k in gl.static_range(BLOCKS):
        c = k * BLOCK + one
        load_each(parameters[0].index(k), w + c, mask=c < cols)
        if BIAS:
            load_each(parameters[1].index(k), b + c, mask=c < cols)
    async_copy.commit_group()
    next_f = _mean_of_eight(arrays, first, layout)
    turn = 0
    for row in range(first, rows, gl.num_programs(1)):
        f = next_f
        if CENTRED:
            next_f = _mean_of_eight(arrays, row + gl.num_programs(1), layout)
        blocks, total, squares = _take_row(rings, arrays, row, turn, f, one, CENTRED, BLOCKS, SLOTS)
        m = 0.0
        if CENTRED:
            m = total / cols.to(gl.float32)
            gl.store(mean + row, f + m)
            squares -= total * m
            squares = gl.where(squares < 0.0, 0.0, squares)  # what is NaN stays NaN
        s = gl.rsqrt(squares / cols.to(gl.float32) + eps)
        gl.store(rstd + row, s)
        if row == first:  # all but what was sent for since: w and b are there
            async_copy.wait_group(BLOCKS)
        for k in gl.static_range(BLOCKS):
            c = k * BLOCK + one
            n = blocks[k] * s - m * s if CENTRED else blocks[k] * s
            n *= widened(parameters[0].index(k).load(layout))
            if BIAS:
                n += widened(parameters[1].index(k).load(layout))
            gl.store(y + cols.to(gl.int64) * row + c, n.to(y.dtype.element_ty), mask=c < cols)
        turn += BLOCKS
    async_copy.wait_group(0)
