"""What does attention cost, and what does it save not to write its scores?

>>> [attention(1, 16, 4096, 4096, 128, "bf16", fused=fused).bytes / 1e9 for fused in (True, False)]
[0.067108864, 2.214592512]
"""

from __future__ import annotations

from rooflab.units import bytes_of

from .work import Work, check_counts, check_flag

__all__ = ["attended_pairs", "attention"]


def attended_pairs(queries: int, keys: int, *, causal: bool = False) -> int:
    """Return how many (query, key) pairs of one head are scored.

    Without a mask QK of them (Q queries, K keys). Under a causal mask the last query sees every key and each one
    before it sees one fewer: QK - Q(Q-1)/2, which is Q(Q+1)/2 at Q = K and K at Q = 1 (decoding).

    Raises:
        ValueError: if there are more queries than keys under a causal mask.
    """
    queries, keys = check_counts(queries=queries, keys=keys)
    if not check_flag("causal", causal):
        return queries * keys
    if queries > keys:
        raise ValueError(f"expected at least as many keys as queries under a causal mask; found {keys} < {queries}")
    return queries * keys - queries * (queries - 1) // 2


def attention(
    batch: int,
    heads: int,
    queries: int,
    keys: int,
    head_dim: int,
    dtype: str,
    *,
    causal: bool = False,
    fused: bool = True,
    kv_heads: int | None = None,
) -> Work:
    """Scaled dot-product attention: softmax(q k^T / sqrt(D)) v.

    FLOPs: 2D for a score and 2D for its share of the output: 4 B H D pairs, pairs = QK or, causal, about half.
    The softmax (5 a score) is left out, as in the benchmarks of the field: it runs on other units than the products.
    Bytes, fused: q and the output are s B H Q D each, k and v are s B H' K D each (H' = kv_heads); one kernel.
    Bytes, not fused: three kernels, the scores and the probabilities (s B H Q K each) are written and read again.
    The scale is part of the first product, the mask of the softmax; the products compute masked scores too.
    Source: Dao et al. 2022 (FlashAttention).

    Args:
        batch: sequences B.
        heads: query heads H.
        queries: positions Q that ask.
        keys: positions K that are asked.
        head_dim: width D of a head.
        dtype: format of all arrays.
        causal: whether each query sees only the keys up to its own position.
        fused: whether the scores stay on the chip.
        kv_heads: key and value heads, fewer than `heads` in grouped-query attention (default: as many).

    Raises:
        ValueError: for sizes below one, or `heads` not a multiple of `kv_heads`.
    """
    kv_heads = heads if kv_heads is None else kv_heads
    batch, heads, head_dim, kv_heads, queries, keys = check_counts(
        batch=batch, heads=heads, head_dim=head_dim, kv_heads=kv_heads, queries=queries, keys=keys
    )
    if heads % kv_heads:
        raise ValueError(f"expected heads to be a multiple of kv_heads; found {heads} and {kv_heads}")
    s = bytes_of(dtype)
    q_bytes = s * batch * heads * queries * head_dim
    kv_bytes = 2 * s * batch * kv_heads * keys * head_dim
    pairs = attended_pairs(queries, keys, causal=causal)
    if check_flag("fused", fused):
        flops = 4 * batch * heads * head_dim * pairs
        return Work(flops, q_bytes + kv_bytes, q_bytes, dtype=dtype, name="attention")
    flops = 4 * batch * heads * head_dim * queries * keys
    twice = 2 * s * batch * heads * queries * keys  # scores and probabilities
    name = "attention (scores in memory)"
    return Work(flops, q_bytes + kv_bytes + twice, q_bytes + twice, launches=3, dtype=dtype, name=name)
