# mypy: disallow-untyped-defs=False
"""A product of matrices, C = A B, at the rate of the matrix units.

    c[m, n] = sum over k of a[m, k] b[k, n]         A [M, K], B [K, N]; each may be stored transposed

FLOPs: 2 M N K. Bytes: s (M K + K N) read and s M N written, if the second-level cache keeps what tiles share.

The one idea: nothing but products ever takes time. A program stays on its multiprocessor and works through many tiles
of C. The copy engine brings blocks of A and B some steps ahead, and takes the finished tile away in parts, while the
next one is begun: a small buffer for a part of C leaves room for one more stage of A and B. Where the first blocks of a
tile are waited for, a second, smaller program on the multiprocessor could multiply; at large sizes one program with
larger tiles is as fast, since these read less of shared memory. (With `flatten` Triton is asked to make one loop of the
tiles and the steps of K, so that not even the first blocks are waited for. Triton 3.6 and 3.7 do not do so for Hopper.)

Neighbouring tiles of C need the same rows of A and columns of B. Tiles are therefore taken in groups of some rows of
tiles, column by column, so that those in work at one time form a block that is nearly square:

>>> [[place(tile, 4, 3, 2) for tile in four] for four in ((0, 1, 2, 3), (4, 5, 6, 7))]
[[(0, 0), (1, 0), (0, 1), (1, 1)], [(0, 2), (1, 2), (2, 0), (3, 0)]]
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["add_splits_kernel", "matmul_kernel", "place", "place_of", "store_parts"]


def place(tile: int, rows: int, cols: int, group: int) -> tuple[int, int]:
    """Return row and column of a tile of C in the order of work, as the kernels compute it.

    Args:
        tile: its number.
        rows: of tiles that C has.
        cols: the same, columns.
        group: rows of tiles that are taken together.
    """
    first = tile // (group * cols) * group
    height = min(rows - first, group)
    within = tile % (group * cols)
    return first + within % height, within // height


@triton.jit
def place_of(tile, rows, cols, GROUP: tl.constexpr):
    """Row and column of a tile of C (see `place`)."""
    first = tile // (GROUP * cols) * GROUP
    height = tl.minimum(rows - first, GROUP)
    within = tile % (GROUP * cols)
    return first + within % height, within // height


@triton.jit
def store_parts(c, m, n, acc, PARTS: tl.constexpr, ADD: tl.constexpr):
    """Store a tile of sums in parts of its columns, or add it to what is there."""
    if PARTS == 1:
        if ADD == "engine":
            # The copy engine adds, in the cache. No other program adds to these elements: there is only one order.
            c.atomic_add([m, n], acc.to(c.dtype))
        else:
            c.store([m, n], ((c.load([m, n]).to(tl.float32) + acc) if ADD == "program" else acc).to(c.dtype))
    else:
        HALF: tl.constexpr = acc.shape[1] // 2
        left, right = acc.reshape((acc.shape[0], 2, HALF)).permute((0, 2, 1)).split()
        store_parts(c, m, n, left, PARTS // 2, ADD)
        store_parts(c, m, n + HALF, right, PARTS // 2, ADD)


@triton.jit
def matmul_kernel(
    c, a, b, M, N, K,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    SPLITS: tl.constexpr, A_TRANSPOSED: tl.constexpr, B_TRANSPOSED: tl.constexpr, ADD: tl.constexpr,
    PRECISION: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """C = A B, or with ADD C += A B; copies end at the edges of a matrix, and fill up with zeros beyond them.

    c, a and b are descriptors. With SPLITS, K is cut into as many ranges, and C has as many slabs of whole rows of
    tiles, one for each range.
    """
    rows, cols = tl.cdiv(M, TILE_M), tl.cdiv(N, TILE_N)
    steps = tl.cdiv(tl.cdiv(K, TILE_K), SPLITS)
    for job in tl.range(tl.program_id(0), rows * cols * SPLITS, tl.num_programs(0), flatten=True):
        split = job // (rows * cols)
        row, col = place_of(job % (rows * cols), rows, cols, GROUP)
        m, n = row * TILE_M, col * TILE_N
        acc = tl.zeros((TILE_M, TILE_N), tl.float32)
        # As many steps for each job, past the end of K too, where all is zero: one loop could then have no branches.
        for step in tl.range(steps, num_stages=STAGES):
            k = (split * steps + step) * TILE_K
            x = a.load([k, m]).T if A_TRANSPOSED else a.load([m, k])
            y = b.load([n, k]).T if B_TRANSPOSED else b.load([k, n])
            acc = tl.dot(x, y, acc, input_precision=PRECISION)
        store_parts(c, split * rows * TILE_M + m, n, acc, PARTS, ADD)


@triton.jit
def add_splits_kernel(
    c, parts, N, c_step, step, slab, SPLITS: tl.constexpr, ADD: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Add up the slabs that the ranges of K have left, always in one order."""
    row = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = col < N
    to = c + row * c_step + col
    total = tl.load(to, mask=inside, other=0.0).to(tl.float32) if ADD else tl.zeros((BLOCK,), tl.float32)
    at = row * step + col
    for _ in tl.static_range(SPLITS):
        total += tl.load(parts + at, mask=inside, other=0.0)
        at += slab
    tl.store(to, total.to(c.dtype.element_ty), mask=inside)
