"""A product of matrices as a function of JAX, with its gradient: the twin of `triton_matmul` in Pallas.

    C = A B          dA = dC B^T          dB = A^T dC

2 M N K FLOPs. A program computes one tile of C, of BM x BN: it walks along K and multiplies blocks of A and B, whose
2 BM BN BK FLOPs are done with BM BK + BK BN numbers from memory. Either operand may be stored transposed, so that
the gradient needs no copies. Tiles are taken in groups of rows: those that run at a time share blocks in the cache.

On a Hopper, large products in 16 bits go to `pallas_matmul_hopper`. On a TPU (unverified on real hardware) the walk
along K is an axis of the grid, and the tile waits in VMEM meanwhile.

>>> import jax.numpy as jnp
>>> matmul(jnp.ones((2, 3)), jnp.full((3, 2), 2.0)).tolist()
[[6.0, 6.0], [6.0, 6.0]]
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from ..demands import floats, refuse
from ..pallas_launching import array, hopper, load, on_each, parameters, quotient, store

__all__ = ["matmul", "tile_of"]

_GROUP = 8  # rows of tiles
_GPU = {2: ((128, 128, 64), 8, 3), 4: ((64, 64, 32), 4, 3)}  # by bytes of a number: tile, warps, stages
_TPU = (256, 256, 512)
_CPU = (256, 256, 256)  # few steps for the interpreter


def matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the product of matrices.

    Args:
        a: of shape [..., M, K], float32, bfloat16 or float16.
        b: of shape [K, N], in the same format.

    Returns:
        of shape [..., M, N], in the same format; sums are in float32.

    Raises:
        TypeError: for other formats.
        ValueError: shapes or formats that do not fit together.
    """
    floats("matmul", a=a, b=b)
    if a.ndim < 2 or b.ndim != 2 or a.shape[-1] != b.shape[0]:
        refuse("matmul", f"expected a of shape [..., M, K] and b of [K, N]; found {a.shape} and {b.shape}.")
    if a.dtype != b.dtype:
        refuse("matmul", f"expected two matrices of one format; found {a.dtype} and {b.dtype}: convert one.")
    if not a.size * b.size:
        return jnp.zeros((*a.shape[:-1], b.shape[1]), a.dtype) + 0 * (a.sum() + b.sum())
    return _product(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])


def tile_of(number: Any, tall: int, wide: int) -> tuple[Any, Any]:
    """Return the row and the column of a tile of `tall` x `wide` ones: down eight rows, then the next column."""
    group = quotient(number, _GROUP * wide)
    left = number - group * (_GROUP * wide)
    height = jnp.minimum(_GROUP, tall - group * _GROUP)
    return group * _GROUP + jax.lax.rem(left, height), jax.lax.div(left, height)


def _walk(a: Any, b: Any, c: Any, *, kind: str, sizes: Any, tile: Any, turned: Any) -> None:
    """One tile of C on a GPU, or interpreted."""
    (m, n, k), (tall, wide, deep) = sizes, tile
    row, col = tile_of(pl.program_id(0), pl.cdiv(m, tall), pl.cdiv(n, wide))
    whole = not (m % tall or n % wide or k % deep)

    def step(i: Any, total: Any) -> Any:
        here = pl.ds(pl.multiple_of(i * deep, deep), deep)
        operands = []
        for ref, flipped, first, edge in ((a, turned[0], row * tall, (m, k)), (b, not turned[1], col * wide, (n, k))):
            block = ref.at[here, :] if flipped else ref.at[:, here]
            corner = (i * deep, first) if flipped else (first, i * deep)
            mask = None if whole else _inside(block.shape, corner, edge[::-1] if flipped else edge)
            operands.append(load(kind, block, mask, dtype=ref.dtype))
        return total + _dot(*operands, *turned)

    total = jax.lax.fori_loop(0, pl.cdiv(k, deep), step, jnp.zeros((tall, wide), jnp.float32))
    store(kind, c, _inside(c.shape, (row * tall, col * wide), (m, n)), total)


def _accumulate(a: Any, b: Any, c: Any, total: Any, *, sizes: Any, tile: Any, turned: Any) -> None:
    """One step along K of one tile of C on a TPU."""
    i, steps = pl.program_id(2), pl.num_programs(2)

    @pl.when(i == 0)
    def _() -> None:
        total[...] = jnp.zeros_like(total)

    operands = []
    for ref, axis in ((a, 0 if turned[0] else 1), (b, 1 if turned[1] else 0)):
        known = i * tile[2] + jax.lax.broadcasted_iota(jnp.int32, ref.shape, axis) < sizes[2]
        operands.append(load("tpu", ref, known, dtype=ref.dtype))
    total[...] += _dot(*operands, *turned)

    @pl.when(i == steps - 1)
    def _() -> None:
        c[...] = total[...].astype(c.dtype)


def _inside(shape: Any, corner: Any, edge: Any) -> Any:
    rows, cols = (first + jax.lax.broadcasted_iota(jnp.int32, shape, axis) for axis, first in enumerate(corner))
    return (rows < edge[0]) & (cols < edge[1])


def _dot(a: Any, b: Any, a_turned: bool, b_turned: bool) -> Any:
    """Multiply blocks into float32; those of float32 without rounding them to fewer bits."""
    exact = jax.lax.Precision.HIGHEST if a.dtype == jnp.float32 else jax.lax.Precision.DEFAULT
    contracted = ((0 if a_turned else 1,), (1 if b_turned else 0,))
    return jax.lax.dot_general(a, b, (contracted, ((), ())), precision=exact, preferred_element_type=jnp.float32)


def _call(turned: tuple[bool, bool], kind: str, a: Any, b: Any) -> Any:
    m, k = a.shape[::-1] if turned[0] else a.shape
    n = b.shape[0] if turned[1] else b.shape[1]
    if kind == "gpu" and hopper():
        from .pallas_matmul_hopper import fits, matmul_on_hopper

        if fits(m, n, k, a.dtype):
            return matmul_on_hopper(a, b, turned)
    if kind == "tpu":
        return _call_tpu(turned, (m, n, k), a, b)
    tile, warps, stages = (_CPU, 4, 1) if kind == "cpu" else _GPU[a.dtype.itemsize]
    tile = tuple(min(each, max(16, pl.next_power_of_2(size))) for each, size in zip(tile, (m, n, k), strict=True))
    tall, wide, deep = (pl.cdiv(size, each) for size, each in zip((m, n, k), tile, strict=True))
    spec = _specs(turned, (tile[0], tile[1], deep * tile[2]), lambda i: (*tile_of(i, tall, wide), 0))
    return pl.pallas_call(
        functools.partial(_walk, kind=kind, sizes=(m, n, k), tile=tile, turned=turned), grid=(tall * wide,),
        in_specs=spec[:2], out_specs=spec[2], out_shape=array(a, shape=(m, n)), name="matmul",
        **parameters(kind, num_warps=warps, num_stages=stages),
    )(a, b)  # fmt: skip


def _call_tpu(turned: tuple[bool, bool], sizes: tuple[int, int, int], a: Any, b: Any) -> Any:
    from jax.experimental.pallas import tpu

    tile = tuple(min(most, pl.cdiv(size, 128) * 128) for most, size in zip(_TPU, sizes, strict=True))
    spec = _specs(turned, tile, lambda i, j, k: (i, j, k))
    return pl.pallas_call(
        functools.partial(_accumulate, sizes=sizes, tile=tile, turned=turned),
        grid=tuple(pl.cdiv(size, each) for size, each in zip(sizes, tile, strict=True)), in_specs=spec[:2],
        out_specs=spec[2], out_shape=array(a, shape=sizes[:2]), scratch_shapes=[tpu.VMEM(tile[:2], jnp.float32)],
        name="matmul", **parameters("tpu", order=("parallel", "parallel", "arbitrary")),
    )(a, b)  # fmt: skip


def _specs(turned: tuple[bool, bool], tile: Any, place: Any) -> list[Any]:
    """The blocks of A, B and C of one program, whose place is a tile's row, column and step along K."""

    def spec(one: int, other: int) -> Any:
        return pl.BlockSpec((tile[one], tile[other]), lambda *at: (place(*at)[one], place(*at)[other]))

    return [spec(2, 0) if turned[0] else spec(0, 2), spec(1, 2) if turned[1] else spec(2, 1), spec(0, 1)]


@functools.partial(jax.jit, static_argnums=(2, 3))
def _multiply(a: Any, b: Any, a_turned: bool = False, b_turned: bool = False) -> Any:
    return on_each(functools.partial(_call, (a_turned, b_turned)), a, b)


@jax.custom_vjp
def _product(a: Any, b: Any) -> Any:
    return _multiply(a, b)


def _gradient(kept: Any, dc: Any) -> Any:
    a, b = kept
    return _multiply(dc, b, False, True), _multiply(a, dc, True, False)


_product.defvjp(lambda a, b: (_product(a, b), (a, b)), _gradient)
