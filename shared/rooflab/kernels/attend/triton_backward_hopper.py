# mypy: disallow-untyped-defs=False
"""Attention, backward, for Hopper: dk and dv, with each product under the arithmetic of another.

The mathematics, the order of sums and the layout (keys down, queries across) are those of
`attention_keys_backward_kernel`. Triton waits for each product before it goes on; here a step of 64 queries is

    start s = k q^T and dp = v do^T,      wait for s,       p = exp(s - lse)             while dp runs,
    start dv += p^T do,                   wait for dp,      ds = p (dp - delta)          while dv runs,
    start dk += ds^T q,                   and begin the next step while dk runs,

with four warps that own 64 keys, and two such programs on a multiprocessor: D = 128 fills the registers of both.
No other chip has wgmma: they take `attention_keys_backward_kernel`.

>>> keys_backward_hopper_kernel.__name__
'keys_backward_hopper_kernel'

Source: Shah et al. 2024 (FlashAttention-3).
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)

from .triton_gluon import load_block, store_block, synchronize

__all__ = ["keys_backward_hopper_kernel"]

LOG2E = gl.constexpr(1.4426950408889634)


@gluon.jit
def _load(step, steps, first, blocks, b, head, heads, sources, shared, M: gl.constexpr, STAGES: gl.constexpr):
    """Start the copies of a step: M rows of q, do, lse and delta; steps go through one head after another."""
    q, do, lse, delta = sources
    _, _, qs, dos, lses, deltas, _, full = shared
    wanted = step < steps
    h = head + step // blocks
    m = (first + step % blocks) * M
    s = step % STAGES
    mbarrier.expect(full.index(s), 2 * q.block_type.nbytes + 2 * lse.block_type.nbytes, pred=wanted)
    load_block(q, [b, h, m, 0], full.index(s), qs.index(s), pred=wanted)
    load_block(do, [b, h, m, 0], full.index(s), dos.index(s), pred=wanted)
    load_block(lse, [b * heads + h, m], full.index(s), lses.index(s), pred=wanted)
    load_block(delta, [b * heads + h, m], full.index(s), deltas.index(s), pred=wanted)


@gluon.jit
def _scores(dk, step, shared, M: gl.constexpr, N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr):
    """Start s and dp of a step; return s, dp still running, and the dk of the step before."""
    ks, vs, qs, dos, _, _, _, full = shared
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, M, 16])
    zero = gl.zeros([N, M], gl.float32, layout)
    slot = step % STAGES
    mbarrier.wait(full.index(slot), step // STAGES & 1)
    queries = qs.index(slot).reshape([M, D]).permute([1, 0])
    gradients = dos.index(slot).reshape([M, D]).permute([1, 0])
    s = warpgroup_mma(ks.reshape([N, D]), queries, zero, use_acc=False, is_async=True)
    dp = warpgroup_mma(vs.reshape([N, D]), gradients, zero, use_acc=False, is_async=True)
    s, dk = warpgroup_mma_wait(1, deps=[s, dk])
    return s, dp, dk


@gluon.jit
def _gradients(
    s, dp, dk, dv, step, ahead, left_over, c, shared,
    CAUSAL: gl.constexpr, M: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """From s and dp of a step, dv and, still running, dk. Column j sees row i if j + ahead >= i.

    There are queries in `left_over` columns, and zeros in those behind, whose scores with an infinite key are NaN.
    """
    _, _, qs, dos, lses, deltas, numbers, full = shared
    across: gl.constexpr = gl.SliceLayout(0, s.type.layout)
    left: gl.constexpr = gl.DotOperandLayout(0, dv.type.layout, 2)
    slot, phase = step % STAGES, step // STAGES & 1
    p = gl.exp2(s * c - (lses.index(slot).reshape([M]).load(across) * LOG2E)[None, :])
    if CAUSAL:  # noqa: SIM102  (known when compiling, the second condition is not)
        if ahead < M - 1:
            # From shared memory: numbers that never change would be kept in registers throughout.
            below = numbers.load(gl.SliceLayout(1, s.type.layout))[:, None] - numbers.load(across)[None, :]
            p = gl.where(below <= ahead, p, 0.0)
    if left_over < M:
        p = gl.where((numbers.load(across) < left_over)[None, :], p, 0.0)
    # These waits pass at once. Without their branches, the assembler moves arithmetic behind the waits for products.
    mbarrier.wait(full.index(slot), phase)
    dv = warpgroup_mma(gl.convert_layout(p.to(qs.dtype), left), dos.index(slot).reshape([M, D]), dv, is_async=True)
    dp = warpgroup_mma_wait(1, deps=[dp])
    ds = p * (dp - deltas.index(slot).reshape([M]).load(across)[None, :])
    if CAUSAL:  # noqa: SIM102
        if ahead < M - 1:  # of a query that is not finite, ds is 0 times NaN behind the mask
            below = numbers.load(gl.SliceLayout(1, s.type.layout))[:, None] - numbers.load(across)[None, :]
            ds = gl.where(below <= ahead, ds, 0.0)
    ds = gl.convert_layout(ds.to(qs.dtype), left)
    mbarrier.wait(full.index(slot), phase)
    dk = warpgroup_mma(ds, qs.index(slot).reshape([M, D]), dk, is_async=True)
    dv = warpgroup_mma_wait(1, deps=[dv])
    return dk, dv


@gluon.jit
def _sum_up(
    sources, first, blocks, b, head, heads, group, queries, ahead, scale, ready, shared,
    CAUSAL: gl.constexpr, M: gl.constexpr, N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Go through `blocks` blocks of queries, from the `first` on, of each of `group` heads."""
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    steps = blocks * group
    for i in gl.static_range(STAGES - 1):
        _load(i, steps, first, blocks, b, head, heads, sources, shared, M, STAGES)
    dk = warpgroup_mma_init(gl.zeros([N, D], gl.float32, sums))
    dv = gl.zeros([N, D], gl.float32, sums)
    mbarrier.wait(ready.index(0), 0)
    for step in range(steps):
        s, dp, done = _scores(dk, step, shared, M, N, D, STAGES)
        synchronize()  # all four warps have finished the step before, and its place is free
        _load(step + STAGES - 1, steps, first, blocks, b, head, heads, sources, shared, M, STAGES)
        m = (first + step % blocks) * M
        dk, dv = _gradients(
            s, dp, done, dv, step, m + ahead, queries - m, scale * LOG2E, shared, CAUSAL, M, D, STAGES
        )  # fmt: skip
    dk = warpgroup_mma_wait(0, deps=[dk])
    synchronize()
    return dk, dv


@gluon.jit(do_not_specialize=["heads", "group", "queries", "keys"])
def keys_backward_hopper_kernel(
    dk, dv, do, lse, delta, q, k, v, heads, group, queries, keys, scale,
    CAUSAL: gl.constexpr, M: gl.constexpr, N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """One program of four warps: dk and dv of N = 64 keys; arguments and grid of `attention_keys_backward_kernel`."""
    ks = gl.allocate_shared_memory(k.dtype, [1, 1, N, D], k.layout)
    vs = gl.allocate_shared_memory(v.dtype, [1, 1, N, D], v.layout)
    qs = gl.allocate_shared_memory(q.dtype, [STAGES, 1, 1, M, D], q.layout)
    dos = gl.allocate_shared_memory(do.dtype, [STAGES, 1, 1, M, D], do.layout)
    lses = gl.allocate_shared_memory(gl.float32, [STAGES, 1, M], lse.layout)
    deltas = gl.allocate_shared_memory(gl.float32, [STAGES, 1, M], delta.layout)
    numbers = gl.allocate_shared_memory(gl.int32, [M], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    numbers.store(gl.arange(0, M, layout=gl.BlockedLayout([1], [32], [4], [0])))
    ready = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(ready.index(0), count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
    fence_async_shared()
    synchronize()
    few, of_keys = heads // group, gl.cdiv(keys, N)
    start, head = gl.program_id(0) % of_keys * N, gl.program_id(0) // of_keys
    b, h = head // few, head % few
    mbarrier.expect(ready.index(0), 2 * k.block_type.nbytes)
    load_block(k, [b, h, start, 0], ready.index(0), ks)
    load_block(v, [b, h, start, 0], ready.index(0), vs)
    first = 0
    if CAUSAL:
        first = gl.maximum(start - (keys - queries), 0) // M
    blocks = gl.cdiv(queries, M) - first
    shared = (ks, vs, qs, dos, lses, deltas, numbers, full)
    dkt, dvt = _sum_up(
        (q, do, lse, delta), first, blocks, b, h * group, heads, group, queries, keys - queries - start, scale, ready,
        shared, CAUSAL, M, N, D, STAGES,
    )  # fmt: skip
    # k and v are not needed any more: their places take the results on their way to memory.
    ks.reshape([N, D]).store((dkt * scale).to(dk.dtype))
    vs.reshape([N, D]).store(dvt.to(dv.dtype))
    fence_async_shared()
    synchronize()
    store_block(dk, [b, h, start, 0], ks)
    store_block(dv, [b, h, start, 0], vs)
    tma.store_wait(0)
