# mypy: disallow-untyped-defs=False
"""Attention, second step: a query for each program, whose threads read neighbouring numbers.

Faster because whole sectors are used: keys and values come in blocks of some rows, and threads that run in step read
what lies side by side. Scores are read once for all columns. But they still go to memory and back.

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
def attention_kernel(o, q, k, v, scores, scale, L, D: tl.constexpr, N: tl.constexpr):
    """A query of one head, and N keys at a time; q, k, v and o are [heads * L, D], scores is [heads * L, L]."""
    head = tl.program_id(1).to(tl.int64) * L
    row = head + tl.program_id(0)
    i, d = tl.arange(0, N), tl.arange(0, D)
    x = tl.load(q + row * D + d).to(tl.float32) * scale
    largest = tl.full([N], -float("inf"), tl.float32)
    for n in range(0, L, N):
        inside = n + i < L
        y = tl.load(k + (head + n + i)[:, None] * D + d[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
        s = tl.sum(x[None, :] * y, 1)
        tl.store(scores + row * L + n + i, s, mask=inside)
        largest = tl.maximum(largest, tl.where(inside, s, -float("inf")))
    most = tl.max(largest, 0)
    tl.debug_barrier()  # scores that other threads of the program have written
    acc, total = tl.zeros([N, D], tl.float32), tl.zeros([N], tl.float32)
    for n in range(0, L, N):
        inside = n + i < L
        p = tl.exp(tl.load(scores + row * L + n + i, mask=inside, other=-float("inf")) - most)
        y = tl.load(v + (head + n + i)[:, None] * D + d[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
        total += p
        acc += p[:, None] * y
    tl.store(o + row * D + d, tl.sum(acc, 0) / tl.sum(total, 0))


def attention(o: Any, q: Any, k: Any, v: Any) -> None:
    """Write softmax(q k^T / sqrt(D)) v to o; all contiguous, of shape [heads, L, D], D a power of two."""
    heads, L, D = q.shape
    scores = q[:0].float().new_empty(heads, L, L)
    launch(attention_kernel, (L, heads), o, q, k, v, scores, D**-0.5, L, D=D, N=32, num_warps=4)
