# mypy: disallow-untyped-defs=False, disable-error-code="assignment,misc"
"""Softmax over long rows for Hopper, forward and backward: the next row is on its way while one is computed with.

    y = exp(x - max(x)) / sum(exp(x - max(x)))        dx = y (dy - sum(y dy))

Of rows of 32,768 one program fills a multiprocessor: with a program for each row nothing is loaded while one is
computed with and written. Here programs stay, and rows wait in shared memory
(:mod:`rooflab.kernels.rows.triton_ring_hopper`). Forward a row is moved to registers, so that each exponential is
computed once; backward, where two rows are needed, each is loaded twice.

>>> softmax_hopper_kernel.__name__, softmax_backward_hopper_kernel.__name__
('softmax_hopper_kernel', 'softmax_backward_hopper_kernel')
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from .triton_ring_hopper import arrived, block_layout, columns, eights, ring, send_for, take

__all__ = ["softmax_backward_hopper_kernel", "softmax_hopper_kernel"]

LOG2E = gl.constexpr(1.4426950408889634)


@gluon.jit(do_not_specialize=["rows"])
def softmax_hopper_kernel(
    y, x, rows, cols, x_step, FULL: gl.constexpr, BLOCK: gl.constexpr, BLOCKS: gl.constexpr, SLOTS: gl.constexpr
):
    """Rows of x, `x_step` elements apart, to rows of y, `cols` apart, in BLOCKS of columns.

    16 divides `cols` and `x_step`. FULL: all columns of the blocks are those of a row. Grid: (1, programs).
    """
    if FULL:
        cols = gl.to_tensor(BLOCKS * BLOCK)
    layout: gl.constexpr = block_layout(gl.num_warps())
    rings = (ring(x, SLOTS, BLOCK),)
    arrays = (x,), (x_step,), rows, cols
    one = gl.arange(0, BLOCK, layout=layout)
    first = gl.program_id(1)
    for t in gl.static_range(SLOTS):
        send_for(rings, t, arrays, first, t, one, BLOCKS, BLOCKS)
    turn = 0
    for row in range(first, rows, gl.num_programs(1)):
        blocks = ()
        most = gl.max(eights(gl.full([BLOCK], -float("inf"), gl.float32, layout)), 1)
        for k in gl.static_range(BLOCKS):
            v = take(rings, arrays, row, turn, k, one, BLOCKS, SLOTS)[0]
            v = gl.where(columns(k, one, BLOCKS, BLOCKS) < cols, v, -float("inf"))
            most = gl.maximum(most, gl.max(eights(v), 1))
            blocks = blocks + (v,)  # noqa: RUF005 - kernels have no starred tuples
        top = gl.max(most, 0)
        powers = ()
        total = 0.0
        for k in gl.static_range(BLOCKS):
            p = gl.exp2((blocks[k] - top) * LOG2E)
            total += gl.sum(eights(p), 1)
            powers = powers + (p,)  # noqa: RUF005
        scale = 1.0 / gl.sum(total, 0)
        for k in gl.static_range(BLOCKS):
            c = columns(k, one, BLOCKS, BLOCKS)
            gl.store(y + cols.to(gl.int64) * row + c, (powers[k] * scale).to(y.dtype.element_ty), mask=c < cols)
        turn += BLOCKS
    async_copy.wait_group(0)


@gluon.jit(do_not_specialize=["rows"])
def softmax_backward_hopper_kernel(
    dx, y, dy, rows, cols, dy_step, BLOCK: gl.constexpr, BLOCKS: gl.constexpr, SLOTS: gl.constexpr
):
    """The gradient from y and dy, `dy_step` elements a row apart, to dx; y and dx are `cols` apart.

    16 divides `cols` and `dy_step`. Grid: (1, programs); SLOTS >= BLOCKS.
    """
    layout: gl.constexpr = block_layout(gl.num_warps())
    rings = ring(y, SLOTS, BLOCK), ring(dy, SLOTS, BLOCK)
    arrays = (y, dy), (cols, dy_step), rows, cols
    one = gl.arange(0, BLOCK, layout=layout)
    first = gl.program_id(1)
    for t in gl.static_range(SLOTS):
        send_for(rings, t, arrays, first, t, one, BLOCKS, BLOCKS)
    turn = 0
    for row in range(first, rows, gl.num_programs(1)):
        along = gl.zeros([BLOCK], gl.float32, layout)
        for k in gl.static_range(BLOCKS):
            async_copy.wait_group(SLOTS - 1 - k)
            p, g = arrived(rings, (turn + k) % SLOTS, layout)
            along += p * g
        a = gl.sum(along, 0)
        for k in gl.static_range(BLOCKS):
            slot = (turn + k) % SLOTS
            p, g = arrived(rings, slot, layout)
            send_for(rings, slot, arrays, row, k + SLOTS, one, BLOCKS, BLOCKS)
            c = columns(k, one, BLOCKS, BLOCKS)
            gl.store(dx + cols.to(gl.int64) * row + c, (p * (g - a)).to(dx.dtype.element_ty), mask=c < cols)
        turn += BLOCKS
    async_copy.wait_group(0)
