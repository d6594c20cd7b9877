"""Attention forward for Hopper GPUs through Mosaic, the other of Pallas' two ways to a GPU.

The twin of `triton_attention_hopper`, with its schedule. Warps are specialized: of three groups, one has the copy
engine bring queries, and blocks of keys and values into a ring in shared memory. The two others have 64 queries each:

    start s = q k^T of block j, and o += p v of block j - 1,    wait for s,    softmax while o runs,    wait for o.

The weights p stay in registers on their way from one product to the other. One program stays on each multiprocessor and
takes tiles of 128 queries in turn; what the next one needs is loaded while the last one ends.

>>> import jax
>>> q = jax.ShapeDtypeStruct((1, 8, 1000, 128), "bfloat16")
>>> fits(q, q, False)                                              # 1,000 is no multiple of 128
False
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from ..pallas_launching import array, flipped, processors, quotient
from ..pallas_mosaic import accumulate, mosaic, resume, scratch, usable

__all__ = ["attention_on_hopper", "fits"]

_ROWS, _COLS = 64, 128  # queries of each of two groups, and keys at a time
_RINGS = {64: 4, 128: 2}  # blocks of keys and of values in flight, by their width
_LOG2E = math.log2(math.e)


def fits(q: Any, k: Any, causal: bool) -> bool:
    """Whether there are whole blocks in 16 bits, and Mosaic is there and new enough."""
    whole = not (q.shape[2] % (2 * _ROWS) or k.shape[2] % _COLS)
    return whole and q.shape[3] in _RINGS and jnp.dtype(q.dtype).itemsize == 2 and usable()


def attention_on_hopper(q: Any, k: Any, v: Any, causal: bool, scale: float, *, ring: int = 0, **more: Any) -> Any:
    """Return the output, and log(sum(exp(scores))) of each query.

    Args:
        q: queries, (batch, heads, queries, D).
        k: keys, (batch, kv_heads, keys, D).
        v: values, as k.
        causal: whether there is a mask.
        scale: of the scores.
        ring: blocks of keys and of values in flight (default: what fits into shared memory).
        more: for Mosaic's `kernel`.
    """
    (batch, heads, queries, width), keys = q.shape, k.shape[2]
    ring = ring or _RINGS[width]
    tiles = queries // (2 * _ROWS) * batch * heads
    programs = min(processors(), tiles)
    two, blocks = scratch((2, _ROWS, width), q.dtype), scratch((ring, _COLS, width), q.dtype)
    barrier = mosaic().Barrier
    filled, freed = (
        {
            name: barrier(num_barriers=count, num_arrivals=arrivals)
            for name, count in (("q", 2), ("k", ring), ("v", ring))
        }
        for arrivals in (1, 2)
    )
    freed["q"] = barrier(num_barriers=2)
    o, lse = mosaic().kernel(
        functools.partial(_stay, programs=programs, ring=ring, shared=heads // k.shape[1], causal=causal, scale=scale),
        out_type=[
            array(q, shape=(batch * heads, queries, width)),
            array(q, shape=(batch * heads, queries), dtype=jnp.float32),
        ],
        scratch_types=[two, two, blocks, blocks, mosaic().SMEM((2, _ROWS), jnp.float32), filled, freed],
        grid=(programs,), grid_names=("program",), num_threads=3, thread_name="group", kernel_name="attention",
        compiler_params=mosaic().CompilerParams(
            approx_math=True, lowering_semantics=mosaic().LoweringSemantics.Warpgroup
        ),
        **more,
    )(q.reshape(-1, queries, width), k.reshape(-1, keys, width), v.reshape(-1, keys, width))  # fmt: skip
    return o.reshape(q.shape), lse.reshape(batch, heads, queries)


def _tile(turn: Any, programs: int, q: Any, keys: int, causal: bool) -> tuple[Any, Any, Any]:
    """Return the head, the first query and the number of blocks of keys of this program's tile at its turn.

    Under a causal mask a program takes the last tile of a head and then the first one, or the last but one and then the
    second: any two of these see as many keys as any other two. Of an odd number the one in the middle is taken twice.
    """
    queries = q.shape[1]
    tall = queries // (2 * _ROWS)
    if not causal:
        number = turn * programs + jax.lax.axis_index("program")
        head = quotient(number, tall)
        return head, (number - head * tall) * (2 * _ROWS), keys // _COLS
    pairs = pl.cdiv(tall, 2)
    pair = quotient(turn, 2) * programs + jax.lax.axis_index("program")
    head = quotient(pair, pairs)
    low = pair - head * pairs
    top = jnp.where(turn % 2 == 0, tall - 1 - low, low) * (2 * _ROWS)
    return head, top, quotient(top + 2 * _ROWS + keys - queries, _COLS)


def _turns(programs: int, q: Any, causal: bool) -> Any:
    """Return how many tiles this program takes."""
    heads, queries, _ = q.shape
    tall = queries // (2 * _ROWS)
    shares = heads * (pl.cdiv(tall, 2) if causal else tall)
    mine = quotient(shares - jax.lax.axis_index("program") + programs - 1, programs)
    return mine * 2 if causal else mine


def _stay(
    q: Any, k: Any, v: Any, o: Any, lse: Any, qs: Any, os: Any, ks: Any, vs: Any, sums: Any, filled: Any, freed: Any, *,
    programs: int, ring: int, shared: int, causal: bool, scale: float,
) -> None:  # fmt: skip
    """Take tiles of queries in turn; q, k, v, o and lse are in global memory."""
    group = jax.lax.axis_index("group")
    turns = _turns(programs, q, causal)
    here = functools.partial(_tile, programs=programs, q=q, keys=k.shape[1], causal=causal)

    @pl.when(group == 2)
    def load() -> None:
        mosaic().set_max_registers(24, action="decrease")
        steps = jax.lax.fori_loop(
            0, turns, functools.partial(_load, here, shared, ring, (q, k, v), (qs, ks, vs), filled, freed), jnp.int32(0)
        )
        for g in range(2):  # no barrier may be left behind that was not waited for
            mosaic().barrier_wait(freed["q"].at[g])
        for slot in range(ring):
            pl.when(slot < steps)(lambda slot=slot: [mosaic().barrier_wait(freed[x].at[slot]) for x in "kv"] and None)

    @pl.when(group < 2)
    def compute() -> None:
        mosaic().set_max_registers(240, action="increase")
        ahead = k.shape[1] - q.shape[1] if causal else None
        places = qs.at[group], os.at[group], ks, vs, sums.at[group]
        barriers = filled["q"].at[group], freed["q"].at[group], filled, freed
        jax.lax.fori_loop(
            0, turns,
            functools.partial(_compute, here, group, ring, ahead, scale * _LOG2E, (o, lse), places, barriers),
            jnp.int32(0),
        )  # fmt: skip
        mosaic().wait_smem_to_gmem(0)


def _load(
    here: Any, shared: int, ring: int, sources: Any, places: Any, filled: Any, freed: Any, turn: Any, step: Any
) -> Any:
    """Bring the queries of a tile, and its keys and values block by block; `step` counts the blocks of all tiles."""
    (q, k, v), (qs, ks, vs) = sources, places
    head, top, count = here(turn)
    for group in range(2):
        pl.when(turn > 0)(lambda group=group: mosaic().barrier_wait(freed["q"].at[group]))
        rows = pl.ds(top + group * _ROWS, _ROWS)
        mosaic().copy_gmem_to_smem(q.at[head, rows], qs.at[group], filled["q"].at[group])

    def block(i: Any, step: Any) -> Any:
        slot, rows = jax.lax.rem(step, jnp.int32(ring)), pl.ds(i * _COLS, _COLS)
        for name, source, place in (("k", k, ks), ("v", v, vs)):
            pl.when(step >= ring)(lambda name=name: mosaic().barrier_wait(freed[name].at[slot]))
            mosaic().copy_gmem_to_smem(source.at[quotient(head, shared), rows], place.at[slot], filled[name].at[slot])
        return step + 1

    return jax.lax.fori_loop(0, count, block, step)


def _compute(
    here: Any, group: Any, ring: int, ahead: Any, base_2: float, results: Any, places: Any, barriers: Any, turn: Any,
    step: Any,
) -> Any:  # fmt: skip
    """The output of 64 queries. exp(scale s) = 2^(base_2 s): one instruction for the power."""
    mine, _, ks, vs, _ = places
    full, free, filled, freed = barriers
    head, top, count = here(turn)
    see = None if ahead is None else functools.partial(_see, top + group * _ROWS + ahead)

    def slot(j: Any) -> Any:
        return jax.lax.rem(step + j, jnp.int32(ring))

    def await_keys(j: Any) -> None:
        pl.when(j < count)(lambda: mosaic().barrier_wait(filled["k"].at[slot(j)]))

    def alone(s: Any) -> Any:
        mosaic().wgmma(s, mine, flipped(ks.at[slot(0)]))
        return mosaic().wgmma_accumulator_load(s)

    mosaic().barrier_wait(full)
    await_keys(0)
    s = accumulate(alone, (_ROWS, _COLS))
    mosaic().barrier_arrive(freed["k"].at[slot(0)])
    await_keys(1)
    nothing = jnp.zeros((_ROWS,), jnp.float32)
    p, _, largest, total = _softmax(s if see is None else see(s, block=0), nothing - jnp.inf, nothing, base_2)
    carry = jnp.zeros((_ROWS, mine.shape[1]), jnp.float32), p.astype(vs.dtype), nothing, largest, total
    further = functools.partial(_further, slot, count, await_keys, see, base_2, (mine, ks, vs), (filled, freed))
    o_sum, p, _, largest, total = jax.lax.fori_loop(1, count, further, carry)
    mosaic().barrier_arrive(free)  # all scores are there
    last = slot(count - 1)
    mosaic().barrier_wait(filled["v"].at[last])
    (o_sum,) = resume(lambda o_sum: mosaic().wgmma(o_sum, p, vs.at[last]), o_sum)
    mosaic().barrier_arrive(freed["v"].at[last])
    rows = pl.ds(top + group * _ROWS, _ROWS)
    _store(o_sum, largest * (base_2 / _LOG2E) + jnp.log(total), 1.0 / total, places, results, (head, rows))
    return step + count


def _further(
    slot: Any, count: Any, await_keys: Any, see: Any, base_2: float, places: Any, barriers: Any, j: Any, carry: Any
) -> Any:
    """The scores and softmax of block j, while the weights of the one before meet its values."""
    (mine, ks, vs), (filled, freed) = places, barriers
    now, past = slot(j), slot(j - 1)

    def both(o_sum: Any, p: Any, kept: Any, largest: Any, total: Any) -> None:
        def start(s: Any) -> Any:
            mosaic().wgmma(s, mine, flipped(ks.at[now]))
            mosaic().barrier_wait(filled["v"].at[past])
            mosaic().wgmma(o_sum, p[...], vs.at[past])
            return mosaic().wgmma_accumulator_load(s, wait_n=1)

        s = accumulate(start, (_ROWS, _COLS))
        mosaic().barrier_arrive(freed["k"].at[now])
        if see is not None:  # of the blocks only the last one has a mask
            s = jax.lax.cond(j == count - 1, functools.partial(see, block=j), lambda s: s, s)
        weights, kept[...], largest[...], total[...] = _softmax(s, largest[...], total[...], base_2)
        p[...] = weights.astype(p.dtype)
        # Here, and not at the next step's start: without this branch the assembler has exponentials wait for o.
        await_keys(j + 1)

    o_sum, p, kept, largest, total = resume(both, *carry)
    mosaic().barrier_arrive(freed["v"].at[past])
    return o_sum * jax.lax.broadcast_in_dim(kept, o_sum.shape, [0]), p, kept, largest, total


def _store(o_sum: Any, log: Any, factor: Any, places: Any, results: Any, where: Any) -> None:
    """Store the output and log(sum(exp(scores))) through shared memory."""
    (_, out, _, _, sums), (o, lse) = places, results
    mosaic().wait_smem_to_gmem(0, wait_read_only=True)  # the output of the tile before has left
    out[...] = (o_sum * jax.lax.broadcast_in_dim(factor, o_sum.shape, [0])).astype(out.dtype)
    sums[...] = log
    mosaic().commit_smem()
    mosaic().copy_smem_to_gmem(out, o.at[where])
    mosaic().copy_smem_to_gmem(sums, lse.at[where])


def _see(last: Any, scores: Any, block: Any) -> Any:
    """Put minus infinity where a key lies behind the query of its row; the first query sees keys up to `last`."""
    row, col = (jax.lax.broadcasted_iota(jnp.int32, scores.shape, axis) for axis in (0, 1))
    return jnp.where(col <= row + (last - block * _COLS), scores, -jnp.inf)


def _softmax(scores: Any, largest: Any, total: Any, base_2: float) -> tuple[Any, Any, Any, Any]:
    """Return the weights, the factor for what was added up so far, and the new statistics."""
    larger = jnp.maximum(largest, scores.max(1))
    base = jnp.where(larger == -jnp.inf, 0.0, larger * base_2)  # nothing but minus infinity so far: no NaN yet
    weights = jnp.exp2(scores * base_2 - jax.lax.broadcast_in_dim(base, scores.shape, [0]))
    kept = jnp.exp2(largest * base_2 - base)
    return weights, kept, larger, total * kept + weights.sum(1)
