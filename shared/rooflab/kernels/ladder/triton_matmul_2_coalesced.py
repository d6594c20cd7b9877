# mypy: disallow-untyped-defs=False
"""Product of matrices, second step: neighbouring threads in neighbouring columns.

Faster because threads that run in step read neighbouring numbers of B, share the one of A, and write whole sectors of
C. Every number of A and B is still read as often.

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
def matmul_kernel(c, a, b, M, N, K, COLS: tl.constexpr):
    """COLS numbers of one row of C."""
    row = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    acc = tl.zeros([COLS], tl.float32)
    for k in range(K):
        x = tl.load(a + row * K + k).to(tl.float32)
        y = tl.load(b + k * N + col, mask=col < N, other=0.0).to(tl.float32)
        acc += x * y
    tl.store(c + row * N + col, acc, mask=col < N)


def matmul(c: Any, a: Any, b: Any) -> None:
    """Write the product of a [M, K] and b [K, N] to c [M, N]; all contiguous."""
    (M, K), N = a.shape, b.shape[1]
    launch(matmul_kernel, (M, -(-N // 128)), c, a, b, M, N, K, COLS=128, num_warps=4)
