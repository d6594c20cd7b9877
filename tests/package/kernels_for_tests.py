"""Small Triton kernels whose bytes, sectors and faults can be counted by hand."""

import triton
import triton.language as tl


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def column_kernel(x, y, rows, cols, BLOCK: tl.constexpr):
    """Sum each column by reading down it: with 8 or more columns each 4-byte element lies in a sector of its own."""
    i = tl.arange(0, BLOCK)
    column = tl.program_id(0)
    values = tl.load(x + i * cols + column, mask=i < rows, other=0.0)
    tl.store(y + column, tl.sum(values, axis=0))


@triton.jit
def transpose_kernel(x, y, n, TILE: tl.constexpr):
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    tile = tl.load(x + i[:, None] * n + j[None, :])
    tl.store(y + j[:, None] * n + i[None, :], tl.trans(tile))


@triton.jit
def softmax_kernel(x, y, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * cols
    values = tl.load(x + row + i, mask=i < cols, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row + i, values / tl.sum(values, axis=0), mask=i < cols)


@triton.jit
def matmul_kernel(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        d = start + tl.arange(0, BK)
        left = tl.load(a + i[:, None] * k + d[None, :])
        right = tl.load(b + d[:, None] * n + j[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + i[:, None] * n + j[None, :], total.to(c.dtype.element_ty))


@triton.jit
def racy_histogram_kernel(x, bins, BLOCK: tl.constexpr):
    """Add one to a bin by load and store: two programs that meet the same value lose a count."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i)
    tl.store(bins + value, tl.load(bins + value) + 1)


@triton.jit
def atomic_histogram_kernel(x, bins, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + i), 1)


@triton.jit
def unmasked_kernel(x, y, n, BLOCK: tl.constexpr):
    """Copy with a mask on the store only: the last program reads past the end."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i), mask=i < n)


@triton.jit
def row_sum_kernel(x, y, cols, BLOCK: tl.constexpr):
    """Sum rows in the format of the input (bf16 too)."""
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    values = tl.load(x + row * cols + i, mask=i < cols, other=0.0)
    tl.store(y + row, tl.sum(values * 2 + 1, axis=0))


@triton.jit
def accumulate_kernel(x, y, BLOCK: tl.constexpr):
    """y += x, which needs a y that somebody has written."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(y + i) + tl.load(x + i))


@triton.jit
def neighbour_kernel(x, BLOCK: tl.constexpr):
    """Shift x by one place within itself: a program reads the element that the next program writes."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i + 1, mask=i + 1 < tl.num_programs(0) * BLOCK, other=0.0))


@triton.jit
def collide_kernel(x, y, BLOCK: tl.constexpr):
    """Eight lanes write each element of y."""
    i = tl.arange(0, BLOCK)
    tl.store(y + i // 8, tl.load(x + i))


@triton.jit
def far_kernel(x, y, offset, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i + offset, tl.load(x + i))


@triton.jit
def descriptor_kernel(x, y, n, TILE: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [n, n], [n, 1], [TILE, TILE])
    target = tl.make_tensor_descriptor(y, [n, n], [n, 1], [TILE, TILE])
    i, j = tl.program_id(0) * TILE, tl.program_id(1) * TILE
    target.store([i, j], source.load([i, j]))
