# mypy: disallow-untyped-defs=False
"""Attention, first step: a query for each thread, as one would write it for a CPU, and its scores in memory.

Threads that run in step read queries and scores that lie a whole row apart: of each sector of 32 bytes one number is
used. And the scores, of which there are far more than of anything else, are written, and read twice for each column.

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
def attention_kernel(o, q, k, v, scores, scale, L, D, M: tl.constexpr):
    """M queries of one head, which begins at row `head` of q, k, v and o, [heads * L, D]; scores is [heads * L, L]."""
    head = tl.program_id(1).to(tl.int64) * L
    m = tl.program_id(0) * M + tl.arange(0, M)
    inside, row = m < L, head + m
    largest = tl.full([M], -float("inf"), tl.float32)
    for n in range(L):
        s = tl.zeros([M], tl.float32)
        for d in range(D):
            x = tl.load(q + row * D + d, mask=inside, other=0.0).to(tl.float32)
            s += x * tl.load(k + (head + n) * D + d).to(tl.float32)
        tl.store(scores + row * L + n, s * scale, mask=inside)
        largest = tl.maximum(largest, s * scale)
    for d in range(D):
        acc, total = tl.zeros([M], tl.float32), tl.zeros([M], tl.float32)
        for n in range(L):
            p = tl.exp(tl.load(scores + row * L + n, mask=inside, other=0.0) - largest)
            total += p
            acc += p * tl.load(v + (head + n) * D + d).to(tl.float32)
        tl.store(o + row * D + d, acc / total, mask=inside)


def attention(o: Any, q: Any, k: Any, v: Any) -> None:
    """Write softmax(q k^T / sqrt(D)) v to o; all contiguous, of shape [heads, L, D]."""
    heads, L, D = q.shape
    scores = q[:0].float().new_empty(heads, L, L)
    launch(attention_kernel, (-(-L // 128), heads), o, q, k, v, scores, D**-0.5, L, D, M=128, num_warps=4)
