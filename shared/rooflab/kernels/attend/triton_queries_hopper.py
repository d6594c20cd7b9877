# mypy: disallow-untyped-defs=False
"""Attention, backward, for Hopper: dq, with each product under the arithmetic of another.

The twin of :mod:`.triton_backward_hopper` that owns queries; a step of 64 keys is

    start s = q k^T and dp = do v^T,      wait for s,       p = exp(s - lse)      while dp runs,
    wait for dp,                          ds = p (dp - delta),
    start dq += ds k,                     and begin the next step while dq runs.

Beforehand it makes delta, which the other kernel reads: the sum over D of o do, both from shared memory.
No other chip has wgmma: they take `attention_queries_backward_kernel`.

>>> queries_backward_hopper_kernel.__name__
'queries_backward_hopper_kernel'

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

__all__ = ["queries_backward_hopper_kernel"]

LOG2E = gl.constexpr(1.4426950408889634)


@gluon.jit
def _load(step, steps, b, h, k, v, shared, N: gl.constexpr, STAGES: gl.constexpr):
    """Start the copies of a step: N rows of k and v."""
    _, _, ks, vs, _, full = shared
    wanted = step < steps
    s = step % STAGES
    mbarrier.expect(full.index(s), 2 * k.block_type.nbytes, pred=wanted)
    load_block(k, [b, h, step * N, 0], full.index(s), ks.index(s), pred=wanted)
    load_block(v, [b, h, step * N, 0], full.index(s), vs.index(s), pred=wanted)


@gluon.jit
def _scores(dq, step, shared, M: gl.constexpr, N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr):
    """Start s and dp of a step; return s, dp still running, and the dq of the steps before."""
    qs, dos, ks, vs, _, full = shared
    zero = gl.zeros([M, N], gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16]))
    slot = step % STAGES
    mbarrier.wait(full.index(slot), step // STAGES & 1)
    keys_across = ks.index(slot).reshape([N, D]).permute([1, 0])
    values_across = vs.index(slot).reshape([N, D]).permute([1, 0])
    s = warpgroup_mma(qs.reshape([M, D]), keys_across, zero, use_acc=False, is_async=True)
    dp = warpgroup_mma(dos.reshape([M, D]), values_across, zero, use_acc=False, is_async=True)
    s, dq = warpgroup_mma_wait(1, deps=[s, dq])
    return s, dp, dq


@gluon.jit
def _gradient(
    s, dp, dq, step, lse2, delta, last, c, shared,
    CAUSAL: gl.constexpr, N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """From s and dp of a step, dq, still running. The first row sees columns up to `last`, as all do if not CAUSAL."""
    _, _, ks, _, numbers, full = shared
    slot = step % STAGES
    p = gl.exp2(s * c - lse2[:, None])
    if last < N - 1:
        # From shared memory: numbers that never change would be kept in registers throughout.
        cols = numbers.load(gl.SliceLayout(0, s.type.layout))[None, :]
        if CAUSAL:
            cols = cols - numbers.load(gl.SliceLayout(1, s.type.layout))[:, None]
        p = gl.where(cols <= last, p, 0.0)
    # This wait passes at once. Without its branch, the assembler moves exponentials behind the next wait.
    mbarrier.wait(full.index(slot), step // STAGES & 1)
    dp = warpgroup_mma_wait(0, deps=[dp])
    ds = (p * (dp - delta[:, None])).to(ks.dtype)
    ds = gl.convert_layout(ds, gl.DotOperandLayout(0, dq.type.layout, 2))
    return warpgroup_mma(ds, ks.index(slot).reshape([N, D]), dq, is_async=True)


@gluon.jit
def _make_delta(o, do, ready, shared, M: gl.constexpr, D: gl.constexpr):
    """Return the sums over D of o do; o is where the first values will be."""
    mbarrier.wait(ready.index(0), 0)
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [32 * 8 // D, D // 8], [4, 1], [1, 0])
    return gl.sum(o.load(rows).to(gl.float32) * do.load(rows).to(gl.float32), 1)


@gluon.jit
def _sum_up(
    k, v, b, h, last, steps, lse2, delta, c, shared,
    CAUSAL: gl.constexpr, M: gl.constexpr, N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Go through the blocks of keys and return dq, not yet scaled; `last` as of the first block."""
    acc = warpgroup_mma_init(gl.zeros([M, D], gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])))
    for step in range(steps):
        s, dp, done = _scores(acc, step, shared, M, N, D, STAGES)
        synchronize()  # all four warps have finished the step before, and its place is free
        _load(step + STAGES - 1, steps, b, h, k, v, shared, N, STAGES)
        acc = _gradient(s, dp, done, step, lse2, delta, last - step * N, c, shared, CAUSAL, N, D, STAGES)
    dq = warpgroup_mma_wait(0, deps=[acc])
    synchronize()
    return dq


@gluon.jit(do_not_specialize=["heads", "group", "queries", "keys", "row_step"])
def queries_backward_hopper_kernel(
    dq, delta, o, do, lse, q, k, v, heads, group, queries, keys, row_step, scale,
    CAUSAL: gl.constexpr, M: gl.constexpr, N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """One program of four warps: dq of M = N = 64 queries; the rest as of `attention_queries_backward_kernel`."""
    qs = gl.allocate_shared_memory(q.dtype, [1, 1, M, D], q.layout)
    dos = gl.allocate_shared_memory(do.dtype, [1, 1, M, D], do.layout)
    os = gl.allocate_shared_memory(o.dtype, [1, 1, M, D], o.layout)
    ks = gl.allocate_shared_memory(k.dtype, [STAGES, 1, 1, N, D], k.layout)
    vs = gl.allocate_shared_memory(v.dtype, [STAGES, 1, 1, N, D], v.layout)
    numbers = gl.allocate_shared_memory(gl.int32, [N], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    numbers.store(gl.arange(0, N, layout=gl.BlockedLayout([1], [32], [4], [0])))
    ready = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(ready.index(0), count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
    fence_async_shared()
    synchronize()
    blocks = gl.cdiv(queries, M)
    block, head = gl.program_id(0) % blocks, gl.program_id(0) // blocks
    if CAUSAL:  # those with the most keys begin first
        block = blocks - 1 - block
    b, h, start = head // heads, head % heads, block * M
    mbarrier.expect(ready.index(0), 3 * q.block_type.nbytes)
    load_block(q, [b, h, start, 0], ready.index(0), qs)
    load_block(do, [b, h, start, 0], ready.index(0), dos)
    load_block(o, [b, h, start, 0], ready.index(0), os)
    shared = (qs, dos, ks, vs, numbers, full)
    last = keys - 1
    steps = gl.cdiv(keys, N)
    if CAUSAL:
        last = start + keys - queries
        steps = gl.cdiv(gl.minimum(keys, last + M), N)
    for i in gl.static_range(STAGES - 1):
        _load(i, steps, b, h // group, k, v, shared, N, STAGES)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16])
    sums = _make_delta(os.reshape([M, D]), dos.reshape([M, D]), ready, shared, M, D)
    total = gl.convert_layout(sums, gl.SliceLayout(1, layout))
    rows = start + numbers.load(gl.SliceLayout(1, layout))
    place = head.to(gl.int64) * row_step + rows
    gl.store(delta + place, total, mask=rows < row_step)
    lse2 = gl.load(lse + place, mask=rows < row_step, other=0.0) * LOG2E
    found = _sum_up(
        k, v, b, h // group, last, steps, lse2, total, scale * LOG2E, shared, CAUSAL, M, N, D, STAGES
    )  # fmt: skip
    os.reshape([M, D]).store((found * scale).to(dq.dtype))
    fence_async_shared()
    synchronize()
    store_block(dq, [b, h, start, 0], os)
    tma.store_wait(0)
