"""Softmax over rows as a function of JAX, forward and backward: the twin of `triton_softmax` in Pallas.

    y = exp(x - max(x)) / sum(exp(x - max(x)))        dx = y (dy - sum(y dy))

A program takes some whole rows, which stay on the chip between the passes over them: s n bytes read and s n written
forward, 2 s n read and s n written backward, for n elements of s bytes. The same few lines serve GPUs, TPUs (unverified
on real hardware) and CPUs, where they are interpreted.

>>> import jax, jax.numpy as jnp
>>> softmax(jnp.zeros((2, 4)))[0].tolist()
[0.25, 0.25, 0.25, 0.25]
>>> jax.grad(lambda x: softmax(x)[0])(jnp.zeros(2)).tolist()
[0.25, -0.25]
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from ..demands import as_rows, floats
from ..pallas_launching import array, load, on_each, parameters, store
from .blocks import LONGEST
from .pallas_blocks import block_of, inside_of_all

__all__ = ["softmax"]


def _forward(x: Any, y: Any, *, kind: str, rows: int, cols: int) -> None:
    """Rows of x to rows of y."""
    inside = inside_of_all(x.shape, rows, cols, pl.program_id(0) * x.shape[0])
    v = load(kind, x, inside, -jnp.inf)
    v = jnp.exp(v - v.max(1, keepdims=True))
    store(kind, y, inside, v / v.sum(1, keepdims=True))


def _backward(y: Any, dy: Any, dx: Any, *, kind: str, rows: int, cols: int) -> None:
    """The gradient from y and dy to dx."""
    inside = inside_of_all(y.shape, rows, cols, pl.program_id(0) * y.shape[0])
    p, g = load(kind, y, inside), load(kind, dy, inside)
    store(kind, dx, inside, p * (g - (p * g).sum(1, keepdims=True)))


@functools.partial(jax.jit, static_argnames=("name", "kernel"))
def _over_rows(name: str, kernel: Any, *arrays: Any) -> Any:
    """Call a kernel over the rows of some matrices of one shape."""
    rows, cols = arrays[0].shape

    def call(kind: str, *arrays: Any) -> Any:
        block, more = block_of(kind, name, rows, cols, 64 if len(arrays) == 1 else 32)
        spec = pl.BlockSpec(block, lambda i: (i, 0))
        return pl.pallas_call(
            functools.partial(kernel, kind=kind, rows=rows, cols=cols), grid=(pl.cdiv(rows, block[0]),),
            in_specs=[spec] * len(arrays), out_specs=spec, out_shape=array(arrays[0]), name=name,
            **parameters(kind, order=("parallel",), **more),
        )(*arrays)  # fmt: skip

    return on_each(call, *arrays)


@jax.custom_vjp
def softmax(x: jax.Array) -> jax.Array:
    """Return softmax over the last dimension, of the same shape and format; see :func:`rooflab.kernels.softmax`."""
    floats("softmax", x=x)
    given = as_rows("softmax", x, longest=LONGEST)
    return _over_rows("softmax", _forward, given).reshape(x.shape) if x.size else x


def _keep(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    y = softmax(x)
    return y, y


def _gradient(y: jax.Array, dy: jax.Array) -> tuple[jax.Array]:
    if not y.size:
        return (dy,)
    y_rows, dy_rows = (as_rows("softmax", each, longest=LONGEST) for each in (y, dy))
    return (_over_rows("softmax_backward", _backward, y_rows, dy_rows).reshape(y.shape),)


softmax.defvjp(_keep, _gradient)
