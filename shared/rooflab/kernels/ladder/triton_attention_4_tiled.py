# mypy: disallow-untyped-defs=False
"""Attention, fourth step: a tile of queries for each program, multiplied by the matrix units.

Faster because a block of keys and values that was read serves all queries of the tile, here 128: they are read 128
times less often. And the matrix units multiply blocks in one instruction.

>>> attention.__name__
'attention'
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from rooflab.kernels.launching import launch

__all__ = ["attention", "attention_kernel"]


@triton.jit
def attention_kernel(o, q, k, v, scale, L, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """M queries of one head, and N keys at a time; q, k, v and o are [heads * L, D]."""
    head = tl.program_id(1).to(tl.int64) * L
    m, i, d = tl.program_id(0) * M + tl.arange(0, M)[:, None], tl.arange(0, N), tl.arange(0, D)[None, :]
    x = tl.load(q + (head + m) * D + d, mask=m < L, other=0.0)
    most, total = tl.full([M], -float("inf"), tl.float32), tl.zeros([M], tl.float32)
    acc = tl.zeros([M, D], tl.float32)
    for n in range(0, L, N):
        inside = n + i < L
        y = tl.load(k + (head + n + i)[:, None] * D + d, mask=inside[:, None], other=0.0)
        s = tl.where(inside[None, :], tl.dot(x, y.T) * scale, -float("inf"))
        larger = tl.maximum(most, tl.max(s, 1))
        p, less = tl.exp(s - larger[:, None]), tl.exp(most - larger)
        y = tl.load(v + (head + n + i)[:, None] * D + d, mask=inside[:, None], other=0.0)
        total = total * less + tl.sum(p, 1)
        acc = tl.dot(p.to(y.dtype), y, acc * less[:, None])
        most = larger
    tl.store(o + (head + m) * D + d, acc / total[:, None], mask=m < L)


def attention(o: Any, q: Any, k: Any, v: Any) -> None:
    """Write softmax(q k^T / sqrt(D)) v to o; all contiguous, [heads, L, D], D is 16, 32, 64 or 128."""
    heads, L, D = q.shape
    grid = (-(-L // 128), heads)
    launch(attention_kernel, grid, o, q, k, v, D**-0.5, L, D=D, M=128, N=128, num_warps=8, num_stages=1)
