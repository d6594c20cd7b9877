"""Attention forward for Hopper GPUs through Mosaic, the other of Pallas' two ways to a GPU.

Warps are specialized. Of three groups, one has the copy engine bring blocks of keys and values into a ring in shared
memory. The two others take 64 queries each: the matrix units multiply them with a block of keys out of shared memory,
the weights stay in registers, and from there they are multiplied with the values. While one group computes
exponentials, the other one has the matrix units.

>>> import jax
>>> q = jax.ShapeDtypeStruct((1, 8, 1000, 128), "bfloat16")
>>> fits(q, q, False)                                              # 1,000 is no multiple of 128
False
"""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from ..pallas_launching import array, flipped, quotient

__all__ = ["attention_on_hopper", "fits"]

_ROWS, _COLS = 64, 128  # queries of each of two groups, and keys at a time
_RING = 2  # blocks of keys and values in flight


def fits(q: Any, k: Any, causal: bool) -> bool:
    """Whether there are whole blocks in 16 bits, and Mosaic is there and new enough."""
    whole = not (q.shape[2] % (2 * _ROWS) or k.shape[2] % _COLS or k.shape[2] < _RING * _COLS)
    if not whole or q.shape[3] not in (64, 128) or jnp.dtype(q.dtype).itemsize != 2:
        return False
    try:
        return "out_type" in inspect.signature(_mosaic().kernel).parameters
    except ImportError:  # before JAX 0.11 it needs absl-py, which JAX does not bring along
        return False


def attention_on_hopper(q: Any, k: Any, v: Any, causal: bool, scale: float, **more: Any) -> Any:
    """Return the output, and log(sum(exp(scores))) of each query.

    Args:
        q: queries, (batch, heads, queries, D).
        k: keys, (batch, kv_heads, keys, D).
        v: values, as k.
        causal: whether there is a mask.
        scale: of the scores.
        more: for Mosaic's `kernel`.
    """
    mosaic = _mosaic()
    (batch, heads, queries, width), keys = q.shape, k.shape[2]
    o, lse = mosaic.kernel(
        functools.partial(_some_queries, shared=heads // k.shape[1], causal=causal, scale=scale),
        out_type=[
            array(q, shape=(batch * heads, queries, width)),
            array(q, shape=(batch * heads, queries), dtype=jnp.float32),
        ],
        grid=(queries // (2 * _ROWS), batch * heads), grid_names=("tile", "head"), num_threads=3, thread_name="group",
        compiler_params=mosaic.CompilerParams(
            approx_math=True, lowering_semantics=mosaic.LoweringSemantics.Warpgroup
        ),
        **more,
    )(q.reshape(-1, queries, width), k.reshape(-1, keys, width), v.reshape(-1, keys, width))  # fmt: skip
    return o.reshape(q.shape), lse.reshape(batch, heads, queries)


def _some_queries(q: Any, k: Any, v: Any, o: Any, lse: Any, *, shared: int, causal: bool, scale: float) -> None:
    """A hundred and twenty-eight queries of one head; everything is in global memory."""
    mosaic = _mosaic()
    (_, queries, width), keys = q.shape, k.shape[1]
    group, head = jax.lax.axis_index("group"), jax.lax.axis_index("head")
    top = jax.lax.axis_index("tile") * (2 * _ROWS)
    own = pl.ds(top + group * _ROWS, _ROWS)
    base_2 = scale * math.log2(math.e)  # exp(scale s) = 2^(base_2 s): one instruction for the power

    def scope(here: Any, sums: Any, arrived: Any) -> None:
        mine = here.at[group]

        def step(at: Any, keys_here: Any, values: Any, carry: Any) -> Any:
            largest, total, weighed = carry

            def multiply(scores: Any) -> Any:
                mosaic.wgmma(scores, mine, flipped(keys_here))
                return scores[...]

            scores = pl.run_scoped(multiply, mosaic.ACC((_ROWS, _COLS), jnp.float32)) * base_2
            if causal:
                row, col = (jax.lax.broadcasted_iota(jnp.int32, scores.shape, axis) for axis in (0, 1))
                seen = at[0] * _COLS + col <= top + group * _ROWS + row + keys - queries
                scores = jnp.where(seen, scores, -jnp.inf)
            return _corrected(scores, largest, total, weighed, values)

        def around(walk: Any) -> None:
            mosaic.copy_gmem_to_smem(q.at[head, own], mine, arrived.at[group])
            mosaic.barrier_wait(arrived.at[group])
            nothing = jnp.zeros((_ROWS,), jnp.float32)
            largest, total, weighed = walk((nothing - jnp.inf, nothing, jnp.zeros((_ROWS, width), jnp.float32)))
            mine[...] = (weighed / jax.lax.broadcast_in_dim(total, weighed.shape, [0])).astype(o.dtype)
            sums.at[group][...] = largest * math.log(2.0) + jnp.log(total)
            mosaic.commit_smem()
            for source, result in ((mine, o), (sums.at[group], lse)):
                mosaic.copy_smem_to_gmem(source, result.at[head, own])
            mosaic.wait_smem_to_gmem(0)

        block = mosaic.BlockSpec((_COLS, width), lambda i: (i, 0), transforms=_transforms(), memory_space=mosaic.SMEM)
        steps = quotient(top + 2 * _ROWS + keys - queries + _COLS - 1, _COLS) if causal else keys // _COLS
        mosaic.emit_pipeline_warp_specialized(
            step, grid=(steps,), in_specs=[block, block], max_concurrent_steps=_RING, memory_registers=40,
            wg_axis="group", num_compute_wgs=2, compute_context=around,
        )(k.at[quotient(head, shared)], v.at[quotient(head, shared)])  # fmt: skip

    pl.run_scoped(
        scope, mosaic.SMEM((2, _ROWS, width), q.dtype, transforms=_transforms()), mosaic.SMEM((2, _ROWS), jnp.float32),
        mosaic.Barrier(num_barriers=2), collective_axes="group",
    )  # fmt: skip


def _corrected(scores: Any, largest: Any, total: Any, weighed: Any, values: Any) -> tuple[Any, Any, Any]:
    """Take in some more keys: what was added up so far is corrected where a larger score has appeared."""
    larger = jnp.maximum(largest, scores.max(1))
    base = jnp.where(larger == -jnp.inf, 0.0, larger)  # nothing but minus infinity so far: no NaN yet
    weights = jnp.exp2(scores - jax.lax.broadcast_in_dim(base, scores.shape, [0]))
    kept = jnp.exp2(largest - base)
    weighed *= jax.lax.broadcast_in_dim(kept, weighed.shape, [0])
    return larger, total * kept + weights.sum(1), _weigh(weights.astype(values.dtype), values, weighed)


def _weigh(weights: Any, values: Any, weighed: Any) -> Any:
    """Add the product of weights in registers and values in shared memory."""
    mosaic = _mosaic()
    return pl.run_state(lambda total: mosaic.wgmma(total, weights, values))(mosaic.ACC.init(weighed))


def _transforms() -> tuple[Any, Any]:
    """The order in which the matrix units want 16-bit numbers: lines of 128 bytes, interleaved."""
    mosaic = _mosaic()
    return mosaic.TilingTransform((8, 64)), mosaic.SwizzleTransform(128)


def _mosaic() -> Any:
    from jax.experimental.pallas import mosaic_gpu

    return mosaic_gpu
