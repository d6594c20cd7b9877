# mypy: disallow-untyped-defs=False
"""Attention, forward, for Hopper: warps that load, and two groups of warps whose products hide each other's softmax.

The mathematics is that of :mod:`.triton_attention`. There, the four products of two steps and the exponentials between
them wait for each other: for 128 x 128 scores and D = 128, the products take 2,048 cycles of a multiprocessor and the
exponentials 1,024, one after the other. Here they overlap:

* One warp only loads, as far ahead as shared memory allows; barriers in memory say when a block is there (`full`) and
  when it may be overwritten (`empty`). Nobody else computes addresses, or waits for a whole program.
* Two groups of four warps have 64 queries each, and never wait for each other.
* A group starts the product for the scores of block j and then that of the probabilities with the values of block
  j - 1, waits for the first alone, and computes the softmax while the second runs.
* Programs are persistent: the loads of the next queries run during the last products of those before, and the output
  leaves through the copy engine meanwhile.

Written in Gluon, the part of Triton in which layouts, barriers and asynchronous products are explicit: Triton's own
compiler waits for each product where it is first used. No other chip has wgmma: they take `attention_kernel`.
>>> attention_hopper_kernel.__name__
'attention_hopper_kernel'

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
    warpgroup_mma_wait,
)

from .triton_gluon import load_block, store_block, synchronize

__all__ = ["attention_hopper_kernel"]

LOG2E, LN2 = gl.constexpr(1.4426950408889634), gl.constexpr(0.6931471805599453)
GROUP = gl.constexpr(64)  # queries of a group of warps: what one wgmma takes


@gluon.jit
def _turns(tiles, CAUSAL: gl.constexpr):
    """How many tiles this program computes."""
    shares = tiles // 2 if CAUSAL else tiles
    programs = gl.num_programs(0)
    mine = shares // programs + (gl.program_id(0) < shares % programs).to(gl.int32)
    return mine * 2 if CAUSAL else mine


@gluon.jit
def _tile(turn, blocks, queries, keys, CAUSAL: gl.constexpr, N: gl.constexpr):
    """Return the head, the first query and the number of key blocks of this program's tile at its turn.

    Under a causal mask a program takes the last block and the first one of a head, or the last but one and the second:
    any two such blocks see as many keys as any other two. `blocks` is even then; a block beyond the end sees one.
    """
    if CAUSAL:
        share = turn // 2 * gl.num_programs(0) + gl.program_id(0)
        head = share // (blocks // 2)
        block = share - head * (blocks // 2)
        if turn % 2 == 0:
            block = blocks - 1 - block
        start = block * 2 * GROUP
        last = gl.minimum(keys, start + 2 * GROUP + keys - queries)
        if start >= queries:
            last = 1
    else:
        tile = turn * gl.num_programs(0) + gl.program_id(0)
        head = tile // blocks
        start = (tile - head * blocks) * 2 * GROUP
        last = keys
    return head, start, gl.cdiv(last, N)


@gluon.jit
def _load(q, k, v, group, shared, barriers, sizes, CAUSAL: gl.constexpr, N: gl.constexpr, STAGES: gl.constexpr):
    """The warp that loads: for each tile the queries of both groups, then keys and values block by block."""
    qs, ks, vs, _, _ = shared
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    heads, blocks, tiles, queries, keys = sizes
    step = 0
    for turn in range(_turns(tiles, CAUSAL)):
        head, start, count = _tile(turn, blocks, queries, keys, CAUSAL, N)
        b, h = head // heads, head % heads
        for g in gl.static_range(2):
            mbarrier.wait(q_empty.index(g), turn & 1 ^ 1)  # the first wait of all passes
            mbarrier.expect(q_full.index(g), q.block_type.nbytes)
            load_block(q, [b, h, start + g * GROUP, 0], q_full.index(g), qs.index(g))
        for n in range(count):
            s, phase = step % STAGES, step // STAGES & 1
            mbarrier.wait(k_empty.index(s), phase ^ 1)
            mbarrier.expect(k_full.index(s), k.block_type.nbytes)
            load_block(k, [b, h // group, n * N, 0], k_full.index(s), ks.index(s))
            mbarrier.wait(v_empty.index(s), phase ^ 1)
            mbarrier.expect(v_full.index(s), v.block_type.nbytes)
            load_block(v, [b, h // group, n * N, 0], v_full.index(s), vs.index(s))
            step += 1


@gluon.jit
def _softmax(s, m, total, last, numbers, c, MASKED: gl.constexpr, CAUSAL: gl.constexpr):
    """Return the probabilities of a block of scores, the factor for what came before, and the new statistics.

    The first row (any row, if not CAUSAL) may see the block's columns up to `last`. `numbers` are 0, 1, ..., N - 1 in
    shared memory: as they never change, each thread would keep its 34 of them in registers throughout.
    """
    if MASKED:
        cols = numbers.load(gl.SliceLayout(0, s.type.layout))[None, :]
        if CAUSAL:
            cols = cols - numbers.slice(0, GROUP).load(gl.SliceLayout(1, s.type.layout))[:, None]
        s = gl.where(cols <= last, s, -float("inf"))
    larger = gl.maximum(m, gl.max(s, 1))
    base = gl.where(larger == -float("inf"), 0.0, larger * c)
    p = gl.exp2(s * c - base[:, None])
    a = gl.exp2(m * c - base)
    return p, a, larger, total * a + gl.sum(p, 1)


@gluon.jit
def _first(
    step, m, total, queries_shared, ks, barriers, last, numbers, c,
    CAUSAL: gl.constexpr, N: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Scores of a tile's first block, which have no other product to overlap with."""
    _, _, k_full, k_empty, _, _ = barriers
    zero = gl.zeros([GROUP, N], gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16]))
    now = step % STAGES
    mbarrier.wait(k_full.index(now), step // STAGES & 1)
    keys_shared = ks.index(now).reshape([N, queries_shared.shape[1]]).permute([1, 0])
    s = warpgroup_mma(queries_shared, keys_shared, zero, use_acc=False, is_async=True)
    s = warpgroup_mma_wait(0, deps=[s])
    synchronize()  # all four warps have read the keys
    mbarrier.arrive(k_empty.index(now))
    p, _, m, total = _softmax(s, m, total, last, numbers, c, True, CAUSAL)
    return p, m, total


@gluon.jit
def _step(
    acc, p, m, total, step, j, queries_shared, ks, vs, barriers, last, numbers, c,
    MASKED: gl.constexpr, CAUSAL: gl.constexpr, N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Scores of the tile's block `j`, while the probabilities `p` of the one before meet its values.

    `step` counts the blocks of all tiles, `last` is the last key that the first row sees.
    """
    scores: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16])
    _, _, k_full, k_empty, v_full, v_empty = barriers
    now, phase = step % STAGES, step // STAGES & 1
    past, past_phase = (step - 1) % STAGES, (step - 1) // STAGES & 1
    zero = gl.zeros([GROUP, N], gl.float32, scores)
    mbarrier.wait(k_full.index(now), phase)
    keys_shared = ks.index(now).reshape([N, D]).permute([1, 0])
    s = warpgroup_mma(queries_shared, keys_shared, zero, use_acc=False, is_async=True)
    mbarrier.wait(v_full.index(past), past_phase)
    acc = warpgroup_mma(p, vs.index(past).reshape([N, D]), acc, is_async=True)
    s = warpgroup_mma_wait(1, deps=[s])
    synchronize()  # all four warps have read the keys
    mbarrier.arrive(k_empty.index(now))
    new, a, m, total = _softmax(s, m, total, last - j * N, numbers, c, MASKED, CAUSAL)
    new = gl.convert_layout(new.to(vs.dtype), p.type.layout)
    # This passes at once. Without the branch in it, the assembler moves the exponentials behind the next line's wait.
    mbarrier.wait(v_full.index(past), past_phase)
    acc = warpgroup_mma_wait(0, deps=[acc])
    synchronize()
    mbarrier.arrive(v_empty.index(past))
    acc = acc * gl.convert_layout(a, gl.SliceLayout(1, acc.type.layout))[:, None]
    return acc, new, m, total


@gluon.jit
def _finish(
    acc, p, m, total, step, places, inside, vs, barriers, c, N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr
):  # fmt: skip
    """Multiply the last probabilities and values, store lse meanwhile, and return the output."""
    _, _, _, _, v_full, v_empty = barriers
    last = step % STAGES
    mbarrier.wait(v_full.index(last), step // STAGES & 1)
    acc = warpgroup_mma(p, vs.index(last).reshape([N, D]), acc, is_async=True)
    gl.store(places, (m * c + gl.log2(total)) * LN2, mask=inside)
    acc = warpgroup_mma_wait(0, deps=[acc])
    synchronize()
    mbarrier.arrive(v_empty.index(last))
    return acc * gl.convert_layout(1.0 / total, gl.SliceLayout(1, acc.type.layout))[:, None]


@gluon.jit
def _compute(
    g: gl.constexpr, o, lse, row_step, scale, shared, barriers, sizes,
    CAUSAL: gl.constexpr, N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """A group of four warps: the softmax and the products of 64 queries of each tile."""
    qs, ks, vs, os, numbers = shared
    q_full, q_empty, _, _, _, _ = barriers
    heads, blocks, tiles, queries, keys = sizes
    scores: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16])
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    ahead = keys - queries
    c = scale * LOG2E
    done = 0
    for turn in range(_turns(tiles, CAUSAL)):
        head, start, count = _tile(turn, blocks, queries, keys, CAUSAL, N)
        start += g * GROUP
        last = keys - 1
        if CAUSAL:
            last = start + ahead
        plain = gl.minimum((last + 1) // N, count)  # blocks that need no mask
        m = gl.full([GROUP], -float("inf"), gl.float32, gl.SliceLayout(1, scores))
        total = gl.zeros([GROUP], gl.float32, gl.SliceLayout(1, scores))
        acc = gl.zeros([GROUP, D], gl.float32, sums)
        queries_shared = qs.index(g).reshape([GROUP, D])
        mbarrier.wait(q_full.index(g), turn & 1)
        p, m, total = _first(done, m, total, queries_shared, ks, barriers, last, numbers, c, CAUSAL, N, STAGES)
        p = gl.convert_layout(p.to(vs.dtype), gl.DotOperandLayout(0, sums, 2))
        for j in range(1, plain):
            acc, p, m, total = _step(
                acc, p, m, total, done + j, j, queries_shared, ks, vs, barriers, last, numbers, c,
                False, CAUSAL, N, D, STAGES,
            )  # fmt: skip
        for j in range(gl.maximum(plain, 1), count):
            acc, p, m, total = _step(
                acc, p, m, total, done + j, j, queries_shared, ks, vs, barriers, last, numbers, c,
                True, CAUSAL, N, D, STAGES,
            )  # fmt: skip
        done += count
        mbarrier.arrive(q_empty.index(g))  # the last scores are there: every warp has waited for them
        rows = start + numbers.slice(0, GROUP).load(gl.SliceLayout(1, scores))
        places = lse + head.to(gl.int64) * row_step + rows
        out = _finish(acc, p, m, total, done - 1, places, rows < row_step, vs, barriers, c, N, D, STAGES)
        tma.store_wait(0)  # the output of the tile before has been read from shared memory
        synchronize()
        os.index(g).reshape([GROUP, D]).store(out.to(o.dtype))
        fence_async_shared()
        synchronize()
        store_block(o, [head // heads, head % heads, start, 0], os.index(g))
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["heads", "group", "blocks", "tiles", "queries", "keys", "row_step"])
def attention_hopper_kernel(
    o, lse, q, k, v, heads, group, blocks, tiles, queries, keys, row_step, scale,
    CAUSAL: gl.constexpr, N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """One program of four warps, and five more: tiles of 128 queries of a head, one after another.

    o, q are descriptors of (batch, heads, length, D) with blocks of 64 rows, k, v with blocks of N; the rest is that of
    `attention_kernel`, lse's `step` called `row_step`. `blocks` of queries of a head (rounded up to an even number if
    CAUSAL) times batch * heads are the `tiles`. Grid: as many programs as there are multiprocessors.
    """
    qs = gl.allocate_shared_memory(q.dtype, [2, 1, 1, GROUP, D], q.layout)
    os = gl.allocate_shared_memory(o.dtype, [2, 1, 1, GROUP, D], o.layout)
    ks = gl.allocate_shared_memory(k.dtype, [STAGES, 1, 1, N, D], k.layout)
    vs = gl.allocate_shared_memory(v.dtype, [STAGES, 1, 1, N, D], v.layout)
    numbers = gl.allocate_shared_memory(gl.int32, [N], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    numbers.store(gl.arange(0, N, layout=gl.BlockedLayout([1], [32], [4], [0])))
    q_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(q_full.index(i), count=1)
        mbarrier.init(q_empty.index(i), count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(k_full.index(i), count=1)
        mbarrier.init(k_empty.index(i), count=2)  # both groups have read it
        mbarrier.init(v_full.index(i), count=1)
        mbarrier.init(v_empty.index(i), count=2)
    fence_async_shared()
    shared = (qs, ks, vs, os, numbers)
    barriers = (q_full, q_empty, k_full, k_empty, v_full, v_empty)
    sizes = (heads, blocks, tiles, queries, keys)
    gl.warp_specialize(
        [
            (_compute, (gl.constexpr(0), o, lse, row_step, scale, shared, barriers, sizes, CAUSAL, N, D, STAGES)),
            (_compute, (gl.constexpr(1), o, lse, row_step, scale, shared, barriers, sizes, CAUSAL, N, D, STAGES)),
            (_load, (q, k, v, group, shared, barriers, sizes, CAUSAL, N, STAGES)),
        ],
        [4, 1],
        [240, 24],  # registers of a thread: both groups have 240
    )
