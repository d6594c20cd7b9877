"""How does a linear layer multiply in 8 bits? Each tensor is scaled to the format's range, and the product scaled back.

Values and weights are in e4m3 (3 bits of mantissa, up to 448), gradients in e5m2 (2 bits, up to 57,344), as
Micikevicius et al. 2022 propose. Scales are found anew for each tensor; sums are in fp32.

>>> codes, scale = quantize(torch.tensor([1.0, -2.0]), torch.float8_e4m3fn)
>>> (codes.float() * scale).tolist()
[1.0, -2.0]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["fp8_linear", "fp8_product", "quantize"]


def quantize(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of x in an 8-bit format, and the fp32 number by which they are to be multiplied."""
    largest = torch.finfo(dtype).max
    scale = x.abs().amax().float().clamp(min=1e-12) / largest
    return (x.float() / scale).clamp(-largest, largest).to(dtype), scale


def _product(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> torch.Tensor:
    """a b of codes, in bf16; the matrix units want the rows of a and the columns of b side by side in memory."""
    columns = b if b.stride(0) == 1 else b.t().contiguous().t()
    return torch._scaled_mm(a.contiguous(), columns, scale_a, scale_b, out_dtype=torch.bfloat16, use_fast_accum=True)


class _Fp8Linear(torch.autograd.Function):
    """y = x W^T; x [n, i], W [o, i], y [n, o]."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x8, x_scale = quantize(x, torch.float8_e4m3fn)
        w8, w_scale = quantize(weight, torch.float8_e4m3fn)
        ctx.save_for_backward(x8, x_scale, w8, w_scale)
        return _product(x8, w8.t(), x_scale, w_scale)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x8, x_scale, w8, w_scale = ctx.saved_tensors
        g8, g_scale = quantize(grads[0], torch.float8_e5m2)
        dx = _product(g8, w8, g_scale, w_scale)  # [n, o] x [o, i]
        dw = _product(g8.t(), x8, g_scale, x_scale)  # [o, n] x [n, i]
        return dx, dw.float()


def fp8_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x times the transposed weight, [..., i] -> [..., o] in bf16, with all three products of training in fp8.

    Args:
        x: of shape [..., i] in bf16.
        weight: of shape [o, i] in fp32; i, o and the rows of x are multiples of 16.
    """
    rows = x.reshape(-1, x.shape[-1])
    return _Fp8Linear.apply(rows, weight).view(*x.shape[:-1], weight.shape[0])


def fp8_product(weight: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function of x [n, i] that returns x W^T in bf16; the weight [o, i] is put into 8 bits once."""
    w8, w_scale = quantize(weight, torch.float8_e4m3fn)

    def product(x: torch.Tensor) -> torch.Tensor:
        x8, x_scale = quantize(x, torch.float8_e4m3fn)
        return _product(x8, w8.t(), x_scale, w_scale)

    return product
