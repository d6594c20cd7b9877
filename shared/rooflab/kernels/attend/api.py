"""Attention as functions of PyTorch's tensors or JAX's arrays.

>>> import torch
>>> one = torch.ones(1, 1, 2, 16)
>>> attention(one, one, one, causal=True).unique()
tensor([1.])
"""

from __future__ import annotations

from typing import Any

from ..api import function_for
from ..demands import flag, number

__all__ = ["attention", "attention_decode", "rotary_heads"]


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """Return softmax(scale q k^T) v of each head; the scores are never in memory.

    Args:
        q: queries, of shape [batch, heads, queries, D], float32, bfloat16 or float16; D is 16, 32, 64 or 128.
        k: keys, [batch, kv_heads, keys, D]; heads is a multiple of kv_heads, whose heads consecutive ones share.
        v: values, as k.
        causal: each query sees the keys up to its own position, the last query all of them.
        scale: of the scores, 2^-126 to 2^126 (default: 1 / sqrt(D)).

    Returns:
        the shape and format of q. Without any keys it is zero. A query with NaN or plus infinity among its scores, or
        nothing but minus infinity, gives NaN. Keys and values behind the causal mask must be finite.
        The NaN of a query does not reach the gradients of keys and values that it does not see, except through elements
        of q and of the output's gradient that are not finite themselves.
        Source: Dao et al. 2022; Shah et al. 2024.
    """
    found = function_for(q, "attention", k=k, v=v)
    return found(q, k, v, causal=flag("attention", "causal", causal), scale=_scale("attention", scale))


def attention_decode(q: Any, k: Any, v: Any, *, scale: float | None = None) -> Any:
    """Return softmax(scale q k^T) v for one query a head; keys and values are read once. It has no gradient.

    Args:
        q: of shape [batch, heads, 1, D], float32, bfloat16 or float16; D is 16, 32, 64 or 128.
        k: keys, [batch, kv_heads, keys, D]; heads is a multiple of kv_heads.
        v: values, as k.
        scale: of the scores, 2^-126 to 2^126 (default: 1 / sqrt(D)).

    Returns:
        the shape and format of q.
    """
    return function_for(q, "attention_decode", k=k, v=v)(q, k, v, scale=_scale("attention_decode", scale))


def rotary_heads(qkv: Any, cosine: Any, sine: Any, *, normalize: bool = False) -> tuple[Any, Any, Any]:
    """Queries, keys and values of heads out of one product; queries and keys are turned by their position's angles.

    Args:
        qkv: of shape [batch, T, 3, heads, D], float32, bfloat16 or float16: the product of a layer, as it is; D is 16,
            32, 64 or 128.
        cosine: of shape [T, D / 2], float32; the pair (i, i + D / 2) is turned by one angle.
        sine: the same.
        normalize: whether each query and key is first divided by its root mean square (eps 1e-6).

    Returns:
        three of [batch, heads, T, D], in the format of qkv; in memory [batch, T, heads, D], as attention takes them.
        Sources: Su et al. 2021; Henry et al. 2020.
    """
    found = function_for(qkv, "rotary_heads", cosine=cosine, sine=sine)
    return found(qkv, cosine, sine, flag("rotary_heads", "normalize", normalize))


def _scale(name: str, scale: Any) -> Any:
    return None if scale is None else number(name, "scale", scale)
