# mypy: disallow-untyped-defs=False
"""Product of matrices, third step: a tile of C for each program, multiplied by the matrix units.

Faster because a block of A that was read serves all columns of the tile, and a block of B all rows: for tiles of 128 by
128 every number is read 128 times less often. And the matrix units multiply blocks in one instruction.

>>> matmul.__name__
'matmul'
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from rooflab.kernels.launching import launch

__all__ = ["matmul", "matmul_kernel"]


@triton.jit
def matmul_kernel(c, a, b, M, N, K, TILE: tl.constexpr, DEPTH: tl.constexpr):
    """A tile of C, TILE by TILE, from blocks of A and B that are DEPTH deep."""
    m = (tl.program_id(0) * TILE + tl.arange(0, TILE)).to(tl.int64)[:, None]
    n = (tl.program_id(1) * TILE + tl.arange(0, TILE))[None, :]
    acc = tl.zeros([TILE, TILE], tl.float32)
    for k in range(0, K, DEPTH):
        i, j = k + tl.arange(0, DEPTH)[None, :], k + tl.arange(0, DEPTH)[:, None]
        x = tl.load(a + m * K + i, mask=(m < M) & (i < K), other=0.0)
        y = tl.load(b + j.to(tl.int64) * N + n, mask=(j < K) & (n < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m * N + n, acc, mask=(m < M) & (n < N))


def matmul(c: Any, a: Any, b: Any) -> None:
    """Write the product of a [M, K] and b [K, N] to c [M, N]; all contiguous."""
    (M, K), N = a.shape, b.shape[1]
    grid = (-(-M // 128), -(-N // 128))
    launch(matmul_kernel, grid, c, a, b, M, N, K, TILE=128, DEPTH=64, num_warps=8, num_stages=1)
