"""How does each token look back at the others? Three forms of causal attention, and one of a window.

Legend: B sequences, T tokens, H heads, D width of a head; q, k and v are [B, H, T, D].

>>> q = torch.ones(1, 1, 3, 2)
>>> attend(q, q, torch.arange(6.0).view(1, 1, 3, 2), "fused")[0, 0, 1].tolist()
[1.0, 2.0]
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

__all__ = ["attend", "rotary_table", "rotate", "window_mask"]


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, form: str, mask: Any = None) -> torch.Tensor:
    """Each token's mean of the values it may see, weighted by softmax(q k^T / sqrt(D)).

    Args:
        q, k, v: of shape [B, H, T, D].
        form: one of `config.CHOICES["attention"]`.
        mask: of a window, see `window_mask`; None: each token sees itself and all before it.
    """
    if form == "plain":
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # [B, H, T, T]
        past = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).tril()
        return scores.masked_fill(~past, -math.inf).softmax(dim=-1) @ v
    if form == "kernel":
        from ..kernels import attention

        return attention(q, k, v, causal=True)
    if mask is None:
        return _fused(q, k, v)
    if isinstance(mask, torch.Tensor):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    from torch.nn.attention.flex_attention import flex_attention

    # Without a compiler around it flex_attention would write all scores to memory.
    flex = flex_attention if torch.compiler.is_compiling() else torch.compile(flex_attention, dynamic=False)
    return flex(q, k, v, block_mask=mask)


def _fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """torch's own fused attention; on a GPU of NVIDIA's that of cuDNN first, the faster one on Hopper."""
    if not q.is_cuda or q.dtype == torch.float32:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    from torch.nn.attention import SDPBackend, sdpa_kernel

    order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with sdpa_kernel(order, set_priority=True):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def window_mask(length: int, window: int, device: torch.device) -> Any:
    """Which keys j query i may see: j <= i and i - j < window; None where that is all of the past.

    Returns:
        on a GPU a mask for flex_attention, whose blocks of 128 x 128 scores that nobody may see are never computed;
        elsewhere a tensor [T, T] of booleans.
    """
    if window >= length:
        return None

    def seen(_: Any, __: Any, query: Any, key: Any) -> Any:
        return (query >= key) & (query - key < window)

    if device.type == "cuda":
        from torch.nn.attention.flex_attention import create_block_mask

        return create_block_mask(seen, None, None, length, length, device=str(device))
    places = torch.arange(length, device=device)
    return seen(None, None, places[:, None], places[None, :])


def rotary_table(length: int, width: int, base: float = 10_000.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of each position's angles, [T, D / 2] each. Source: Su et al. 2021."""
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)  # [D / 2]
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies
    return angles.cos().float(), angles.sin().float()


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Turn each pair (x_i, x_{i + D/2}) of [B, H, T, D] by its position's angle; computed in fp32."""
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    return turned.to(x.dtype)
