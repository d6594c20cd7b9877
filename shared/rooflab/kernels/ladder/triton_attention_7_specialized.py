# mypy: disallow-untyped-defs=False
"""Attention, seventh step: some warps load, and two groups of four have 64 queries each.

Faster because the groups wait for barriers and not for each other: while one computes exponentials, the other one's
products run. Where loop and descriptors are the kernel's own, Triton's compiler takes the parts of it to these groups.

>>> attention.__name__
'attention'
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from rooflab.kernels.ladder.descriptors import check_tiles
from rooflab.kernels.launching import launch
from rooflab.kernels.products.torch_operands import give_scratch
from rooflab.kernels.rows.blocks import processors

__all__ = ["attention", "attention_kernel"]


@triton.jit
def attention_kernel(
    o, q, k, v, scale, L, heads, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, STAGES: tl.constexpr
):  # fmt: skip
    """Tiles of M queries of a head, and N keys at a time; q, k, v and o are [heads * L, D]."""
    o = tl.make_tensor_descriptor(o, (heads * L, D), (D, 1), (M, D))
    q = tl.make_tensor_descriptor(q, (heads * L, D), (D, 1), (M, D))
    k = tl.make_tensor_descriptor(k, (heads * L, D), (D, 1), (N, D))
    v = tl.make_tensor_descriptor(v, (heads * L, D), (D, 1), (N, D))
    for tile in tl.range(tl.program_id(0), L // M * heads, tl.num_programs(0), warp_specialize=True):
        head, m = tile // (L // M) * L, tile % (L // M) * M
        x = q.load([head + m, 0])
        most, total = tl.full([M], -float("inf"), tl.float32), tl.zeros([M], tl.float32)
        acc = tl.zeros([M, D], tl.float32)
        for n in tl.range(0, L, N, num_stages=STAGES):
            s = tl.dot(x, k.load([head + n, 0]).T) * scale
            larger = tl.maximum(most, tl.max(s, 1))
            p, less = tl.exp(s - larger[:, None]), tl.exp(most - larger)
            total = total * less + tl.sum(p, 1)
            acc = tl.dot(p.to(v.dtype), v.load([head + n, 0]), acc * less[:, None])
            most = larger
        o.store([head + m, 0], (acc / total[:, None]).to(o.dtype))


def attention(o: Any, q: Any, k: Any, v: Any) -> None:
    """Write softmax(q k^T / sqrt(D)) v to o; all contiguous, [heads, L, D], 128 divides L, D is 16, 32, 64 or 128."""
    heads, L, D = q.shape
    check_tiles(q, 128)
    give_scratch()
    grid = (min(processors(q.device), L // 128 * heads),)
    launch(
        attention_kernel, grid, o, q, k, v, D**-0.5, L, heads, D=D, M=128, N=128, STAGES=2, num_stages=2, num_warps=4,
    )  # fmt: skip
