"""Attention as a function of JAX, with its gradients: the twin of `triton_attention` in Pallas.

    S = scale Q K^T        P = exp(S - lse), lse = log(sum(exp(S)))        O = P V

A program takes some queries of one head and walks along the keys. It keeps of each query the largest score so far, the
sum of exp(score - largest) and what they weigh the values with, and corrects the last two when a larger score appears:
so the scores never reach the memory. 4 L M D FLOPs a head for L queries and M keys of width D.

On a TPU (unverified on real hardware) the keys and values of a head lie in VMEM whole. On a Hopper whole blocks in
16 bits go to `pallas_attention_hopper`.

>>> import jax.numpy as jnp
>>> q, k = jnp.zeros((1, 1, 2, 16)), jnp.zeros((1, 1, 3, 16))
>>> v = k + jnp.arange(3.0)[:, None]
>>> attention(q, k, v)[0, 0, :, 0].tolist(), attention(q, k, v, causal=True)[0, 0, :, 0].tolist()
([1.0, 1.0], [0.5, 1.0])
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from ..demands import floats, positive, refuse
from ..pallas_launching import array, hopper, load, on_each, parameters, quotient, store

__all__ = ["along", "attention", "block", "block_sizes", "dot", "grid_of", "rows_of", "visible"]

_WIDTHS = (16, 32, 64, 128)


def attention(
    q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool = False, scale: float | None = None
) -> jax.Array:
    """Return softmax(scale q k^T) v of each head, the scores never in memory.

    Args:
        q: queries, (batch, heads, queries, D), float32, bfloat16 or float16; D is 16, 32, 64 or 128.
        k: keys, (batch, kv_heads, keys, D); heads is a multiple of kv_heads, whose heads consecutive ones share.
        v: values, as k.
        causal: each query sees the keys up to its own position, the last query all of them.
        scale: of the scores, 2^-126 to 2^126 (default: 1 / sqrt(D)).

    Returns:
        the shape and format of q. Without any keys it is zero. A query with NaN or plus infinity among its scores, or
        nothing but minus infinity, gives NaN. Keys and values behind the causal mask must be finite.

    Raises:
        TypeError: for other formats.
        ValueError: shapes that do not fit together, more queries than keys under a mask, or another scale.
    """
    floats("attention", q=q, k=k, v=v)
    if q.ndim != 4 or k.ndim != 4 or k.shape != v.shape or (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
        refuse("attention", f"expected (batch, heads, length, D) that fit; found {q.shape}, {k.shape} and {v.shape}.")
    if not q.dtype == k.dtype == v.dtype:
        refuse(
            "attention", f"expected q, k and v of one format; found {q.dtype}, {k.dtype} and {v.dtype}: convert them."
        )
    if q.shape[3] not in _WIDTHS or q.shape[1] % max(1, k.shape[1]):
        refuse("attention", f"expected D of {_WIDTHS} and heads a multiple of kv_heads; found {q.shape} and {k.shape}.")
    if causal and q.shape[2] > k.shape[2]:
        refuse("attention", f"a causal mask needs a key for each query; found {q.shape[2]} and {k.shape[2]}.")
    scale = q.shape[3] ** -0.5 if scale is None else float(scale)
    positive("attention", "scale", scale)
    if not q.size * k.size:
        return 0 * q
    return _attention(q, k, v, bool(causal), scale)


def _forward(
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    lse: Any,
    *,
    kind: str,
    keys: int,
    queries: int,
    cols: int,
    causal: bool,
    scale: float,
) -> None:
    """Some queries of one head."""
    rows = q.shape[0]
    first = pl.program_id(along(kind, 1)) * rows
    some = load(kind, q, rows_of(q.shape, first, queries), dtype=q.dtype)

    def step(i: Any, carry: Any, *, masked: bool) -> Any:
        largest, total, weighed = carry
        here = pl.ds(pl.multiple_of(i * cols, cols), cols)
        known = rows_of((cols, q.shape[1]), i * cols, keys) if masked else None
        keys_here, values = (load(kind, each.at[here, :], known, dtype=each.dtype) for each in (k, v))
        scores = dot(some, keys_here, 1, 1) * scale
        if masked:
            scores = jnp.where(visible(first, i * cols, scores.shape, queries, keys, causal), scores, -jnp.inf)
        larger = jnp.maximum(largest, scores.max(1, keepdims=True))
        base = jnp.where(larger == -jnp.inf, 0.0, larger)  # nothing but minus infinity so far: no NaN yet
        weights, kept = jnp.exp(scores - base), jnp.exp(largest - base)
        weighed = weighed * kept + dot(weights.astype(v.dtype), values, 1, 0)
        return larger, total * kept + weights.sum(1, keepdims=True), weighed

    # Behind the last key that the last of these queries sees there is nothing to do; before the first key that the
    # first of them does not see, there is no mask.
    end = jnp.minimum(first + rows + keys - queries, keys) if causal else keys
    clear = quotient(jnp.minimum(first + 1 + keys - queries, keys), cols) if causal else keys // cols
    zero = jnp.zeros((rows, 1), jnp.float32)
    carry = zero - jnp.inf, zero, jnp.zeros(q.shape, jnp.float32)
    carry = jax.lax.fori_loop(0, clear, functools.partial(step, masked=False), carry)
    if causal or keys % cols:
        carry = jax.lax.fori_loop(clear, quotient(end + cols - 1, cols), functools.partial(step, masked=True), carry)
    largest, total, weighed = carry
    store(kind, o, rows_of(o.shape, first, queries), weighed / total)
    store(kind, lse, rows_of(lse.shape, first, queries), largest + jnp.log(total))


def rows_of(shape: Any, first: Any, length: int) -> Any:
    """Return which elements of a block that begins at row `first` are inside of a matrix of so many rows."""
    return first + jax.lax.broadcasted_iota(jnp.int32, shape, 0) < length


def visible(first: Any, key: Any, shape: Any, queries: int, keys: int, causal: bool) -> Any:
    """Return which keys, from `key` on, the queries from `first` on see."""
    at = key + jax.lax.broadcasted_iota(jnp.int32, shape, 1)
    limit = first + jax.lax.broadcasted_iota(jnp.int32, shape, 0) + keys - queries if causal else keys - 1
    return (at <= limit) & (at < keys)


def along(kind: str, last: int) -> int:
    """Return the axis of the grid along which the blocks of one head lie.

    Programs of one head share its keys through the cache if they run at a time. A TPU walks along the last axis first,
    a GPU along the first: there the last one becomes the first.
    """
    return 0 if kind == "gpu" else last


def grid_of(kind: str, *sizes: int) -> tuple[int, ...]:
    """Return the grid with its last axis where :func:`along` says."""
    return (sizes[-1], *sizes[:-1]) if kind == "gpu" else sizes


def block(kind: str, shape: Any, place: Any) -> Any:
    """Return a block with its place for the axes of :func:`grid_of`."""
    return pl.BlockSpec(shape, (lambda last, *others: place(*others, last)) if kind == "gpu" else place)


def dot(a: Any, b: Any, a_axis: int, b_axis: int) -> Any:
    """Multiply blocks along these axes, into float32; those of float32 without rounding them to fewer bits."""
    exact = jax.lax.Precision.HIGHEST if a.dtype == jnp.float32 else jax.lax.Precision.DEFAULT
    axes = (((a_axis,), (b_axis,)), ((), ()))
    return jax.lax.dot_general(a, b, axes, precision=exact, preferred_element_type=jnp.float32)


def block_sizes(kind: str, width: int, dtype: Any, queries: int, keys: int) -> tuple[int, int, dict[str, int]]:
    """Return how many queries and keys are taken at a time, and warps and stages on a GPU."""
    if kind == "gpu" and jnp.dtype(dtype).itemsize == 2:
        rows, cols, more = 128, 64, {"num_warps": 4 if width < 128 else 8, "num_stages": 3}
    elif kind == "gpu":
        rows, cols, more = 64, 32, {"num_warps": 4, "num_stages": 2}
    else:
        rows, cols, more = 128, 128, {}
    return min(rows, max(16, pl.next_power_of_2(queries))), min(cols, max(16, pl.next_power_of_2(keys))), more


def _call(causal: bool, scale: float, kind: str, q: Any, k: Any, v: Any) -> Any:
    (batch, heads, queries, width), (_, kv_heads, keys, _) = q.shape, k.shape
    if kind == "gpu" and hopper():
        from .pallas_attention_hopper import attention_on_hopper, fits

        if fits(q, k, causal):
            return attention_on_hopper(q, k, v, causal, scale)
    rows, cols, more = block_sizes(kind, width, q.dtype, queries, keys)
    shared = heads // kv_heads
    own = block(kind, (None, rows, width), lambda h, i: (h, i, 0))
    whole = block(kind, (None, pl.cdiv(keys, cols) * cols, width), lambda h, i: (quotient(h, shared), 0, 0))
    o, lse = pl.pallas_call(
        functools.partial(
            _forward, kind=kind, keys=keys, queries=queries, cols=cols, causal=causal, scale=scale
        ),
        grid=grid_of(kind, batch * heads, pl.cdiv(queries, rows)), in_specs=[own, whole, whole],
        out_specs=[own, block(kind, (None, rows, 1), lambda h, i: (h, i, 0))],
        out_shape=[
            array(q, shape=(batch * heads, queries, width)),
            array(q, shape=(batch * heads, queries, 1), dtype=jnp.float32),
        ],
        name="attention", **parameters(kind, order=("parallel", "parallel"), **more),
    )(*(each.reshape(-1, *each.shape[2:]) for each in (q, k, v)))  # fmt: skip
    return o.reshape(q.shape), lse.reshape(batch, heads, queries)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _with_lse(q: Any, k: Any, v: Any, causal: bool, scale: float) -> Any:
    return on_each(functools.partial(_call, causal, scale), q, k, v)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _attention(q: Any, k: Any, v: Any, causal: bool, scale: float) -> Any:
    return _with_lse(q, k, v, causal, scale)[0]


def _keep(q: Any, k: Any, v: Any, causal: bool, scale: float) -> Any:
    o, lse = _with_lse(q, k, v, causal, scale)
    return o, (q, k, v, o, lse)


def _gradient(causal: bool, scale: float, kept: Any, do: Any) -> Any:
    from .pallas_attention_backward import attention_backward

    return attention_backward(*kept, do, causal, scale)


_attention.defvjp(_keep, _gradient)
