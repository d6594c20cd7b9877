# mypy: disallow-untyped-defs=False
"""Products of an MLP with squared ReLU for Hopper: a tile is finished and stored under the products of the next one.

The mathematics is that of :mod:`.triton_squared_relu`. There a program multiplies, then waits for its block of a, then
stores, then waits for the first blocks of its next tile. With K = 768 a tile of 128 x 128 has only 12 steps of 64
terms, of 512 cycles each, so what stands between two tiles is a large part of the time. Here

* one warp only loads, as far ahead as shared memory allows, and goes from one tile to the next without waiting;
* two groups of four warps have a tile each, in turn. While one finishes a tile, the matrix units work for the other.
  A group begins when the other has started its last products (`begin`): a barrier has only two phases to tell apart, so
  who waits for a block must know that all blocks before have come;
* the block of a is fetched by the copy engine during the products of its tile. Its place takes the result, which the
  copy engine stores from there: a thread writes what it has read, and a group has one such place.

A step's blocks, and the places, in KiB of shared memory, of which there are 227:

>>> step, place = (128 + 128) * 64 * 2 / 1024, 128 * 128 * 2 / 1024
>>> 5 * step + 2 * place
224.0

The next limit is shared memory: for the 512 cycles of a step the matrix units read 48 KiB of it (A again for 128
columns, B again for 64 rows), and 32 KiB are written, where 64 KiB can be moved. At the clock that a chip keeps under
its limit of power, two programs with tiles of this size reached 0.97 of what tiles of 128 x 256 did.

Source: NVIDIA, CUTLASS 3, "ping-pong" kernels, on two groups of warps that take tiles in turn.
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

TILE = gl.constexpr(128)  # rows and columns of a tile
STEP = gl.constexpr(64)  # terms of a step: rows of 128 bytes, what the copy engine spreads over all banks


@gluon.jit
def _place(tile, sizes, GROUP: gl.constexpr):
    """Row and column of a tile, in the order of :func:`.triton_matmul.place`."""
    M, N, _ = sizes
    rows, cols = gl.cdiv(M, TILE), gl.cdiv(N, TILE)
    first = tile // (GROUP * cols) * GROUP
    height = gl.minimum(rows - first, GROUP)
    within = tile % (GROUP * cols)
    return (first + within % height) * TILE, within // height * TILE


@gluon.jit
def _turns(first, every, sizes):
    """How many tiles there are of those with the numbers first, first + every, and so on."""
    M, N, _ = sizes
    return gl.cdiv(gl.cdiv(M, TILE) * gl.cdiv(N, TILE) - first, every)


@gluon.jit
def _load(x, w, a, shared, barriers, sizes, GRADIENT: gl.constexpr, GROUP: gl.constexpr, STAGES: gl.constexpr):
    """The warp that loads: for each tile its blocks along K and, some steps after the first ones, its block of a."""
    xs, ws, places = shared
    full, empty, there, free, _ = barriers
    _, _, K = sizes
    steps, first, every = gl.cdiv(K, STEP), gl.program_id(0), gl.num_programs(0)
    step = 0
    for turn in range(_turns(first, every, sizes)):
        m, n = _place(first + turn * every, sizes, GROUP)
        for j in range(steps):
            s = step % STAGES
            mbarrier.wait(empty.index(s), step // STAGES & 1 ^ 1)  # the first wait of all passes
            mbarrier.expect(full.index(s), x.block_type.nbytes + w.block_type.nbytes)
            load_block(x, [m, j * STEP], full.index(s), xs.index(s))
            if GRADIENT:
                load_block(w, [j * STEP, n], full.index(s), ws.index(s))
                # When all stages have been filled anew the group has begun this tile, and its place is free.
                if j == gl.minimum(STAGES, steps - 1):
                    mbarrier.wait(free.index(turn % 2), turn // 2 & 1 ^ 1)
                    mbarrier.expect(there.index(turn % 2), a.block_type.nbytes)
                    load_block(a, [m, n], there.index(turn % 2), places.index(turn % 2))
            else:
                load_block(w, [n, j * STEP], full.index(s), ws.index(s))
            step += 1


@gluon.jit
def _start(
    acc, step, last, g: gl.constexpr, shared, barriers, FIRST: gl.constexpr, GRADIENT: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    """Start the products of a step when its blocks are there; with those of the last one the other group may begin."""
    xs, ws, _ = shared
    full, _, _, _, begin = barriers
    s = step % STAGES
    mbarrier.wait(full.index(s), step // STAGES & 1)
    if step == last:
        mbarrier.arrive(begin.index(1 - g))
    if GRADIENT:
        acc = warpgroup_mma(xs.index(s), ws.index(s), acc, use_acc=not FIRST, is_async=True)
    else:
        acc = warpgroup_mma(xs.index(s), ws.index(s).permute([1, 0]), acc, use_acc=not FIRST, is_async=True)
    return acc


@gluon.jit
def _sum_up(g: gl.constexpr, turn, shared, barriers, steps, GRADIENT: gl.constexpr, STAGES: gl.constexpr):
    """Return the products of a tile. Those of a step run while the next one's are started, also by the other group."""
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TILE, 16])
    _, empty, _, _, begin = barriers
    first = (2 * turn + g) * steps
    last = first + steps - 1
    zero = gl.zeros([TILE, TILE], gl.float32, sums)
    mbarrier.wait(begin.index(g), turn & 1 ^ 1 - g)  # of the first group, the first wait passes
    acc = _start(zero, first, last, g, shared, barriers, True, GRADIENT, STAGES)
    acc = warpgroup_mma_wait(1, deps=[acc])
    for step in range(first + 1, last + 1):
        acc = _start(acc, step, last, g, shared, barriers, False, GRADIENT, STAGES)
        acc = warpgroup_mma_wait(1, deps=[acc])
        synchronize()  # all four warps have read the blocks of the step before
        mbarrier.arrive(empty.index((step - 1) % STAGES))
    acc = warpgroup_mma_wait(0, deps=[acc])
    synchronize()
    mbarrier.arrive(empty.index(last % STAGES))
    return acc


@gluon.jit
def _multiply(
    g: gl.constexpr, c, shared, barriers, sizes, GRADIENT: gl.constexpr, GROUP: gl.constexpr, STAGES: gl.constexpr
):  # fmt: skip
    """A group of four warps: every second tile of the program."""
    _, _, places = shared
    _, _, there, free, _ = barriers
    _, _, K = sizes
    steps, first, every = gl.cdiv(K, STEP), gl.program_id(0) + g * gl.num_programs(0), 2 * gl.num_programs(0)
    for turn in range(_turns(first, every, sizes)):
        m, n = _place(first + turn * every, sizes, GROUP)
        acc = _sum_up(g, turn, shared, barriers, steps, GRADIENT, STAGES)
        if GRADIENT:
            mbarrier.wait(there.index(g), turn & 1)
            acc = 2.0 * gl.sqrt(places.index(g).load(acc.type.layout).to(gl.float32)) * acc
        else:
            acc = gl.where(acc < 0, 0.0, acc)  # NaN stays
            acc = acc * acc
        places.index(g).store(acc.to(c.dtype))
        fence_async_shared()
        synchronize()
        store_block(c, [m, n], places.index(g))
        # Until then there are no products to start: those of the other group run.
        tma.store_wait(0)
        synchronize()
        if GRADIENT:
            mbarrier.arrive(free.index(g))


@gluon.jit(do_not_specialize=["M", "N", "K"])
def squared_relu_hopper_kernel(
    c, x, w, a, M, N, K, GRADIENT: gl.constexpr, GROUP: gl.constexpr, STAGES: gl.constexpr
):  # fmt: skip
    """c = relu(x W^T)^2, or with GRADIENT c = 2 sqrt(a) (x w), in tiles of 128 x 128, one after another.

    All are descriptors: c and a [M, N] with blocks of 128 x 128, x [M, K] with blocks of 128 x 64, and w [N, K] with
    such blocks, or with GRADIENT [K, N] with blocks of 64 x 128. Without GRADIENT a is not read. A program has four
    warps, and five more. Tiles are taken in groups of GROUP rows. Grid: as many programs as there are multiprocessors,
    or tiles.
    """
    xs = gl.allocate_shared_memory(x.dtype, [STAGES, TILE, STEP], x.layout)
    if GRADIENT:
        ws = gl.allocate_shared_memory(w.dtype, [STAGES, STEP, TILE], w.layout)
    else:
        ws = gl.allocate_shared_memory(w.dtype, [STAGES, TILE, STEP], w.layout)
    places = gl.allocate_shared_memory(c.dtype, [2, TILE, TILE], c.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    there = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    begin = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    for i in gl.static_range(2):
        mbarrier.init(there.index(i), count=1)
        mbarrier.init(free.index(i), count=1)
        mbarrier.init(begin.index(i), count=1)
    fence_async_shared()
    shared, barriers, sizes = (xs, ws, places), (full, empty, there, free, begin), (M, N, K)
    gl.warp_specialize(
        [
            (_multiply, (gl.constexpr(0), c, shared, barriers, sizes, GRADIENT, GROUP, STAGES)),
            (_multiply, (gl.constexpr(1), c, shared, barriers, sizes, GRADIENT, GROUP, STAGES)),
            (_load, (x, w, a, shared, barriers, sizes, GRADIENT, GROUP, STAGES)),
        ],
        [4, 1],
        [240, 24],  # registers of a thread: both groups have 240
    )
