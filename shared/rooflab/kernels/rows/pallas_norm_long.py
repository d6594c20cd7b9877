"""The gradients of norms over rows that with their partial sums do not fit into a program's registers.

One kernel reads rows piece by piece, and leaves of each what its gradient depends on: mean and rstd, and the means of
n g and g (see `pallas_norm`). Another takes columns, for which a program's sums stay in registers. x and dy are read
twice that way: 5 s n bytes instead of 3 s n.

>>> pieces(40_000)
[0, 8192, 16384, 24576, 32768]
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from ..pallas_launching import array, load, parameters, store
from .blocks import next_power_of_2
from .pallas_blocks import inside_of

__all__ = ["backward_of_long_rows", "pieces"]

_PIECE = 8192  # columns at a time of a row
_TILE = (8, 512)  # rows and columns at a time where columns are summed
_TOGETHER = 4  # pieces whose loads may be under way together
_SHARES = 16  # programs that share the rows of some columns


def pieces(cols: int) -> list[int]:
    """Return where the pieces of a row begin."""
    return list(range(0, cols, _PIECE))


def backward_of_long_rows(
    name: str, eps: float, centred: bool, biased: bool, kind: str, x: Any, dy: Any, w: Any
) -> tuple[Any, ...]:
    """Return the gradient with regard to x, and partial sums of those with regard to weight and bias, (programs, cols).

    Args:
        name: of the kernel.
        eps: of the norm.
        centred: whether it is layer norm.
        biased: whether there is a bias.
        kind: of device.
        x: rows.
        dy: the gradient with regard to the norm.
        w: the weight, (1, cols).
    """
    rows, cols = x.shape
    wide = len(pieces(cols)) * _PIECE
    own, every = pl.BlockSpec((1, wide), lambda i: (i, 0)), pl.BlockSpec((1, wide), lambda i: (0, 0))
    one = pl.BlockSpec((1, 1), lambda i: (i, 0))
    common = {"kind": kind, "rows": rows, "cols": cols}
    found = pl.pallas_call(
        functools.partial(_statistics, eps=eps, centred=centred, **common), grid=(rows,), in_specs=[own, own, every],
        out_specs=[one] * 4, out_shape=[array(x, shape=(rows, 1), dtype=jnp.float32)] * 4, name=f"{name}_statistics",
        **parameters(kind, order=("parallel",), num_warps=16),
    )(x, dy, w)  # fmt: skip
    tall, across = min(_TILE[0], next_power_of_2(rows)), min(_TILE[1], next_power_of_2(cols))
    share = -(-rows // (tall * _SHARES)) * tall
    programs = pl.cdiv(rows, share)
    tile, column = pl.BlockSpec((share, across), lambda i, j: (j, i)), pl.BlockSpec((1, across), lambda i, j: (0, i))
    part = pl.BlockSpec((1, across), lambda i, j: (j, i))
    return pl.pallas_call(
        functools.partial(_columns, step=tall, centred=centred, **common), grid=(pl.cdiv(cols, across), programs),
        in_specs=[tile, tile, column, *[pl.BlockSpec((share, 1), lambda i, j: (j, 0))] * 4],
        out_specs=[tile, *[part] * (1 + biased)],
        out_shape=[array(x), *[array(x, shape=(programs, cols), dtype=jnp.float32)] * (1 + biased)], name=name,
        **parameters(kind, order=("parallel", "parallel")),
    )(x, dy, w, *found)  # fmt: skip


def _statistics(
    x: Any, dy: Any, w: Any, mean: Any, rstd: Any, along: Any, level: Any, *, kind: str, rows: int, cols: int,
    eps: float, centred: bool,
) -> None:  # fmt: skip
    """Mean and 1 / deviation of a row, and the means of n g and g over it."""

    def fetch(ref: Any, left: Any) -> Any:
        return load(kind, ref.at[:, pl.ds(left, _PIECE)], inside_of((1, _PIECE), 1, cols, 0, left))

    def over(body: Any, sums: Any) -> Any:
        """Take all pieces: their loads together if there are few, else one after another, or registers run out."""
        if len(pieces(cols)) > _TOGETHER:
            turn = lambda i, sums: body(pl.multiple_of(i * _PIECE, _PIECE), *sums)  # noqa: E731
            return jax.lax.fori_loop(0, len(pieces(cols)), turn, sums)
        return functools.reduce(lambda sums, left: body(left, *sums), pieces(cols), sums)

    def further(left: Any, squares: Any, products: Any, plain: Any) -> tuple[Any, Any, Any]:
        v, g = fetch(x, left), fetch(dy, left) * fetch(w, left)
        if centred:
            v = jnp.where(inside_of(v.shape, 1, cols, 0, left), v - middle, 0.0)
        return squares + v * v, products + v * g, plain + g if centred else plain

    zero = jnp.zeros((1, _PIECE), jnp.float32)
    middle = 0.0
    if centred:
        middle = over(lambda left, total: (total + fetch(x, left),), (zero,))[0].sum(1, keepdims=True) / cols
    squares, products, plain = over(further, (zero, zero, zero))
    scale = jax.lax.rsqrt(squares.sum(1, keepdims=True) / cols + eps)
    here = inside_of((1, 1), rows, 1, pl.program_id(0))
    nothing = jnp.zeros((1, 1), jnp.float32)
    for ref, value in (
        (mean, middle if centred else nothing), (rstd, scale),
        (along, products.sum(1, keepdims=True) * scale / cols), (level, plain.sum(1, keepdims=True) / cols),
    ):  # fmt: skip
        store(kind, ref, here, value)


def _columns(*refs: Any, kind: str, rows: int, cols: int, step: int, centred: bool) -> None:
    """The gradient of some columns of some rows, and their partial sums."""
    x, dy, w, mean, rstd, along, level, dx, *parts = refs
    share, across = x.shape
    top, left = pl.program_id(1) * share, pl.program_id(0) * across
    known = inside_of((1, across), 1, cols, 0, left)
    weight = load(kind, w, known)

    def some(i: Any, sums: Any) -> Any:
        here = pl.ds(pl.multiple_of(i * step, step), step)
        inside = inside_of((step, across), rows, cols, top + i * step, left)
        there = inside_of((step, 1), rows, 1, top + i * step)
        v, g = (load(kind, each.at[here, :], inside) for each in (x, dy))
        scale, slope = (load(kind, each.at[here, :], there) for each in (rstd, along))
        n = (v - load(kind, mean.at[here, :], there) if centred else v) * scale
        d = g * weight - n * slope
        if centred:
            d -= load(kind, level.at[here, :], there)
        store(kind, dx.at[here, :], inside, d * scale)
        return [total + each for total, each in zip(sums, (g * n, g), strict=False)]

    sums = jax.lax.fori_loop(0, share // step, some, [jnp.zeros((step, across), jnp.float32) for _ in parts])
    for part, total in zip(parts, sums, strict=True):
        store(kind, part, known, total.sum(0, keepdims=True))
