# mypy: disallow-untyped-defs=False
"""Products of fp8 matrices with scales for Hopper: sums move into registers while the next products run.

The mathematics is that of :mod:`.triton_scaled_matmul`: every 128 terms, partial sums get their scale and are added up
in fp32. There, products and additions of a program take turns. For a block of 128 x 128 x 128, the matrix units of a
multiprocessor take 512 cycles and its other lanes 128 for as many additions; together they should take 512:

>>> 128**3 / 4096, 128**2 / 128
(512.0, 128.0)

* One warp only loads, as far ahead as shared memory allows; barriers in memory say when a block is there (`full`) and
  when it may be overwritten (`empty`).
* Two groups of four warps have 64 rows of a tile each, and never wait for each other.
* A group has two sets of partial sums. It starts the products of two blocks, waits for the first ones, and adds them up
  while the others run. While it adds up those, the products of the other group run.

The next limit is shared memory: for the 512 cycles of a block the matrix units read 48 KiB of it, and 32 KiB are
written, where some 64 KiB can be moved. Larger tiles would need less, but their sums find no room in registers.

In Gluon, as :mod:`..attend.triton_attention_hopper` is, because Triton's compiler waits for each product where its
result is first used.

Source: DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.5.2, on the exchange of two groups of warps.
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

__all__ = ["scaled_matmul_hopper_kernel"]

TILE = gl.constexpr(128)  # rows and columns of a tile of C, and terms of a partial sum
HALF = gl.constexpr(64)  # rows of a group of warps: what one wgmma takes


@gluon.jit
def _place(tile, sizes, GROUP: gl.constexpr):
    """Row and column of a tile of C, in the order of :func:`.triton_matmul.place`."""
    M, N, _ = sizes
    rows, cols = gl.cdiv(M, TILE), gl.cdiv(N, TILE)
    first = tile // (GROUP * cols) * GROUP
    height = gl.minimum(rows - first, GROUP)
    within = tile % (GROUP * cols)
    return first + within % height, within // height


@gluon.jit
def _load(a, b, shared, barriers, sizes, GROUP: gl.constexpr, STAGES: gl.constexpr):
    """The warp that loads: for each tile its blocks of A and B along K, an even number of them."""
    halves, blocks, _ = shared
    full, empty = barriers
    M, N, K = sizes
    step = 0
    for tile in range(gl.program_id(0), gl.cdiv(M, TILE) * gl.cdiv(N, TILE), gl.num_programs(0)):
        row, col = _place(tile, sizes, GROUP)
        for j in range(gl.cdiv(K, 2 * TILE) * 2):
            s = step % STAGES
            mbarrier.wait(empty.index(s), step // STAGES & 1 ^ 1)  # the first wait of all passes
            mbarrier.expect(full.index(s), 2 * a.block_type.nbytes + b.block_type.nbytes)
            load_block(a, [row * TILE, j * TILE], full.index(s), halves.index(2 * s))
            load_block(a, [row * TILE + HALF, j * TILE], full.index(s), halves.index(2 * s + 1))
            load_block(b, [col * TILE, j * TILE], full.index(s), blocks.index(s))
            step += 1


@gluon.jit
def _start(g: gl.constexpr, step, shared, barriers, sums: gl.constexpr, STAGES: gl.constexpr):
    """Start the products of a block when it is there."""
    halves, blocks, _ = shared
    full, _ = barriers
    s = step % STAGES
    mbarrier.wait(full.index(s), step // STAGES & 1)
    zero = gl.zeros([HALF, TILE], gl.float32, sums)
    return warpgroup_mma(halves.index(2 * s + g), blocks.index(s).permute([1, 0]), zero, use_acc=False, is_async=True)


@gluon.jit
def _add(acc, part, scale, step, barriers, later: gl.constexpr, SCALES: gl.constexpr, STAGES: gl.constexpr):
    """Add partial sums when they are complete, though not yet those of as many `later` blocks."""
    _, empty = barriers
    part = warpgroup_mma_wait(later, deps=[part])
    synchronize()  # all four warps have read the block
    mbarrier.arrive(empty.index(step % STAGES))
    if SCALES == "block":
        acc += part * (scale[0] * scale[1])[:, None]
    else:
        acc += part
    return acc


@gluon.jit
def _block_scales(scales, rows, col, j, sizes, SCALES: gl.constexpr):
    """Load the scales of the rows and of the column of tiles for a block of terms."""
    of_a, of_b, sa_row, sa_block, sb_block, sb_col = scales
    M, _, K = sizes
    x, y = 1.0, 1.0
    if SCALES == "block":
        inside = (rows < M) & (j < gl.cdiv(K, TILE))
        x = gl.load(of_a + rows * sa_row + j * sa_block, mask=inside, other=0.0)
        # One number for all, but loaded row by row: if it were the same for a warp, it would be waited for at once.
        y = gl.load(of_b + gl.where(inside, j * sb_block + col * sb_col, 0), mask=inside, other=0.0)
    return x, y


@gluon.jit
def _scaled(acc, scales, rows, col, sizes, sums: gl.constexpr, SCALES: gl.constexpr):
    """Give complete sums the scales that do not depend on k."""
    of_a, of_b, _, _, _, _ = scales
    M, N, _ = sizes
    if SCALES == "row":
        cols = col * TILE + gl.arange(0, TILE, layout=gl.SliceLayout(0, sums))
        acc = acc * gl.load(of_a + rows, mask=rows < M, other=0.0)[:, None]
        acc = acc * gl.load(of_b + cols, mask=cols < N, other=0.0)[None, :]
    if SCALES == "tensor":
        acc = acc * (gl.load(of_a) * gl.load(of_b))
    return acc


@gluon.jit
def _multiply(
    g: gl.constexpr, c, scales, shared, barriers, sizes, SCALES: gl.constexpr, GROUP: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    """A group of four warps: 64 rows of each tile."""
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TILE, 32])
    _, _, results = shared
    M, N, K = sizes
    step = 0
    for tile in range(gl.program_id(0), gl.cdiv(M, TILE) * gl.cdiv(N, TILE), gl.num_programs(0)):
        row, col = _place(tile, sizes, GROUP)
        rows = row * TILE + g * HALF + gl.arange(0, HALF, layout=gl.SliceLayout(1, sums))
        acc = gl.zeros([HALF, TILE], gl.float32, sums)
        of_even = _block_scales(scales, rows, col, 0, sizes, SCALES)
        of_odd = _block_scales(scales, rows, col, 1, sizes, SCALES)
        # Two at a time, complete at the end: if products outlasted a turn of the loop, the assembler would not let any
        # run beside others.
        for j in range(0, gl.cdiv(K, TILE), 2):
            even = _start(g, step, shared, barriers, sums, STAGES)
            odd = _start(g, step + 1, shared, barriers, sums, STAGES)
            next_even = _block_scales(scales, rows, col, j + 2, sizes, SCALES)
            next_odd = _block_scales(scales, rows, col, j + 3, sizes, SCALES)
            acc = _add(acc, even, of_even, step, barriers, 1, SCALES, STAGES)
            acc = _add(acc, odd, of_odd, step + 1, barriers, 0, SCALES, STAGES)
            of_even, of_odd = next_even, next_odd
            step += 2
        acc = _scaled(acc, scales, rows, col, sizes, sums, SCALES)
        tma.store_wait(0)  # the tile before has been read from shared memory
        synchronize()
        results.index(g).store(acc.to(c.dtype))
        fence_async_shared()
        synchronize()
        store_block(c, [row * TILE + g * HALF, col * TILE], results.index(g))
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["M", "N", "K"])
def scaled_matmul_hopper_kernel(
    c, a, b, a_scale, b_scale, M, N, K, sa_row, sa_block, sb_block, sb_col,
    SCALES: gl.constexpr, GROUP: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """One program of four warps, and five more: tiles of 128 x 128 of C, one after another.

    c, a and b are descriptors: C [M, N] and A [M, K] with blocks of 64 x 128, B [N, K] with blocks of 128 x 128. SCALES
    are of a "tensor", a "row" or a "block"; the strides are those of block scales. Tiles are taken in groups of GROUP
    rows. Grid: as many programs as there are multiprocessors, or tiles.
    """
    halves = gl.allocate_shared_memory(a.dtype, [2 * STAGES, HALF, TILE], a.layout)
    blocks = gl.allocate_shared_memory(b.dtype, [STAGES, TILE, TILE], b.layout)
    results = gl.allocate_shared_memory(c.dtype, [2, HALF, TILE], c.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)  # both groups have read it
    fence_async_shared()
    shared, barriers, sizes = (halves, blocks, results), (full, empty), (M, N, K)
    scales = (a_scale, b_scale, sa_row, sa_block, sb_block, sb_col)
    gl.warp_specialize(
        [
            (_multiply, (gl.constexpr(0), c, scales, shared, barriers, sizes, SCALES, GROUP, STAGES)),
            (_multiply, (gl.constexpr(1), c, scales, shared, barriers, sizes, SCALES, GROUP, STAGES)),
            (_load, (a, b, shared, barriers, sizes, GROUP, STAGES)),
        ],
        [4, 1],
        [240, 24],  # registers of a thread: both groups have 240
    )
