# mypy: disallow-untyped-defs=False
"""Attention, forward: softmax(scale q k^T) v for one head after another, without ever writing the scores to memory.

    s = scale q k^T,    p = exp(s - max s),    o = p v / sum p,    lse = max s + log(sum p)

A program owns M queries and goes through the keys N at a time. It keeps the largest score m and the sum l of each row
so far, and rescales what it has when m grows:

    m' = max(m, max s),    a = exp(m - m'),    l = a l + sum exp(s - m'),    acc = a acc + exp(s - m') v.

FLOPs: 4 D for each pair of a query and a key that it may see. Bytes: q, k, v and o once from memory (k and v again for
each block of queries, but from the cache), 4 Q for lse. The intensity is of the order of M: products are the roof, so
whatever is not a product must be few instructions, and run while products do:

* exp2 instead of exp: with c = scale log2(e), exp(s - m) = exp2(c s - c m) is one multiply-add and one exponential.
* Under a causal mask most blocks need no mask: the loop runs in two ranges, and only the second compares positions.
* Whole blocks come through tensor descriptors: on Hopper the copy engine (TMA) writes them to shared memory in the
  layout in which wgmma reads them, fills rows beyond the end with zeros and drops them when it stores.

>>> attention_kernel.__name__
'attention_kernel'

Source: Milakov and Gimelshein 2018 (online softmax); Dao 2023 (FlashAttention-2).
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["attention_kernel"]


@triton.jit
def _attend(
    acc, m, total, q, k, v, b, h, first, last, seen, c,
    MASKED: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Take the keys from `first` to `last` into the sums of M queries, of which each sees keys up to `seen`."""
    for n in tl.range(first, last, N):
        s = tl.dot(q, k.load([b, h, n, 0]).reshape(N, D).T, input_precision="ieee")
        if MASKED:
            cols = tl.arange(0, N)
            s = tl.where(cols[None, :] <= (seen - n)[:, None], s, -float("inf"))
        larger = tl.maximum(m, tl.max(s, 1))
        # A row that has seen only -inf has nothing to subtract: -inf - -inf would be NaN for good.
        base = tl.where(larger == -float("inf"), 0.0, larger * c)
        p = tl.exp2(s * c - base[:, None])
        a = tl.exp2(m * c - base)
        total = total * a + tl.sum(p, 1)
        block = v.load([b, h, n, 0]).reshape(N, D)
        acc = tl.dot(p.to(block.dtype), block, acc * a[:, None], input_precision="ieee")
        m = larger
    return acc, m, total


@triton.jit(do_not_specialize=["heads", "group", "queries", "keys", "step"])
def attention_kernel(
    o, lse, q, k, v, heads, group, queries, keys, step, scale,
    CAUSAL: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """One program: M queries of one head.

    o, q, k, v are descriptors of (batch, heads, length, D) with blocks of M or N rows; lse is
    (batch * heads, step), with `step` the queries rounded up to 4, so that a descriptor can read it.
    `group` query heads share one head of k and v. Under a causal mask the last query sees every key.
    Grid: blocks of queries times batch * heads.
    """
    blocks = tl.cdiv(queries, M)
    block, head = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    if CAUSAL:  # those with the most keys begin first, so that the last to begin are short
        block = blocks - 1 - block
    b, h = head // heads, head % heads
    start = block * M
    rows = start + tl.arange(0, M)
    ahead = keys - queries
    c = scale * 1.4426950408889634
    m = tl.full([M], -float("inf"), tl.float32)
    total = tl.zeros([M], tl.float32)
    acc = tl.zeros([M, D], tl.float32)
    tile = q.load([b, h, start, 0]).reshape(M, D)
    last = keys
    seen = rows * 0 + (keys - 1)  # the last key that each query may see
    plain = keys // N * N  # the keys whose blocks need no mask
    if CAUSAL:
        seen = rows + ahead
        last = tl.minimum(keys, start + M + ahead)
        plain = (start + ahead + 1) // N * N
    acc, m, total = _attend(
        acc, m, total, tile, k, v, b, h // group, 0, plain, seen, c, False, N, D
    )  # fmt: skip
    acc, m, total = _attend(
        acc, m, total, tile, k, v, b, h // group, plain, last, seen, c, True, N, D
    )  # fmt: skip
    out = acc / total[:, None]
    o.store([b, h, start, 0], out.to(o.dtype).reshape(1, 1, M, D))
    tl.store(lse + head.to(tl.int64) * step + rows, m * scale + tl.log(total), mask=rows < step)
