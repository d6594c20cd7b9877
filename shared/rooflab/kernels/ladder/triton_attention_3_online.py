# mypy: disallow-untyped-defs=False
"""Attention, third step: scores stay in registers, and keys and values are gone through together.

Faster because scores, of which there are L for each query, are never in memory: where a larger maximum turns up, what
was added up so far is scaled down. Source: Milakov and Gimelshein 2018; Dao et al. 2022.

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
def attention_kernel(o, q, k, v, scale, L, D: tl.constexpr, N: tl.constexpr):
    """A query of one head, and N keys at a time; q, k, v and o are [heads * L, D]."""
    head = tl.program_id(1).to(tl.int64) * L
    row = head + tl.program_id(0)
    i, d = tl.arange(0, N), tl.arange(0, D)
    x = tl.load(q + row * D + d).to(tl.float32) * scale
    most = tl.full([], -float("inf"), tl.float32)
    acc, total = tl.zeros([N, D], tl.float32), tl.zeros([N], tl.float32)
    for n in range(0, L, N):
        inside = n + i < L
        y = tl.load(k + (head + n + i)[:, None] * D + d[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
        s = tl.where(inside, tl.sum(x[None, :] * y, 1), -float("inf"))
        larger = tl.maximum(most, tl.max(s, 0))
        p, less = tl.exp(s - larger), tl.exp(most - larger)
        y = tl.load(v + (head + n + i)[:, None] * D + d[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
        total = total * less + p
        acc = acc * less + p[:, None] * y
        most = larger
    tl.store(o + row * D + d, tl.sum(acc, 0) / tl.sum(total, 0))


def attention(o: Any, q: Any, k: Any, v: Any) -> None:
    """Write softmax(q k^T / sqrt(D)) v to o; all contiguous, of shape [heads, L, D], D a power of two."""
    heads, L, D = q.shape
    launch(attention_kernel, (L, heads), o, q, k, v, D**-0.5, L, D=D, N=32, num_warps=4)
