"""The gradients of attention for Hopper GPUs through Mosaic: the twin of `triton_backward_hopper` and its like for dq.

    dV = P^T dO        dS = P (dO V^T - delta)        dQ = scale dS K        dK = scale dS^T Q

Two kernels, of programs that own 64 keys or 64 queries and walk along the others, 64 at a time. P and dS are computed
from the scores anew, seven products in all. A step for keys (keys down, queries across) is

    start s = k q^T and dp = v do^T,      wait for s,       p = exp(s - lse)             while dp runs,
    start dv += p^T do,                   wait for dp,      ds = p (dp - delta)          while dv runs,
    start dk += ds^T q,                   and begin the next step while dk runs.

Four warps make a program, and two programs share a multiprocessor; they load for themselves, a ring of blocks ahead.

>>> import jax
>>> q = jax.ShapeDtypeStruct((1, 8, 1000, 128), "bfloat16")
>>> fits(q, q)                                                     # 1,000 is no multiple of 64
False
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from ..pallas_launching import array, flipped, quotient
from ..pallas_mosaic import accumulate, mosaic, scratch, usable, walk

__all__ = ["backward_on_hopper", "fits"]

_BLOCK = 64  # keys, and queries
_RING = 2  # blocks of the others in flight
_LOG2E = math.log2(math.e)


def fits(q: Any, k: Any) -> bool:
    """Whether there are whole blocks in 16 bits, and Mosaic is there and new enough."""
    whole = not (q.shape[-2] % _BLOCK or k.shape[-2] % _BLOCK)
    return whole and q.shape[-1] in (64, 128) and jnp.dtype(q.dtype).itemsize == 2 and usable()


def backward_on_hopper(
    q: Any, do: Any, lse: Any, delta: Any, k: Any, v: Any, causal: bool, scale: float, **more: Any
) -> Any:
    """Return the gradients with regard to q, k and v.

    Args:
        q: queries, (kv_heads of all the batch, heads that share one, queries, D).
        do: the gradient with regard to the output, likewise.
        lse: log(sum(exp(scores))) of each query, with D = 1.
        delta: sum over D of the output times its gradient, likewise.
        k: keys, (kv_heads of all the batch, keys, D).
        v: values, as k.
        causal: whether there was a mask.
        scale: of the scores.
        more: for Mosaic's `kernel`.
    """
    (kv_heads, shared, queries, width), keys = q.shape, k.shape[1]
    heads = [each.reshape(-1, queries, width) for each in (q, do)]
    rows = jnp.stack([lse * _LOG2E, delta], 2).reshape(-1, 2, queries)  # one copy brings both
    common = {"shared": shared, "causal": causal, "scale": scale}
    own, others = scratch((2, _BLOCK, width), q.dtype), scratch((_RING, 2, _BLOCK, width), q.dtype)
    dk, dv = _kernel(
        functools.partial(_for_keys, **common), [array(k), array(v)], "attention_backward_keys",
        (keys // _BLOCK, kv_heads), own, others, mosaic().SMEM((_RING, 2, _BLOCK), jnp.float32), (3, 2), **more,
    )(*heads, rows, k, v)  # fmt: skip
    dq = _kernel(
        functools.partial(_for_queries, **common), array(heads[0]), "attention_backward_queries",
        (queries // _BLOCK, kv_heads * shared), own, others, mosaic().SMEM((2, _BLOCK), jnp.float32), (2, 3), **more,
    )(*heads, rows, k, v)  # fmt: skip
    return dq.reshape(q.shape), dk, dv


def _kernel(
    body: Any, results: Any, name: str, grid: tuple[int, int], own: Any, others: Any, sums: Any,
    arrivals: tuple[int, int], **more: Any,
) -> Any:  # fmt: skip
    """Describe a kernel; `arrivals` are the copies of a block of the others, and of what a program owns."""
    full = mosaic().Barrier(num_barriers=_RING, num_arrivals=arrivals[0])
    ready = mosaic().Barrier(num_arrivals=arrivals[1])
    parameters = mosaic().CompilerParams(approx_math=True, lowering_semantics=mosaic().LoweringSemantics.Warpgroup)
    return mosaic().kernel(
        body, out_type=results, scratch_types=[own, others, sums, full, ready], grid=grid,
        grid_names=("block", "head"), num_threads=1, thread_name="group", kernel_name=name,
        compiler_params=parameters, **more,
    )  # fmt: skip


def _for_keys(
    q: Any, do: Any, rows: Any, k: Any, v: Any, dk: Any, dv: Any, own: Any, others: Any, sums: Any, full: Any,
    ready: Any, *, shared: int, causal: bool, scale: float,
) -> None:  # fmt: skip
    """dk and dv of 64 keys: `own` are k and v, `others` q and do, `sums` lse and delta, in shared memory."""
    head, key = jax.lax.axis_index("head"), jax.lax.axis_index("block") * _BLOCK
    ahead = k.shape[1] - q.shape[1] - key  # the first query of all sees keys up to this one of ours
    first = quotient(jnp.maximum(-ahead, 0), _BLOCK) if causal else 0
    blocks = q.shape[1] // _BLOCK - first
    steps = blocks * shared

    def load(step: Any) -> None:
        slot, one = jax.lax.rem(step, jnp.int32(_RING)), jax.lax.div(step, jnp.int32(blocks))
        here, mine = pl.ds((first + step - one * blocks) * _BLOCK, _BLOCK), head * shared + one
        for source, place in ((q.at[mine, here], others.at[slot, 0]), (do.at[mine, here], others.at[slot, 1])):
            mosaic().copy_gmem_to_smem(source, place, full.at[slot])
        mosaic().copy_gmem_to_smem(rows.at[mine, :, here], sums.at[slot], full.at[slot])

    _begin((k, v), head, key, own, ready)

    def add_up(dk_sum: Any, dv_sum: Any) -> tuple[Any, Any]:
        def step(i: Any) -> None:
            slot = jax.lax.rem(i, jnp.int32(_RING))
            qs, dos = others.at[slot, 0], others.at[slot, 1]
            mosaic().barrier_wait(full.at[slot])

            def products(s: Any, dp: Any) -> None:
                mosaic().wgmma(s, own.at[0], flipped(qs))
                mosaic().wgmma(dp, own.at[1], flipped(dos))
                scores = mosaic().wgmma_accumulator_load(s, wait_n=1)
                pl.when(i + _RING - 1 < steps)(lambda: load(i + _RING - 1))
                p = jnp.exp2(scores * (scale * _LOG2E) - _across(sums.at[slot, 0]))
                last = (first + jax.lax.rem(i, jnp.int32(blocks))) * _BLOCK + ahead
                p = _masked(p, 1, last) if causal else p
                mosaic().wgmma(dv_sum, p.astype(do.dtype), dos)
                ds = p * (mosaic().wgmma_accumulator_load(dp, wait_n=1) - _across(sums.at[slot, 1]))
                ds = _masked(ds, 1, last) if causal else ds  # 0 times NaN, of a query that is not finite
                mosaic().wgmma(dk_sum, ds.astype(q.dtype), qs)
                mosaic().wgmma_wait(1)

            accumulate(products, (_BLOCK, _BLOCK), (_BLOCK, _BLOCK))

        walk(0, steps, step, dk_sum, dv_sum)
        return mosaic().wgmma_accumulator_load(dk_sum), mosaic().wgmma_accumulator_load(dv_sum)

    for i in range(_RING - 1):
        pl.when(i < steps)(functools.partial(load, jnp.int32(i)))
    mosaic().barrier_wait(ready)
    dk_sum, dv_sum = accumulate(add_up, own.shape[1:], own.shape[1:])
    _end(((dk_sum * scale, dk), (dv_sum, dv)), own, (head, pl.ds(key, _BLOCK)))


def _for_queries(
    q: Any, do: Any, rows: Any, k: Any, v: Any, dq: Any, own: Any, others: Any, sums: Any, full: Any, ready: Any, *,
    shared: int, causal: bool, scale: float,
) -> None:  # fmt: skip
    """dq of 64 queries: `own` are q and do, `others` k and v, `sums` lse and delta, in shared memory."""
    head, top = jax.lax.axis_index("head"), jax.lax.axis_index("block") * _BLOCK
    if causal:  # those with the most keys begin first
        top = q.shape[1] - _BLOCK - top
    last = top + k.shape[1] - q.shape[1]  # the first query sees keys up to this one
    steps = quotient(last + 2 * _BLOCK - 1, _BLOCK) if causal else k.shape[1] // _BLOCK

    def load(step: Any) -> None:
        slot, here, kv = jax.lax.rem(step, jnp.int32(_RING)), pl.ds(step * _BLOCK, _BLOCK), quotient(head, shared)
        mosaic().copy_gmem_to_smem(k.at[kv, here], others.at[slot, 0], full.at[slot])
        mosaic().copy_gmem_to_smem(v.at[kv, here], others.at[slot, 1], full.at[slot])

    _begin((q, do), head, top, own, ready)
    mosaic().copy_gmem_to_smem(rows.at[head, :, pl.ds(top, _BLOCK)], sums, ready)
    for i in range(_RING - 1):
        pl.when(i < steps)(functools.partial(load, jnp.int32(i)))
    mosaic().barrier_wait(ready)
    lse, delta = sums.at[0][...], sums.at[1][...]

    def add_up(dq_sum: Any) -> Any:
        def step(i: Any) -> None:
            slot = jax.lax.rem(i, jnp.int32(_RING))
            ks, vs = others.at[slot, 0], others.at[slot, 1]
            mosaic().barrier_wait(full.at[slot])

            def products(s: Any, dp: Any) -> None:
                mosaic().wgmma(s, own.at[0], flipped(ks))
                mosaic().wgmma(dp, own.at[1], flipped(vs))
                scores = mosaic().wgmma_accumulator_load(s, wait_n=1)
                p = jnp.exp2(scores * (scale * _LOG2E) - _down(lse))
                if causal:
                    p = _masked(p, 0, last - i * _BLOCK)
                # Here, and not before: without this branch the assembler has exponentials wait for dp.
                pl.when(i + _RING - 1 < steps)(lambda: load(i + _RING - 1))
                ds = p * (mosaic().wgmma_accumulator_load(dp) - _down(delta))
                mosaic().wgmma(dq_sum, ds.astype(k.dtype), ks)

            accumulate(products, (_BLOCK, _BLOCK), (_BLOCK, _BLOCK))

        walk(0, steps, step, dq_sum)
        return mosaic().wgmma_accumulator_load(dq_sum)

    _end(((accumulate(add_up, own.shape[1:]) * scale, dq),), own, (head, pl.ds(top, _BLOCK)))


def _begin(sources: Any, head: Any, first: Any, own: Any, ready: Any) -> None:
    """Start the copies of what a program owns."""
    for i, source in enumerate(sources):
        mosaic().copy_gmem_to_smem(source.at[head, pl.ds(first, _BLOCK)], own.at[i], ready)


def _end(found: Any, own: Any, where: Any) -> None:
    """Store results through the places of what the program owned."""
    for i, (value, _) in enumerate(found):
        own.at[i][...] = value.astype(own.dtype)
    mosaic().commit_smem()
    for i, (_, result) in enumerate(found):
        mosaic().copy_smem_to_gmem(own.at[i], result.at[where])
    mosaic().wait_smem_to_gmem(0)


def _across(row: Any) -> Any:
    """Numbers of the columns of a block."""
    return jax.lax.broadcast_in_dim(row[...], (_BLOCK, _BLOCK), [1])


def _down(column: Any) -> Any:
    """Numbers of the rows of a block."""
    return jax.lax.broadcast_in_dim(column, (_BLOCK, _BLOCK), [0])


def _masked(block: Any, queries: int, last: Any) -> Any:
    """Zero where a query does not see a key; the first query sees keys up to `last`, queries lie along that axis."""

    def hide(block: Any) -> Any:
        down, across = (jax.lax.broadcasted_iota(jnp.int32, block.shape, axis) for axis in (0, 1))
        return jnp.where((across - down if queries == 0 else down - across) <= last, block, 0.0)

    return jax.lax.cond(last < _BLOCK - 1, hide, lambda block: block, block)
