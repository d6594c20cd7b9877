# mypy: disallow-untyped-defs=False
"""Softmax, third step: maximum and sum in one pass.

Faster because a row is read twice instead of three times: where a larger maximum turns up, what was added up so far is
scaled down. Source: Milakov and Gimelshein 2018.

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
def softmax_kernel(y, x, cols, BLOCK: tl.constexpr):
    """One row of x to one of y, both `cols` apart, BLOCK numbers at a time."""
    row = tl.program_id(0).to(tl.int64) * cols
    i = tl.arange(0, BLOCK)
    most = tl.full([], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for c in range(0, cols, BLOCK):
        v = tl.load(x + row + c + i, mask=c + i < cols, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(most, tl.max(v, 0))
        # Nothing but -inf so far: nothing is there to scale or to add, and -inf less -inf would be NaN.
        total *= tl.where(most == larger, 1.0, tl.exp(most - larger))
        total += tl.where(larger == -float("inf"), 0.0, tl.exp(v - larger))
        most = larger
    scale = 1.0 / tl.sum(total, 0)
    for c in range(0, cols, BLOCK):
        v = tl.load(x + row + c + i, mask=c + i < cols, other=-float("inf")).to(tl.float32)
        tl.store(y + row + c + i, tl.exp(v - most) * scale, mask=c + i < cols)


def softmax(y: Any, x: Any) -> None:
    """Write softmax of the rows of x to y; both contiguous, of shape [rows, cols]."""
    rows, cols = x.shape
    launch(softmax_kernel, (rows,), y, x, cols, BLOCK=1024, num_warps=4)
