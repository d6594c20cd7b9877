# mypy: disallow-untyped-defs=False
"""Products of an MLP with squared ReLU for Hopper: a tile is finished and stored under the products of the next one.

The mathematics is that of :mod:`.triton_squared_relu`. There a program multiplies, then waits for its block of a, then
stores, then waits for the first blocks of its next tile. With K = 768 a tile of 128 x 128 has only 12 steps of 64
terms, of 512 cycles each, so what stands between two tiles is a large part of the time. Here

* one warp only loads, as far ahead as shared memory allows, and goes from one tile to the next without waiting;
* two groups of four warps multiply. While one finishes its tile, the matrix units work for the other;
* the block of a is fetched by the copy engine during the products of its tile. Its place takes the result, which the
  copy engine stores from there: a thread writes what it has read, and a group has one such place.

There are two ways to share the work. The groups have tiles of 128 x 128 in turn: one begins when the other has started
its last products, and has as long as these took to finish. Or they have the halves, 64 x 256, of the same tiles
(TOGETHER), the second some steps behind the first: it alone multiplies while the first finishes a tile, and the first
alone while the second does. In KiB of shared memory, of which there are 227, with steps of 64 terms:

>>> place = 128 * 128 * 2 / 1024  # the same for both
>>> [stages * (128 + cols) * 64 * 2 / 1024 + 2 * place for cols, stages in ((128, 5), (256, 3))]
[224.0, 208.0]

In turn more is hidden; together less is moved. For 512 cycles of the matrix units, in which 64 KiB can be moved, the
steps read and write so many KiB of shared memory:

>>> [((64 + cols) * 16 * 2 * 4 * 2 * 128 / cols + (128 + cols) * 64 * 2 * 128 / cols) / 1024 for cols in (128, 256)]
[80.0, 64.0]

Source: NVIDIA, CUTLASS 3, "ping-pong" and "cooperative" kernels, on two groups of warps and a warp that loads.
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

from ..attend.triton_gluon import load_block, store_block, synchronize

__all__ = ["squared_relu_hopper_kernel"]

HEIGHT = gl.constexpr(128)  # rows of a tile


@gluon.jit
def _place(tile, sizes, COLS: gl.constexpr, GROUP: gl.constexpr):
    """First row and column of a tile, in the order of :func:`.triton_matmul.place`."""
    M, N, _ = sizes
    rows, cols = gl.cdiv(M, HEIGHT), gl.cdiv(N, COLS)
    first = tile // (GROUP * cols) * GROUP
    height = gl.minimum(rows - first, GROUP)
    within = tile % (GROUP * cols)
    return (first + within % height) * HEIGHT, within // height * COLS


@gluon.jit
def _turns(first, every, sizes, COLS: gl.constexpr):
    """How many tiles there are of those with the numbers first, first + every, and so on."""
    M, N, _ = sizes
    return gl.cdiv(gl.cdiv(M, HEIGHT) * gl.cdiv(N, COLS) - first, every)


@gluon.jit
def _fetch(a, m, n, g, turn, shared, barriers):
    """Have the block of a brought to the place of group g when its result of the turn before has left it."""
    _, _, places = shared
    _, _, there, free, _ = barriers
    mbarrier.wait(free.index(g), turn & 1 ^ 1)  # the first wait passes
    mbarrier.expect(there.index(g), a.block_type.nbytes)
    load_block(a, [m, n], there.index(g), places.index(g))


@gluon.jit
def _load(
    x, w, a, shared, barriers, sizes, GRADIENT: gl.constexpr, TOGETHER: gl.constexpr, STEP: gl.constexpr,
    GROUP: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """The warp that loads: for each tile its blocks along K and, some steps after the first ones, its block of a."""
    COLS: gl.constexpr = 256 if TOGETHER else 128
    xs, ws, _ = shared
    full, empty, _, _, _ = barriers
    _, _, K = sizes
    steps, first, every = gl.cdiv(K, STEP), gl.program_id(0), gl.num_programs(0)
    step = 0
    for turn in range(_turns(first, every, sizes, COLS)):
        m, n = _place(first + turn * every, sizes, COLS, GROUP)
        for j in range(steps):
            s, k = step % STAGES, j * STEP
            mbarrier.wait(empty.index(s), step // STAGES & 1 ^ 1)  # the first wait of all passes
            mbarrier.expect(full.index(s), (2 if TOGETHER else 1) * x.block_type.nbytes + w.block_type.nbytes)
            if TOGETHER:
                load_block(x, [m, k], full.index(s), xs.index(2 * s))
                load_block(x, [m + HEIGHT // 2, k], full.index(s), xs.index(2 * s + 1))
            else:
                load_block(x, [m, k], full.index(s), xs.index(s))
            if GRADIENT:
                load_block(w, [k, n], full.index(s), ws.index(s))
                # When all stages have been filled anew a group has begun this tile, and its place is free.
                if j == gl.minimum(STAGES, steps - 1):
                    if TOGETHER:
                        _fetch(a, m, n, 0, turn, shared, barriers)
                        _fetch(a, m + HEIGHT // 2, n, 1, turn, shared, barriers)
                    else:
                        _fetch(a, m, n, turn % 2, turn // 2, shared, barriers)
            else:
                load_block(w, [n, k], full.index(s), ws.index(s))
            step += 1


@gluon.jit
def _start(
    acc, step, signal, g: gl.constexpr, shared, barriers, FIRST: gl.constexpr, GRADIENT: gl.constexpr,
    TOGETHER: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Start the products of a step when its blocks are there; with those of one of them the other group may begin."""
    xs, ws, _ = shared
    full, _, _, _, begin = barriers
    s = step % STAGES
    mbarrier.wait(full.index(s), step // STAGES & 1)
    if step == signal:
        mbarrier.arrive(begin.index(1 - g))
    rows = xs.index(2 * s + g) if TOGETHER else xs.index(s)
    if GRADIENT:
        acc = warpgroup_mma(rows, ws.index(s), acc, use_acc=not FIRST, is_async=True)
    else:
        acc = warpgroup_mma(rows, ws.index(s).permute([1, 0]), acc, use_acc=not FIRST, is_async=True)
    return acc


@gluon.jit
def _sum_up(
    g: gl.constexpr, turn, shared, barriers, steps, GRADIENT: gl.constexpr, TOGETHER: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    """Return the products of a tile. Those of a step run while the next one's are started, also by the other group."""
    ROWS: gl.constexpr = HEIGHT // 2 if TOGETHER else HEIGHT
    COLS: gl.constexpr = 256 if TOGETHER else 128
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLS, 16])
    _, empty, _, _, begin = barriers
    zero = gl.zeros([ROWS, COLS], gl.float32, sums)
    if TOGETHER:
        # The second group lets the first one get half the stages ahead at the very first tile; so it stays.
        first, signal = turn * steps, gl.minimum(STAGES // 2, steps - 1)
        if g == 1:
            signal = -1
            if turn == 0:
                mbarrier.wait(begin.index(1), 0)
    else:
        # A barrier has two phases to tell apart: who waits for a block must know that all blocks before have come.
        first = (2 * turn + g) * steps
        signal = first + steps - 1
        mbarrier.wait(begin.index(g), turn & 1 ^ 1 - g)  # of the first group, the first wait passes
    acc = _start(zero, first, signal, g, shared, barriers, True, GRADIENT, TOGETHER, STAGES)
    acc = warpgroup_mma_wait(1, deps=[acc])
    for step in range(first + 1, first + steps):
        acc = _start(acc, step, signal, g, shared, barriers, False, GRADIENT, TOGETHER, STAGES)
        acc = warpgroup_mma_wait(1, deps=[acc])
        synchronize()  # all four warps have read the blocks of the step before
        mbarrier.arrive(empty.index((step - 1) % STAGES))
    acc = warpgroup_mma_wait(0, deps=[acc])
    synchronize()
    mbarrier.arrive(empty.index((first + steps - 1) % STAGES))
    return acc


@gluon.jit
def _multiply(
    g: gl.constexpr, c, shared, barriers, sizes, GRADIENT: gl.constexpr, TOGETHER: gl.constexpr, STEP: gl.constexpr,
    GROUP: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """A group of four warps: every second tile of the program, or half of each."""
    COLS: gl.constexpr = 256 if TOGETHER else 128
    _, _, places = shared
    _, _, there, free, _ = barriers
    _, _, K = sizes
    steps, first, every = gl.cdiv(K, STEP), gl.program_id(0), gl.num_programs(0)
    below = 0
    if TOGETHER:
        below = g * (HEIGHT // 2)
    else:
        first, every = first + g * every, 2 * every
    for turn in range(_turns(first, every, sizes, COLS)):
        m, n = _place(first + turn * every, sizes, COLS, GROUP)
        acc = _sum_up(g, turn, shared, barriers, steps, GRADIENT, TOGETHER, STAGES)
        if GRADIENT:
            mbarrier.wait(there.index(g), turn & 1)
            acc = 2.0 * gl.sqrt(places.index(g).load(acc.type.layout).to(gl.float32)) * acc
        else:
            acc = gl.where(acc < 0, 0.0, acc)  # NaN stays
            acc = acc * acc
        places.index(g).store(acc.to(c.dtype))
        fence_async_shared()
        synchronize()
        store_block(c, [m + below, n], places.index(g))
        tma.store_wait(0)  # meanwhile the other group multiplies
        synchronize()
        if GRADIENT:
            mbarrier.arrive(free.index(g))


@gluon.jit(do_not_specialize=["M", "N", "K"])
def squared_relu_hopper_kernel(
    c, x, w, a, M, N, K, GRADIENT: gl.constexpr, TOGETHER: gl.constexpr, STEP: gl.constexpr, GROUP: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    """c = relu(x W^T)^2, or with GRADIENT c = 2 sqrt(a) (x w), in tiles of 128 x 128, or TOGETHER of 128 x 256.

    All are descriptors, with blocks for a group of warps: c and a [M, N] of 128 x 128 (64 x 256), x [M, K] of so many
    rows and STEP columns, and w [N, K] of so many columns of c and STEP, or with GRADIENT [K, N], the other way round.
    Without GRADIENT a is not read. A program has four warps, and five more. Tiles are taken in groups of GROUP rows.
    Grid: as many programs as there are multiprocessors, or tiles.
    """
    GROUPS: gl.constexpr = 2 if TOGETHER else 1  # that read a block
    ROWS: gl.constexpr = HEIGHT // GROUPS
    COLS: gl.constexpr = 128 * GROUPS
    xs = gl.allocate_shared_memory(x.dtype, [STAGES * GROUPS, ROWS, STEP], x.layout)
    if GRADIENT:
        ws = gl.allocate_shared_memory(w.dtype, [STAGES, STEP, COLS], w.layout)
    else:
        ws = gl.allocate_shared_memory(w.dtype, [STAGES, COLS, STEP], w.layout)
    places = gl.allocate_shared_memory(c.dtype, [2, ROWS, COLS], c.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    there = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    begin = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=GROUPS)
    for i in gl.static_range(2):
        mbarrier.init(there.index(i), count=1)
        mbarrier.init(free.index(i), count=1)
        mbarrier.init(begin.index(i), count=1)
    fence_async_shared()
    shared, barriers, sizes = (xs, ws, places), (full, empty, there, free, begin), (M, N, K)
    gl.warp_specialize(
        [
            (_multiply, (gl.constexpr(0), c, shared, barriers, sizes, GRADIENT, TOGETHER, STEP, GROUP, STAGES)),
            (_multiply, (gl.constexpr(1), c, shared, barriers, sizes, GRADIENT, TOGETHER, STEP, GROUP, STAGES)),
            (_load, (x, w, a, shared, barriers, sizes, GRADIENT, TOGETHER, STEP, GROUP, STAGES)),
        ],
        [4, 1],
        [240, 24],  # registers of a thread: both groups have 240
    )
