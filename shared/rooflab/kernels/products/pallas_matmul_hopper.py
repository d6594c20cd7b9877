"""A product of matrices for Hopper GPUs through Mosaic, the other of Pallas' two ways to a GPU.

The matrix units of a Hopper multiply 64 x 128 x 16 in 16 bits at a time, with operands in shared memory; one warp can
hardly issue loads and products fast enough. So warps are specialized. One program stays on each multiprocessor and
takes tiles of C in turn. Its third group of warps does nothing but have the copy engine bring blocks of A and B into a
ring in shared memory; the two others each multiply a half of the tile, 128 x 128, and keep one product under way while
they issue the next. While they store their tile, the blocks for the next one are already on their way. The ring takes a
block back one step after its product was issued; the last one has no step behind it, so a barrier says that it is done.

>>> import jax.numpy as jnp
>>> fits(4096, 4096, 1000, jnp.bfloat16)                           # 1,000 is no multiple of 64
False
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from ..pallas_launching import array, flipped, processors
from ..pallas_mosaic import accumulate, mosaic, scratch, transforms, usable
from .pallas_matmul import tile_of

__all__ = ["fits", "matmul_on_hopper"]

_TALL, _WIDE, _DEEP = 128, 128, 64  # of each of two groups of warps: together 128 x 256
_MULTIPLY = 2  # groups that multiply; the one after them loads
_RING = 4  # blocks of A and B in flight, 48 KiB each
_OUT = 64  # rows and columns of C that are stored at a time


def fits(m: int, n: int, k: int, dtype: Any) -> bool:
    """Whether the product consists of whole tiles in 16 bits, and Mosaic is there and new enough."""
    if m % _TALL or n % (2 * _WIDE) or k % _DEEP or k < _RING * _DEEP or jnp.dtype(dtype).itemsize != 2:
        return False
    return usable()


def matmul_on_hopper(a: Any, b: Any, turned: tuple[bool, bool], **more: Any) -> Any:
    """Return the product of two matrices of whole tiles.

    Args:
        a: of shape [M, K]; [K, M] if it is turned.
        b: of shape [K, N]; [N, K] if it is turned.
        turned: whether a and b are stored transposed.
        more: for Mosaic's `kernel`.
    """
    m, n = a.shape[1 if turned[0] else 0], b.shape[0 if turned[1] else 1]
    programs = min(processors(), (m // _TALL) * (n // (2 * _WIDE)))
    return mosaic().kernel(
        functools.partial(_stay, turned=turned, programs=programs), out_type=array(a, shape=(m, n)), grid=(programs,),
        grid_names=("program",), num_threads=3, thread_name="group", **more,
        compiler_params=mosaic().CompilerParams(lowering_semantics=mosaic().LoweringSemantics.Warpgroup),
    )(a, b)  # fmt: skip


def _stay(a: Any, b: Any, c: Any, *, turned: tuple[bool, bool], programs: int) -> None:
    """Take tiles of C in turn; `a`, `b` and `c` are in global memory."""
    (m, n), k = c.shape, a.shape[0 if turned[0] else 1]
    tall, wide = m // _TALL, n // (2 * _WIDE)
    group, program = jax.lax.axis_index("group"), jax.lax.axis_index("program")
    half = pl.ds(group * _WIDE, _WIDE)

    def multiply(_: Any, a_block: Any, b_block: Any, total: Any) -> Any:
        left = flipped(a_block) if turned[0] else a_block
        right = flipped(b_block.at[half]) if turned[1] else b_block.at[:, half]
        mosaic().wgmma(total, left, right)
        mosaic().wgmma_wait(1)  # all but this one are done: their blocks may be overwritten
        return total

    def pipeline(body: Any, around: Any) -> Any:
        return mosaic().emit_pipeline_warp_specialized(
            body, grid=(k // _DEEP,), in_specs=[_block(_TALL, turned[0]), _block(2 * _WIDE, not turned[1])],
            max_concurrent_steps=_RING, memory_registers=40, wg_axis="group", num_compute_wgs=_MULTIPLY,
            compute_context=around,
        )  # fmt: skip

    def tiles(ring: Any, out: Any, done: Any) -> None:
        def tile(i: Any, _: Any) -> None:
            row, col = tile_of(program + i * programs, tall, wide)
            rows, cols = pl.ds(row * _TALL, _TALL), pl.ds(col * 2 * _WIDE, 2 * _WIDE)

            def around(walk: Any) -> None:
                def own(total: Any) -> None:
                    walk(total)
                    own_half = total[...].astype(c.dtype)  # waits for the last product
                    mosaic().barrier_arrive(done)
                    _store(own_half, out.at[group], c.at[rows, cols].at[:, half])

                accumulate(own, (_TALL, _WIDE))

            strips = a.at[:, rows] if turned[0] else a.at[rows, :], b.at[cols, :] if turned[1] else b.at[:, cols]
            pipeline(multiply, around)(*strips, allocations=ring)
            pl.when(group == _MULTIPLY)(lambda: mosaic().barrier_wait(done))

        jax.lax.fori_loop(0, pl.cdiv(tall * wide - program, programs), tile, None)

    ring = pipeline(lambda *_: None, lambda *_: None).get_allocations(a, b)
    out = scratch((2, 2, _OUT, _OUT), c.dtype)
    pl.run_scoped(tiles, ring, out, mosaic().Barrier(num_arrivals=_MULTIPLY), collective_axes="group")
    mosaic().wait_smem_to_gmem(0, wait_read_only=True)


def _store(tile: Any, out: Any, c: Any) -> None:
    """Store a group's half of a tile through shared memory, piece by piece."""
    for number, (row, col) in enumerate(itertools.product(range(0, _TALL, _OUT), range(0, _WIDE, _OUT))):
        mosaic().wait_smem_to_gmem(1, wait_read_only=True)  # of two buffers the one filled first is free again
        rows, cols = slice(row, row + _OUT), slice(col, col + _OUT)
        out[number % 2] = tile[rows, cols]
        mosaic().commit_smem()
        mosaic().copy_smem_to_gmem(out.at[number % 2], c.at[rows, cols])


def _block(length: int, deep_first: bool) -> Any:
    """A block of an operand, `length` rows of A or columns of B, which moves along K."""
    shape, place = ((_DEEP, length), lambda i: (i, 0)) if deep_first else ((length, _DEEP), lambda i: (0, i))
    return mosaic().BlockSpec(shape, place, transforms=transforms(), memory_space=mosaic().SMEM, delay_release=1)
