# mypy: disallow-untyped-defs=False
"""Attention, backward: dq, dk and dv without atomic additions, so that they come out the same each time.

With s, p and lse as in the forward pass (which leaves o and lse, but no p), and do the gradient of o:

    p = exp(s - lse),        dv = p^T do,             dp = do v^T,           delta = sum over D of o do,
    ds = p (dp - delta),     dq = scale ds k,         dk = scale ds^T q.

A sum over keys (dq) and sums over queries (dk, dv) cannot both stay in one program. Adding dq up in memory would need
atomics or an order among programs; here s and dp are computed twice instead, by a kernel that owns queries and one that
owns keys: 7 products of 2 D FLOPs a pair, where 5 are needed. Each sum is made in registers, in one order.

Registers are what is short: with D = 128, dk and dv of 64 keys take 128 of a thread's 255 at 4 warps. So the scores of
a step are for 64 queries only, and transposed (keys down): p^T and ds^T are then left operands of the next products,
which wgmma reads from the registers in which the exponentials left them. Two programs fit on a multiprocessor: the
products of one run during the exponentials of the other.

>>> attention_queries_backward_kernel.__name__, attention_keys_backward_kernel.__name__
('attention_queries_backward_kernel', 'attention_keys_backward_kernel')

Source: Dao 2023 (FlashAttention-2), algorithm 2.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["attention_keys_backward_kernel", "attention_queries_backward_kernel"]

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _over_keys(
    dq, q, do, lse2, delta, k, v, b, h, first, last, seen, c,
    MASKED: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Add to dq of M queries what the keys from `first` to `last` give, of which each sees those up to `seen`."""
    for n in tl.range(first, last, N):
        kt = k.load([b, h, n, 0]).reshape(N, D)
        p = tl.exp2(tl.dot(q, kt.T, input_precision="ieee") * c - lse2[:, None])
        if MASKED:
            cols = tl.arange(0, N)
            p = tl.where(cols[None, :] <= (seen - n)[:, None], p, 0.0)
        dp = tl.dot(do, v.load([b, h, n, 0]).reshape(N, D).T, input_precision="ieee")
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(kt.dtype), kt, dq, input_precision="ieee")
    return dq


@triton.jit(do_not_specialize=["heads", "group", "queries", "keys", "step"])
def attention_queries_backward_kernel(
    dq, delta, o, do, lse, q, k, v, heads, group, queries, keys, step, scale,
    CAUSAL: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """One program: dq of M queries of one head, and their delta, which the other kernel reads.

    dq, o, do, q, k, v are descriptors of (batch, heads, length, D) with blocks of M or N rows; lse and delta are
    (batch * heads, step), with `step` the queries rounded up to 4. Grid: blocks of queries times batch * heads.
    """
    blocks = tl.cdiv(queries, M)
    block, head = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    if CAUSAL:  # those with the most keys begin first
        block = blocks - 1 - block
    b, h = head // heads, head % heads
    start = block * M
    rows = start + tl.arange(0, M)
    place = head.to(tl.int64) * step + rows
    ahead = keys - queries
    c = scale * LOG2E
    dot = do.load([b, h, start, 0]).reshape(M, D)
    total = tl.sum(o.load([b, h, start, 0]).reshape(M, D).to(tl.float32) * dot.to(tl.float32), 1)
    tl.store(delta + place, total, mask=rows < step)
    lse2 = tl.load(lse + place, mask=rows < step, other=0.0) * LOG2E
    tile = q.load([b, h, start, 0]).reshape(M, D)
    last = keys
    seen = rows * 0 + (keys - 1)  # the last key that each query may see
    plain = keys // N * N
    if CAUSAL:
        seen = rows + ahead
        last = tl.minimum(keys, start + M + ahead)
        plain = (start + ahead + 1) // N * N
    acc = tl.zeros([M, D], tl.float32)
    acc = _over_keys(
        acc, tile, dot, lse2, total, k, v, b, h // group, 0, plain, seen, c, False, N, D
    )  # fmt: skip
    acc = _over_keys(
        acc, tile, dot, lse2, total, k, v, b, h // group, plain, last, seen, c, True, N, D
    )  # fmt: skip
    dq.store([b, h, start, 0], (acc * scale).to(dq.dtype).reshape(1, 1, M, D))


@triton.jit(do_not_specialize=["heads", "group", "queries", "keys"])
def attention_keys_backward_kernel(
    dk, dv, do, lse, delta, q, k, v, heads, group, queries, keys, scale,
    CAUSAL: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """One program: dk and dv of N keys of one head of k and v, summed over the `group` query heads that share it.

    dk, dv, do, q, k, v are descriptors of (batch, heads, length, D) with blocks of M or N rows, lse and delta of
    (batch * heads, queries rounded up to 4) with blocks of M, `heads` those of q.
    Grid: blocks of keys times batch * heads // group.
    """
    blocks = tl.cdiv(keys, N)
    start = tl.program_id(0) % blocks * N  # under a causal mask the first keys are seen by the most queries
    few = heads // group
    b, h = tl.program_id(0) // blocks // few, tl.program_id(0) // blocks % few
    cols = start + tl.arange(0, N)
    ahead = keys - queries
    c = scale * LOG2E
    kt = k.load([b, h, start, 0]).reshape(N, D)
    vt = v.load([b, h, start, 0]).reshape(N, D)
    first = 0
    if CAUSAL:
        first = tl.maximum(start - ahead, 0) // M * M
    dkt = tl.zeros([N, D], tl.float32)
    dvt = tl.zeros([N, D], tl.float32)
    for head in range(h * group, (h + 1) * group):
        for m in tl.range(first, queries, M):
            # Through descriptors as well: 16 addresses a thread would cost more registers than the numbers.
            # Queries beyond the end are zeros, and so are their do and delta: they add nothing, unless a key is
            # infinite, whose scores of zeros are NaN.
            lse2 = lse.load([b * heads + head, m]).reshape(M) * LOG2E
            qt = q.load([b, head, m, 0]).reshape(M, D)
            p = tl.exp2(tl.dot(kt, qt.T, input_precision="ieee") * c - lse2[None, :])
            # A second loop for the blocks that need a mask would need registers that are not there.
            if CAUSAL:  # noqa: SIM102  (known when compiling, the second condition is not)
                if m + ahead < start + N - 1:
                    p = tl.where((cols - ahead - m)[:, None] <= tl.arange(0, M)[None, :], p, 0.0)
            if m + M > queries:
                p = tl.where((tl.arange(0, M) < queries - m)[None, :], p, 0.0)
            dot = do.load([b, head, m, 0]).reshape(M, D)
            dvt = tl.dot(p.to(dot.dtype), dot, dvt, input_precision="ieee")
            dp = tl.dot(vt, dot.T, input_precision="ieee")
            dp -= delta.load([b * heads + head, m]).reshape(M)[None, :]
            # Of a query that is not finite, dp is NaN behind the mask, too, and 0 times NaN is no 0. To hide dp takes
            # fewer registers than to hide ds.
            if CAUSAL:  # noqa: SIM102
                if m + ahead < start + N - 1:
                    dp = tl.where((cols - ahead - m)[:, None] <= tl.arange(0, M)[None, :], dp, 0.0)
            dkt = tl.dot((p * dp).to(qt.dtype), qt, dkt, input_precision="ieee")
    dk.store([b, h, start, 0], (dkt * scale).to(dk.dtype).reshape(1, 1, N, D))
    dv.store([b, h, start, 0], dvt.to(dv.dtype).reshape(1, 1, N, D))
