# mypy: disallow-untyped-defs=False
"""Product of matrices, first step: a number of C for each thread, neighbouring threads in neighbouring rows.

Threads that run in step read numbers of A that lie a whole row apart, and write C the same way. Every number of A is
read N times, every one of B M times.

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
def matmul_kernel(c, a, b, M, N, K, ROWS: tl.constexpr):
    """ROWS numbers of one column of C."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    col = tl.program_id(1)
    acc = tl.zeros([ROWS], tl.float32)
    for k in range(K):
        x = tl.load(a + row * K + k, mask=row < M, other=0.0).to(tl.float32)
        y = tl.load(b + k * N + col).to(tl.float32)
        acc += x * y
    tl.store(c + row * N + col, acc, mask=row < M)


def matmul(c: Any, a: Any, b: Any) -> None:
    """Write the product of a [M, K] and b [K, N] to c [M, N]; all contiguous."""
    (M, K), N = a.shape, b.shape[1]
    launch(matmul_kernel, (-(-M // 128), N), c, a, b, M, N, K, ROWS=128, num_warps=4)
