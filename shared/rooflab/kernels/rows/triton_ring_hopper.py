# mypy: disallow-untyped-defs=False, disable-error-code="assignment"
"""Rows that wait in shared memory, for kernels for Hopper whose programs stay on the chip.

A multiprocessor moves 32 KB a microsecond at the rate of the memory, and what is loaded takes 0.8 of one: 26 KB have to
be on their way at all times, also while a row is computed with, and without taking registers. So blocks of one or two
arrays come by asynchronous copies into a ring of slots. As soon as a block was loaded from its slot for the last time,
the one that is as many turns later as there are slots is sent for.

Each thread loads from shared memory what it has copied there itself.

>>> send_for.__name__, arrived.__name__
('send_for', 'arrived')
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from ..attend.triton_gluon import load_each

__all__ = ["add_pairs", "arrived", "block_layout", "columns", "eights", "ring", "send_for", "take", "widened"]


@gluon.jit
def add_pairs(a, b, c, d):
    """Two sums at once, as in Triton's kernel."""
    return a + c, b + d


@gluon.constexpr_function
def block_layout(warps):
    """Of a block in registers: 16 bytes of a thread beside those of the next."""
    return gl.BlockedLayout([8], [32], [warps], [0])


@gluon.jit
def eights(block):
    """A block as rows of the eight numbers that a thread has side by side: their sum needs no other thread."""
    return block.reshape([block.shape[0] // 8, 8])


# Two numbers of bf16 in a word are the first halves of two of fp32.
WIDENED = gl.constexpr("shl.b32 $0, $2, 16; and.b32 $1, $2, 0xFFFF0000;")


@gluon.jit
def widened(block):
    """Numbers of 16 bits in fp32; of bf16 by one instruction each, where the compiler takes one and a half."""
    if block.dtype == gl.bfloat16:
        wide = gl.inline_asm_elementwise(WIDENED, "=r,=r,r", [block], dtype=gl.float32, is_pure=True, pack=2)
    else:
        wide = block.to(gl.float32)
    return wide


@gluon.jit
def ring(array, SLOTS: gl.constexpr, BLOCK: gl.constexpr):
    """Shared memory for some blocks of an array."""
    layout: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    return gl.allocate_shared_memory(array.dtype.element_ty, [SLOTS, BLOCK], layout)


@gluon.jit
def columns(turn, one, BLOCKS: gl.constexpr, ALL: gl.constexpr):
    """Columns of a turn's block of ALL. Those of other programs come first, and then a program's own, in a circle."""
    if BLOCKS == ALL:
        return turn * one.shape[0] + one
    return ((gl.program_id(0) + 1) * BLOCKS + turn) % ALL * one.shape[0] + one


@gluon.jit
def send_for(rings, slot, arrays, row, turn: gl.constexpr, one, BLOCKS: gl.constexpr, ALL: gl.constexpr):
    """Have the block that is `turn` turns from a row's first copied to a slot; zeros stand for what is outside.

    `arrays` are those that have a ring each, how far apart their rows are, and the numbers of rows and columns.
    """
    sources, steps, rows, cols = arrays
    r = row + turn // ALL * gl.num_programs(1)
    c = columns(turn % ALL, one, BLOCKS, ALL)
    inside = (c < cols) & (r < rows)
    for i in gl.static_range(len(rings)):
        place = sources[i] + steps[i].to(gl.int64) * r + c
        load_each(rings[i].index(slot), place, mask=inside)
    async_copy.commit_group()


@gluon.jit
def arrived(rings, slot, layout: gl.constexpr):
    """The blocks of all arrays in a slot."""
    found = ()
    for i in gl.static_range(len(rings)):
        found = found + (widened(rings[i].index(slot).load(layout)),)  # noqa: RUF005 - kernels have no starred tuples
    return found


@gluon.jit
def take(rings, arrays, row, turn, k: gl.constexpr, one, BLOCKS: gl.constexpr, SLOTS: gl.constexpr):
    """A row's blocks number k, when they have arrived; what comes next into their slot is sent for at once."""
    layout: gl.constexpr = one.type.layout
    slot = (turn + k) % SLOTS
    async_copy.wait_group(SLOTS - 1)
    found = arrived(rings, slot, layout)
    send_for(rings, slot, arrays, row, k + SLOTS, one, BLOCKS, BLOCKS)
    return found
