# mypy: disallow-untyped-defs=False
"""Attention of one query against a long cache of keys and values, as when a model writes one token after another.

    o = sum over keys of p v / sum of p,    p = exp(scale q k - m)

FLOPs: 4 D a key and head. Bytes: 2 s D a key and head of k and v, which are read once: one FLOP a byte in 16 bits, so
the memory is the roof, and the question is how to keep all of it busy. One program for a head would leave most of the
chip idle. So the keys are split, and each program goes through one stretch of them:

    acc_i, m_i, l_i of stretch i,      o = sum_i exp(m_i - max m) acc_i / sum_i exp(m_i - max m) l_i,

where a second, small kernel does the sums over i; its bytes are 4 (D + 2) a stretch of hundreds of keys. The query
heads that share a head of k and v are the rows of one product, padded to the 16 that a matrix instruction takes: this
costs nothing, since the products are far from their roof, and k and v are read once for all of them.

>>> decode_kernel.__name__, combine_kernel.__name__
('decode_kernel', 'combine_kernel')

Source: Dao et al. 2023 (Flash-Decoding).
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["combine_kernel", "decode_kernel"]


@triton.jit(do_not_specialize=["heads", "group", "keys", "chunk", "splits"])
def decode_kernel(
    parts, largest, sums, q, k, v, q_batch, q_head, heads, group, keys, chunk, splits, scale,
    N: tl.constexpr, D: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """One program: `chunk` keys (a multiple of N) of one head of k and v, for the `group` queries that share it.

    k, v are descriptors of (batch, heads, keys, D) with blocks of N rows; q has strides of batch and head; parts is
    (batch * heads * group, splits, D), largest and sums are without D, in fp32; `largest` times log2(e).
    Grid: splits times batch * heads.
    """
    split, head = tl.program_id(0) % splits, tl.program_id(0) // splits
    b, h = head // heads, head % heads
    r, d = tl.arange(0, R), tl.arange(0, D)
    known = r < group
    place = q + b.to(tl.int64) * q_batch + (h * group + r).to(tl.int64)[:, None] * q_head + d[None, :]
    tile = tl.load(place, mask=known[:, None], other=0.0)
    m = tl.full([R], -float("inf"), tl.float32)
    total = tl.zeros([R], tl.float32)
    acc = tl.zeros([R, D], tl.float32)
    c = scale * 1.4426950408889634
    last = tl.minimum(keys, (split + 1) * chunk)
    for n in tl.range(split * chunk, last, N):
        s = tl.dot(tile, k.load([b, h, n, 0]).reshape(N, D).T, input_precision="ieee")
        s = tl.where((n + tl.arange(0, N) < last)[None, :], s * c, -float("inf"))
        larger = tl.maximum(m, tl.max(s, 1))
        base = tl.where(larger == -float("inf"), 0.0, larger)
        p = tl.exp2(s - base[:, None])
        a = tl.exp2(m - base)
        total = total * a + tl.sum(p, 1)
        block = v.load([b, h, n, 0]).reshape(N, D)
        acc = tl.dot(p.to(block.dtype), block, acc * a[:, None], input_precision="ieee")
        m = larger
    row = (head * group + r).to(tl.int64) * splits + split
    tl.store(parts + row[:, None] * D + d[None, :], acc, mask=known[:, None])
    tl.store(largest + row, m, mask=known)
    tl.store(sums + row, total, mask=known)


@triton.jit(do_not_specialize=["splits"])
def combine_kernel(o, parts, largest, sums, splits, S: tl.constexpr, D: tl.constexpr, COLS: tl.constexpr):
    """One program: COLS columns of the output of one query, from its at most S parts. Grid: D // COLS times queries."""
    row, d = tl.program_id(0) // (D // COLS), tl.program_id(0) % (D // COLS) * COLS + tl.arange(0, COLS)
    i = tl.arange(0, S)
    place = row.to(tl.int64) * splits + i
    m = tl.load(largest + place, mask=i < splits, other=-float("inf"))
    top = tl.max(m, 0)
    weights = tl.exp2(m - tl.where(top == -float("inf"), 0.0, top))
    total = tl.sum(weights * tl.load(sums + place, mask=i < splits, other=0.0), 0)
    part = tl.load(parts + place[:, None] * D + d[None, :], mask=(i < splits)[:, None], other=0.0)
    tl.store(o + row.to(tl.int64) * D + d, tl.sum(weights[:, None] * part, 0) / total)
