"""The gradients of attention for JAX: the twin of `triton_attention_backward` in Pallas.

    dV = P^T dO        dS = P (dO V^T - delta), delta = sum(dO O)        dQ = scale dS K        dK = scale dS^T Q

The scores are computed anew from Q, K and lse: to keep them would take L M numbers. One kernel takes some keys and
walks along the queries, for dK and dV; one takes some queries and walks along the keys, for dQ. So nothing is added up
in memory, and the result is the same each time. Where heads share keys, the first one walks along the queries of all.

>>> import jax.numpy as jnp
>>> q = k = v = do = jnp.ones((1, 1, 2, 16))
>>> dq, dk, dv = attention_backward(q, k, v, v, jnp.full((1, 1, 2), 16.0 + jnp.log(2.0)), do, False, 1.0)
>>> float(dq.max()), float(dv.sum().round(3))
(0.0, 32.0)
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from ..pallas_launching import array, hopper, load, on_each, parameters, quotient, store
from .pallas_attention import along, block, block_sizes, dot, grid_of, rows_of, visible

__all__ = ["attention_backward"]


@functools.partial(jax.jit, static_argnums=(6, 7))
def attention_backward(q: Any, k: Any, v: Any, o: Any, lse: Any, do: Any, causal: bool, scale: float) -> Any:
    """Return the gradients with regard to q, k and v.

    Args:
        q: queries, (batch, heads, queries, D).
        k: keys, (batch, kv_heads, keys, D).
        v: values, as k.
        o: what attention returned.
        lse: log(sum(exp(scores))) of each query, (batch, heads, queries).
        do: the gradient with regard to o.
        causal: whether there was a mask.
        scale: of the scores.
    """
    (batch, heads, queries, width), (_, kv_heads, keys, _) = q.shape, k.shape
    delta = (do.astype(jnp.float32) * o.astype(jnp.float32)).sum(-1)
    mine = (batch * kv_heads, heads // kv_heads, queries)
    q_like = [each.reshape(*mine, width) for each in (q, do)] + [each.reshape(*mine, 1) for each in (lse, delta)]
    k_like = [each.reshape(batch * kv_heads, keys, width) for each in (k, v)]
    dq, dk, dv = on_each(functools.partial(_call, causal, scale), *q_like, *k_like)
    return dq.reshape(q.shape), dk.reshape(k.shape), dv.reshape(v.shape)


def _pair(q: Any, do: Any, lse: Any, delta: Any, k: Any, v: Any, seen: Any, scale: float) -> tuple[Any, Any]:
    """P and dS of a block of queries and a block of keys."""
    scores = dot(q, k, 1, 1) * scale
    p = jnp.where(seen, jnp.exp(scores - lse), 0.0)
    ds = p * (dot(do, v, 1, 1) - delta) * scale
    return p, jnp.where(seen, ds, 0.0)  # of a query that is not finite, it is 0 times NaN behind the mask


def _for_keys(
    q: Any, do: Any, lse: Any, delta: Any, k: Any, v: Any, dk: Any, dv: Any, *, kind: str, queries: int, keys: int,
    rows: int, causal: bool, scale: float,
) -> None:  # fmt: skip
    """dK and dV of some keys; the queries are those of all heads that share them."""
    heads, cols = q.shape[0], k.shape[0]
    first = pl.program_id(along(kind, 1)) * cols
    known = rows_of(k.shape, first, keys)
    some, values = (load(kind, each, known, dtype=each.dtype) for each in (k, v))
    start = quotient(jnp.maximum(first - (keys - queries), 0), rows) if causal else 0
    steps = pl.cdiv(queries, rows)

    def step(i: Any, sums: Any, *, head: Any) -> Any:
        here, top = pl.ds(pl.multiple_of(i * rows, rows), rows), i * rows
        there = rows_of((rows, q.shape[2]), top, queries)
        q_here, do_here = (load(kind, each.at[head, here, :], there, dtype=each.dtype) for each in (q, do))
        one = rows_of((rows, 1), top, queries)
        lse_here, delta_here = (load(kind, each.at[head, here, :], one) for each in (lse, delta))
        # A query that is not there has dO and q of 0, whose score with an infinite key would be NaN.
        seen = visible(top, first, (rows, cols), queries, keys, causal) & one
        p, ds = _pair(q_here, do_here, lse_here, delta_here, some, values, seen, scale)
        return sums[0] + dot(ds.astype(q.dtype), q_here, 0, 0), sums[1] + dot(p.astype(do.dtype), do_here, 0, 0)

    sums = jnp.zeros(k.shape, jnp.float32), jnp.zeros(k.shape, jnp.float32)
    sums = jax.lax.fori_loop(
        0, heads, lambda head, sums: jax.lax.fori_loop(start, steps, functools.partial(step, head=head), sums), sums
    )
    for ref, total in zip((dk, dv), sums, strict=True):
        store(kind, ref, known, total)


def _for_queries(
    q: Any, do: Any, lse: Any, delta: Any, k: Any, v: Any, dq: Any, *, kind: str, queries: int, keys: int, cols: int,
    causal: bool, scale: float,
) -> None:  # fmt: skip
    """dQ of some queries."""
    rows = q.shape[0]
    first = pl.program_id(along(kind, 2)) * rows
    there = rows_of(q.shape, first, queries)
    some, do_here = (load(kind, each, there, dtype=each.dtype) for each in (q, do))
    lse_here, delta_here = (load(kind, each, rows_of((rows, 1), first, queries)) for each in (lse, delta))

    def step(i: Any, total: Any) -> Any:
        here = pl.ds(pl.multiple_of(i * cols, cols), cols)
        known = rows_of((cols, q.shape[1]), i * cols, keys)
        keys_here, values = (load(kind, each.at[here, :], known, dtype=each.dtype) for each in (k, v))
        seen = visible(first, i * cols, (rows, cols), queries, keys, causal)
        _, ds = _pair(some, do_here, lse_here, delta_here, keys_here, values, seen, scale)
        return total + dot(ds.astype(k.dtype), keys_here, 1, 0)

    end = jnp.minimum(first + rows + keys - queries, keys) if causal else keys
    total = jax.lax.fori_loop(0, quotient(end + cols - 1, cols), step, jnp.zeros(q.shape, jnp.float32))
    store(kind, dq, there, total)


def _call(causal: bool, scale: float, kind: str, q: Any, *others: Any) -> Any:
    k = others[-2]
    (batch, shared, queries, width), keys = q.shape, k.shape[1]
    if kind == "gpu" and hopper():
        from .pallas_backward_hopper import backward_on_hopper, fits

        if fits(q, k):
            do, lse, delta, k, v = others
            return backward_on_hopper(q, do, lse, delta, k, v, causal, scale)
    rows, cols, more = block_sizes(kind, width, q.dtype, queries, keys)
    rows = min(rows, 64)
    tall, long = pl.cdiv(queries, rows) * rows, pl.cdiv(keys, cols) * cols
    common = {"kind": kind, "queries": queries, "keys": keys, "causal": causal, "scale": scale}
    every = [block(kind, (None, shared, tall, wide), lambda h, i: (h, 0, 0, 0)) for wide in (width, width, 1, 1)]
    some = block(kind, (None, cols, width), lambda h, i: (h, i, 0))
    dk, dv = pl.pallas_call(
        functools.partial(_for_keys, rows=rows, **common), grid=grid_of(kind, batch, pl.cdiv(keys, cols)),
        in_specs=[*every, some, some], out_specs=[some, some], out_shape=[array(k), array(k)],
        name="attention_backward_keys", **parameters(kind, order=("parallel", "parallel"), **more),
    )(q, *others)  # fmt: skip
    own = [block(kind, (None, None, rows, wide), lambda h, g, i: (h, g, i, 0)) for wide in (width, width, 1, 1)]
    whole = block(kind, (None, long, width), lambda h, g, i: (h, 0, 0))
    dq = pl.pallas_call(
        functools.partial(_for_queries, cols=cols, **common), grid=grid_of(kind, batch, shared, pl.cdiv(queries, rows)),
        in_specs=[*own, whole, whole], out_specs=own[0], out_shape=array(q), name="attention_backward_queries",
        **parameters(kind, order=("parallel",) * 3, **more),
    )(q, *others)  # fmt: skip
    return dq, dk, dv
