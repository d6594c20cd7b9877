"""Products that a language model makes, beside those of any two matrices, as functions of tensors.

>>> import torch
>>> matvec(torch.ones(64).bfloat16(), torch.full((2, 64), 3, dtype=torch.int8), torch.tensor([1.0, 0.5]))
tensor([192.,  96.], dtype=torch.bfloat16)
"""

from __future__ import annotations

from typing import Any

from ..api import function_for

__all__ = ["matvec", "squared_relu_mlp"]


def matvec(x: Any, w: Any, scale: Any = None, zero: Any = None) -> Any:
    """Product of one row, or a few, and a matrix of weights that may be in 8 or 4 bits: x W^T, with sums in fp32.

    Args:
        x: of shape [..., K], at most 8 rows, bfloat16 or float16.
        w: weights of shape [N, K], in the format of x, in int8 or in float8_e4m3fn; or in 4 bits, [N, K / 2] in uint8,
            the first of two in the low half (see :func:`rooflab.kernels.quantize_weights`). They have no gradient.
        scale: of weights in 8 bits, [N], of int8 or [N, K / 128]; of 4 bits [N, K / group]. A group has 32, 64 or 128
            weights. float32, bfloat16 or float16.
        zero: zero points of 4 bits, whole numbers of the shape of scale (default: 8).

    Returns:
        of shape [..., N], in the format of x; its gradient is with regard to x alone. NaN and infinity go where they go
        in torch, but that with zero points an infinite x may give NaN in place of infinity.
    """
    return function_for(x, "matvec", w=w, scale=scale, zero=zero)(x, w, scale, zero)


def squared_relu_mlp(x: Any, up: Any, down: Any) -> Any:
    """An MLP with squared ReLU, relu(x up^T)^2 down^T, whose pre-activation is never in memory.

    Args:
        x: of shape [..., K], float32, bfloat16 or float16.
        up: weights of shape [N, K], in the format of x.
        down: weights of shape [d, N].

    Returns:
        of shape [..., d], in the format of x. The gradient takes relu(x up^T) to be the root of its square: in float16,
        where squares below 6e-8 are zero, numbers below 2e-4 have no gradient. Source: So et al. 2021 (the activation).
    """
    return function_for(x, "squared_relu_mlp", up=up, down=down)(x, up, down)
