"""RMS norm and layer norm over rows as functions of JAX, with their gradients: the twin of `triton_norm` in Pallas.

    layer norm:  y = (x - mean) rstd w + b         RMS norm:  y = x rstd w

with rstd = 1 / sqrt(variance + eps), or 1 / sqrt(mean of squares + eps). With n = (x - mean) rstd and g = dy w,

    dx = rstd (g - n mean(n g) [- mean(g)]),       dw = sum over rows of dy n,       db = sum over rows of dy.

Backward each program takes some rows that lie one after another, adds up what they give to dw and db, and writes one
partial sum for each column; these are added in a second kernel, always in the same order. Nothing but x is kept for the
backward pass: a row is there anyway, and its mean and rstd cost no byte. While a program computes with some rows, the
next ones are on their way.

>>> import jax, jax.numpy as jnp
>>> x = jnp.array([[3.0, 4.0]])
>>> float(jnp.square(rms_norm(x, jnp.ones(2), 0.0)).mean())
1.0
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from ..demands import as_rows, floats, refuse
from ..pallas_launching import array, load, on_each, parameters, store
from .blocks import LONGEST
from .pallas_blocks import block_of, inside_of, room_ahead, share_of, sums_block

__all__ = ["layer_norm", "rms_norm"]

_LONG = {False: 16_384, True: 8192}  # columns that with their sums fit into registers backward: RMS norm, layer norm


def rms_norm(x: jax.Array, weight: jax.Array, eps: float = 1e-6) -> jax.Array:
    """Return RMS norm over the last dimension; see :func:`rooflab.kernels.rms_norm`."""
    _check("rms_norm", x, weight=weight)
    return _norm(x, weight, None, float(eps), False)


def layer_norm(x: jax.Array, weight: jax.Array, bias: jax.Array | None, eps: float = 1e-5) -> jax.Array:
    """Return layer norm over the last dimension; see :func:`rooflab.kernels.layer_norm`."""
    _check("layer_norm", x, weight=weight, **({} if bias is None else {"bias": bias}))
    return _norm(x, weight, bias, float(eps), True)


def _normalized(v: Any, inside: Any, cols: int, eps: float, centred: bool) -> tuple[Any, Any]:
    """Rows divided by their deviation, and 1 / the deviation; what is outside of them is 0 before and after."""
    if centred:
        v = jnp.where(inside, v - v.sum(1, keepdims=True) / cols, 0.0)
    rstd = jax.lax.rsqrt((v * v).sum(1, keepdims=True) / cols + eps)
    return v * rstd, rstd


def _forward(*refs: Any, kind: str, rows: int, cols: int, eps: float, centred: bool) -> None:
    """Rows of x, with a weight and perhaps a bias for each column, to rows of y."""
    x, *columns, y = refs
    inside = inside_of(x.shape, rows, cols, pl.program_id(0) * x.shape[0])
    known = inside_of(columns[0].shape, 1, cols)
    n, _ = _normalized(load(kind, x, inside), inside, cols, eps, centred)
    weight, *bias = (load(kind, each, known) for each in columns)
    store(kind, y, inside, n * weight + bias[0] if bias else n * weight)


def _backward(*refs: Any, kind: str, rows: int, cols: int, step: int, ahead: bool, eps: float, centred: bool) -> None:
    """The gradient with regard to x, `step` rows at a time, and this program's part of the weight's and the bias'."""
    x, dy, w, dx, *parts = refs
    share, width = x.shape
    known = inside_of(w.shape, 1, cols)
    weight = load(kind, w, known)
    top = pl.program_id(0) * share

    def fetch(i: Any) -> tuple[Any, Any, Any]:
        """Rows in their own format: to convert them would be to wait for them."""
        here = pl.ds(pl.multiple_of(jnp.minimum(i * step, share - step), step), step)
        inside = inside_of((step, width), rows, cols, top + i * step) & (i * step < share)
        return here, inside, [load(kind, each.at[here, :], inside, dtype=each.dtype) for each in (x, dy)]

    def some(i: Any, carry: Any) -> Any:
        following, sums = carry
        here, inside, given = fetch(i)
        if ahead:  # these rows came with the last ones, and the next ones set out
            given, following = following, fetch(i + 1)[2]
        v, g = (each.astype(jnp.float32) for each in given)
        n, rstd = _normalized(v, inside, cols, eps, centred)
        sums = [total + each.sum(0, keepdims=True) for total, each in zip(sums, (g * n, g), strict=False)]
        g *= weight
        d = g - n * ((n * g).sum(1, keepdims=True) / cols)
        if centred:
            d -= g.sum(1, keepdims=True) / cols
        store(kind, dx.at[here, :], inside, d * rstd)
        return following, sums

    start = fetch(0)[2] if ahead else [], [jnp.zeros((1, width), jnp.float32) for _ in parts]
    _, sums = jax.lax.fori_loop(0, share // step, some, start)
    for part, total in zip(parts, sums, strict=True):
        store(kind, part, known, total)


def _add(parts: Any, total: Any, *, kind: str, count: int, cols: int, step: int) -> None:
    """Add up `count` rows, `step` at a time, always in the same order."""
    width = parts.shape[1]
    left = pl.program_id(0) * width

    def some(i: Any, sums: Any) -> Any:
        here = pl.ds(pl.multiple_of(i * step, step), step)
        return sums + load(kind, parts.at[here, :], inside_of((step, width), count, cols, i * step, left))

    sums = jax.lax.fori_loop(0, parts.shape[0] // step, some, jnp.zeros((step, width), jnp.float32))
    store(kind, total, inside_of((1, width), 1, cols, 0, left), sums.sum(0, keepdims=True))


def _call(name: str, eps: float, centred: bool, kind: str, x: Any, *columns: Any) -> Any:
    rows, cols = x.shape
    block, more = block_of(kind, name, rows, cols, 32)
    own, every = pl.BlockSpec(block, lambda i: (i, 0)), pl.BlockSpec((1, block[1]), lambda i: (0, 0))
    return pl.pallas_call(
        functools.partial(_forward, kind=kind, rows=rows, cols=cols, eps=eps, centred=centred),
        grid=(pl.cdiv(rows, block[0]),), in_specs=[own, *(every for _ in columns)], out_specs=own, out_shape=array(x),
        name=name, **parameters(kind, order=("parallel",), **more),
    )(x, *columns)  # fmt: skip


def _call_backward(name: str, eps: float, centred: bool, biased: bool, kind: str, x: Any, dy: Any, w: Any) -> Any:
    rows, cols = x.shape
    if kind == "gpu" and cols > _LONG[centred]:
        from .pallas_norm_long import backward_of_long_rows

        dx, *parts = backward_of_long_rows(name, eps, centred, biased, kind, x, dy, w)
        return dx, *(_sum(kind, each) for each in parts)
    (share, width), step, more = share_of(kind, name, rows, cols)
    programs = pl.cdiv(rows, share)
    own, every = pl.BlockSpec((share, width), lambda i: (i, 0)), pl.BlockSpec((1, width), lambda i: (0, 0))
    part = pl.BlockSpec((None, 1, width), lambda i: (i, 0, 0))
    part_shape = array(w, shape=(programs, 1, cols), dtype=jnp.float32)
    dx, *parts = pl.pallas_call(
        functools.partial(
            _backward, kind=kind, rows=rows, cols=cols, step=step, ahead=room_ahead(step * width, **more), eps=eps,
            centred=centred,
        ),
        grid=(programs,), in_specs=[own, own, every], out_specs=[own, *[part] * (1 + biased)],
        out_shape=[array(x), *[part_shape] * (1 + biased)], name=name,
        **parameters(kind, order=("parallel",), **more),
    )(x, dy, w)  # fmt: skip
    return dx, *(_sum(kind, each.reshape(programs, cols)) for each in parts)


def _sum(kind: str, parts: Any) -> Any:
    count, cols = parts.shape
    block, step = sums_block(kind, count, cols)
    return pl.pallas_call(
        functools.partial(_add, kind=kind, count=count, cols=cols, step=step), grid=(pl.cdiv(cols, block[1]),),
        in_specs=[pl.BlockSpec(block, lambda i: (0, i))], out_specs=pl.BlockSpec((1, block[1]), lambda i: (0, i)),
        out_shape=array(parts, shape=(1, cols)), name="add_partial_sums", **parameters(kind, order=("parallel",)),
    )(parts)[0]  # fmt: skip


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
@functools.partial(jax.jit, static_argnums=(3, 4))
def _norm(x: Any, weight: Any, bias: Any, eps: float, centred: bool) -> Any:
    name = "layer_norm" if centred else "rms_norm"
    rows = as_rows(name, x, longest=LONGEST)
    columns = [each[None] for each in (weight, bias) if each is not None]
    return on_each(functools.partial(_call, name, eps, centred), rows, *columns).reshape(x.shape) if x.size else x


def _keep(x: Any, weight: Any, bias: Any, eps: float, centred: bool) -> Any:
    return _norm(x, weight, bias, eps, centred), (x, weight, bias)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _gradient(eps: float, centred: bool, kept: Any, dy: Any) -> Any:
    x, weight, bias = kept
    if not x.size:
        return dy, jnp.zeros_like(weight), None if bias is None else jnp.zeros_like(bias)
    name = f"{'layer' if centred else 'rms'}_norm_backward"
    rows, dy_rows = (as_rows(name, each, longest=LONGEST) for each in (x, dy))
    call = functools.partial(_call_backward, name, eps, centred, bias is not None)
    dx, dw, *db = on_each(call, rows, dy_rows, weight[None])
    return dx.reshape(x.shape), dw.astype(weight.dtype), db[0].astype(bias.dtype) if db else None


_norm.defvjp(_keep, _gradient)


def _check(name: str, x: Any, **columns: Any) -> None:
    """Refuse what does not fit together."""
    floats(name, x=x, **columns)
    as_rows(name, x, longest=LONGEST)
    for what, each in columns.items():
        if each.shape != (x.shape[-1],):
            refuse(name, f"expected {what} of shape ({x.shape[-1]},) for rows of that length; found {each.shape}.")
