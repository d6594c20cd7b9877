# mypy: disallow-untyped-defs=False
"""Products of fp8 matrices that have scales: one for a matrix, one for each row, or one for each block.

    c[m, n] = sa[m] sb[n] sum over k of a[m, k] b[k, n]
    c[m, n] = sum over blocks j of sa[m, j] sb[j, n / 128] (sum over the 128 k of block j of a[m, k] b[k, n])

A [M, K] and B [K, N] in e4m3, B stored transposed (the matrix units read fp8 along K alone), C in bf16 or fp16.
FLOPs: 2 M N K. Bytes: M K + K N read and 2 M N written, and the scales.

The one idea: scales that do not depend on k wait until the sums are complete. Block scales cannot, but they come with
what has to be done anyway: Hopper adds fp8 products with some 14 bits only, so partial sums have to be moved into
fp32 registers every so often. Every 128 terms, they are multiplied by their scale on the way. Two programs on a
multiprocessor take turns in this.
Source: DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.3.2.

Scales of blocks are few: 4 bytes to 128 elements of A and to 16,384 of B. Of all bytes of a product of 8192 cubed:

>>> n = 8192
>>> round((4 * n * n / 128 + 4 * (n / 128) ** 2) / (n * n + n * n + 2 * n * n), 4)
0.0079
"""

from __future__ import annotations

import triton
import triton.language as tl

from .triton_matmul import place_of, store_parts

__all__ = ["block_scaled_matmul_kernel", "scaled_matmul_kernel"]


@triton.jit
def scaled_matmul_kernel(
    c, a, b, a_scale, b_scale, M, N, K,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    BY_ROW: tl.constexpr, EXACT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """C = A B with a scale for each matrix, or BY_ROW for each row of A and column of B (see `matmul_kernel`).

    EXACT moves the sums of each step of TILE_K terms into fp32 registers.
    """
    rows, cols = tl.cdiv(M, TILE_M), tl.cdiv(N, TILE_N)
    for tile in tl.range(tl.program_id(0), rows * cols, tl.num_programs(0), flatten=True):
        row, col = place_of(tile, rows, cols, GROUP)
        m, n = row * TILE_M, col * TILE_N
        acc = tl.zeros((TILE_M, TILE_N), tl.float32)
        for k in tl.range(0, K, TILE_K, num_stages=STAGES):
            x, y = a.load([m, k]), b.load([n, k]).T
            acc = tl.dot(x, y, acc, max_num_imprecise_acc=TILE_K if EXACT else None)
        if BY_ROW:
            i, j = m + tl.arange(0, TILE_M), n + tl.arange(0, TILE_N)
            acc *= tl.load(a_scale + i, mask=i < M, other=0.0)[:, None]
            acc *= tl.load(b_scale + j, mask=j < N, other=0.0)[None, :]
        else:
            acc *= tl.load(a_scale) * tl.load(b_scale)
        store_parts(c, m, n, acc, PARTS, "no")


@triton.jit
def block_scaled_matmul_kernel(
    c, a, b, a_scale, b_scale, M, N, K, sa_row, sa_block, sb_block, sb_col,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """C = A B with a scale for each BLOCK elements of a row of A, and each BLOCK x BLOCK elements of B.

    TILE_K is BLOCK, and TILE_N divides it: a tile has one scale of B at a time, and one of A in each row.
    """
    rows, cols, steps = tl.cdiv(M, TILE_M), tl.cdiv(N, TILE_N), tl.cdiv(K, TILE_K)
    for tile in tl.range(tl.program_id(0), rows * cols, tl.num_programs(0), flatten=True):
        row, col = place_of(tile, rows, cols, GROUP)
        m, n = row * TILE_M, col * TILE_N
        i = m + tl.arange(0, TILE_M)
        of_a, of_b = a_scale + i * sa_row, b_scale + n // BLOCK * sb_col
        acc = tl.zeros((TILE_M, TILE_N), tl.float32)
        for step in tl.range(steps, num_stages=STAGES):
            # Before the product, and used after it: while it runs, these loads are on their way.
            scale_a = tl.load(of_a + step * sa_block, mask=i < M, other=0.0)
            scale_b = tl.load(of_b + step * sb_block)
            part = tl.dot(a.load([m, step * TILE_K]), b.load([n, step * TILE_K]).T)
            acc += part * (scale_a * scale_b)[:, None]
        store_parts(c, m, n, acc, PARTS, "no")
