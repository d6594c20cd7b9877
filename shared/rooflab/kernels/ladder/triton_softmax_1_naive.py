# mypy: disallow-untyped-defs=False
"""Softmax, first step: a row for each thread, as one would write it for a CPU.

Threads that run in step read numbers that lie a whole row apart: of each sector of 32 bytes one number is used. And
every row is read three times.

>>> softmax.__name__
'softmax'
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from rooflab.kernels.launching import launch

__all__ = ["softmax", "softmax_kernel"]


@triton.jit
def softmax_kernel(y, x, rows, cols, ROWS: tl.constexpr):
    """ROWS rows of x to rows of y, both `cols` apart."""
    r = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    inside = r < rows
    largest = tl.full([ROWS], -float("inf"), tl.float32)
    for c in range(cols):
        v = tl.load(x + r * cols + c, mask=inside, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, v)
    total = tl.zeros([ROWS], tl.float32)
    for c in range(cols):
        v = tl.load(x + r * cols + c, mask=inside, other=0.0).to(tl.float32)
        total += tl.exp(v - largest)
    for c in range(cols):
        v = tl.load(x + r * cols + c, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + r * cols + c, tl.exp(v - largest) / total, mask=inside)


def softmax(y: Any, x: Any) -> None:
    """Write softmax of the rows of x to y; both contiguous, of shape [rows, cols]."""
    rows, cols = x.shape
    launch(softmax_kernel, (-(-rows // 32),), y, x, rows, cols, ROWS=32, num_warps=1)
