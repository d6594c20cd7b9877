# mypy: disallow-untyped-defs=False
"""Product of matrices, fourth step: the copy engine brings the next blocks while this one is multiplied.

Faster because the matrix units do not wait for memory: blocks of the next turns are on their way to shared memory. The
copy engine takes a descriptor and a corner, so that no thread computes addresses, and fills up with zeros beyond the
edges, so that there are no masks.

>>> matmul.__name__
'matmul'
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from rooflab.kernels.ladder.descriptors import descriptors
from rooflab.kernels.launching import launch

__all__ = ["matmul", "matmul_kernel"]


@triton.jit
def matmul_kernel(c, a, b, M, N, K, TILE: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr):
    """A tile of C, TILE by TILE, from blocks of A and B that are DEPTH deep; all three are descriptors."""
    m, n = tl.program_id(0) * TILE, tl.program_id(1) * TILE
    acc = tl.zeros([TILE, TILE], tl.float32)
    for k in tl.range(0, K, DEPTH, num_stages=STAGES):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(c.dtype))


def matmul(c: Any, a: Any, b: Any) -> None:
    """Write the product of a [M, K] and b [K, N] to c [M, N]; all contiguous, 8 divides N and K (in 16 bits)."""
    (M, K), N = a.shape, b.shape[1]
    described = descriptors((c, a, b), (128, 64))
    launch(matmul_kernel, (-(-M // 128), -(-N // 128)), *described, M, N, K, TILE=128, DEPTH=64, STAGES=4, num_warps=8)
