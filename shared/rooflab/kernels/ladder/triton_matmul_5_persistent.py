# mypy: disallow-untyped-defs=False
"""Product of matrices, fifth step: one program for each multiprocessor works through many tiles.

Faster because the start of a tile, when nothing has arrived yet, and its end, when it is stored, are hidden behind
another tile: the loop over tiles and the loop over K are one. And tiles that are in work together are neighbours, in
groups of eight rows, so that what they share is still in the cache.

>>> matmul.__name__
'matmul'
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from rooflab.kernels.ladder.descriptors import descriptors
from rooflab.kernels.launching import launch
from rooflab.kernels.rows.blocks import processors

__all__ = ["matmul", "matmul_kernel"]


@triton.jit
def matmul_kernel(c, a, b, M, N, K, TILE: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr):
    """Tiles of C, TILE by TILE, from blocks of A and B that are DEPTH deep; all three are descriptors."""
    rows, cols = tl.cdiv(M, TILE), tl.cdiv(N, TILE)
    for tile in tl.range(tl.program_id(0), rows * cols, tl.num_programs(0), flatten=True):
        first = tile // (8 * cols) * 8
        height = tl.minimum(rows - first, 8)
        m = (first + tile % (8 * cols) % height) * TILE
        n = tile % (8 * cols) // height * TILE
        acc = tl.zeros([TILE, TILE], tl.float32)
        for k in tl.range(0, K, DEPTH, num_stages=STAGES):
            acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
        c.store([m, n], acc.to(c.dtype))


def matmul(c: Any, a: Any, b: Any) -> None:
    """Write the product of a [M, K] and b [K, N] to c [M, N]; all contiguous, 8 divides N and K (in 16 bits)."""
    (M, K), N = a.shape, b.shape[1]
    described = descriptors((c, a, b), (128, 64))
    grid = (min(processors(c.device), -(-M // 128) * -(-N // 128)),)
    launch(matmul_kernel, grid, *described, M, N, K, TILE=128, DEPTH=64, STAGES=4, num_warps=8)
