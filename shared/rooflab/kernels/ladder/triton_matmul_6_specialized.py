# mypy: disallow-untyped-defs=False
"""Product of matrices, sixth step: some warps load, and two groups of four multiply half of a tile each.

Faster because a tile may be twice as wide: the sums of 128 by 256 fill the registers of warps that do nothing else, and
of what comes from the cache each number serves more of them. The groups wait for barriers and not for each other. Where
loop and descriptors are the kernel's own, Triton's compiler takes the parts of it to these groups.

>>> matmul.__name__
'matmul'
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from rooflab.kernels.ladder.descriptors import descriptors
from rooflab.kernels.launching import launch
from rooflab.kernels.products.torch_operands import give_scratch
from rooflab.kernels.rows.blocks import processors

__all__ = ["matmul", "matmul_kernel"]


@triton.jit
def matmul_kernel(c, a, b, M, N, K, TILE: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr):
    """Tiles of C, TILE by 2 TILE, from blocks of A and B that are DEPTH deep."""
    c = tl.make_tensor_descriptor(c, (M, N), (N, 1), (TILE, 2 * TILE))
    a = tl.make_tensor_descriptor(a, (M, K), (K, 1), (TILE, DEPTH))
    b = tl.make_tensor_descriptor(b, (K, N), (N, 1), (DEPTH, 2 * TILE))
    rows, cols = tl.cdiv(M, TILE), tl.cdiv(N, 2 * TILE)
    for tile in tl.range(tl.program_id(0), rows * cols, tl.num_programs(0), warp_specialize=True):
        first = tile // (8 * cols) * 8
        height = tl.minimum(rows - first, 8)
        m = (first + tile % (8 * cols) % height) * TILE
        n = tile % (8 * cols) // height * TILE * 2
        acc = tl.zeros([TILE, 2 * TILE], tl.float32)
        for k in tl.range(0, K, DEPTH, num_stages=STAGES):
            acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
        c.store([m, n], acc.to(c.dtype))


def matmul(c: Any, a: Any, b: Any) -> None:
    """Write the product of a [M, K] and b [K, N] to c [M, N]; all contiguous, 8 divides N and K (in 16 bits)."""
    (M, K), N = a.shape, b.shape[1]
    descriptors((c, a, b), (128, 64))  # refuses rows that the copy engine does not take
    give_scratch()
    grid = (min(processors(c.device), -(-M // 128) * -(-N // 256)),)
    launch(matmul_kernel, grid, c, a, b, M, N, K, TILE=128, DEPTH=64, STAGES=3, num_warps=4)
