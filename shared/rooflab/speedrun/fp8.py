"""How does a linear layer multiply in 8 bits, if finding a scale must cost nothing?

By bounds, not by searching, wherever a bound is known. Behind an RMS norm without a gain a row x of d numbers has
|x| <= sqrt(d). So |w x| is at most |w| sqrt(d), and the longest row of a weight bounds what comes out of its product: a
bound that only weights have to be read for. Nothing can be larger, hence nothing saturates. A bound is some bits above
the largest value; e4m3, with four bits of exponent, has them to spare: its relative error is the same over 15 powers of
two. Behind a layer norm, whose gains are learned, no bound is known: its largest number is searched for, in one more
pass over x.

Only products whose input is written anyway, and so is converted for one byte a number, are in fp8; gradients are
products in bf16, of operands that were never rounded to 8 bits. Results are summed in fp32; within a product the
matrix units add with some 14 bits.
Sources: Micikevicius et al. 2022 (the format); Cauchy and Schwarz (the bound).

>>> weight = torch.tensor([[3.0, 4.0], [0.0, 1.0]])
>>> longest(weight).item(), reach(weight, 2.0).item(), reach(weight, 2.0, power=2).item()
(5.0, 10.0, 100.0)
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

__all__ = ["codes_of", "fp8_linear", "fp8_mlp", "fp8_product", "longest", "reach", "weight_codes"]

Limit: TypeAlias = torch.Tensor | float | None

_FORMAT = torch.float8_e4m3fn
_MOST = 448.0  # the largest number of the format
_LEAST = 1e-12  # a weight of zeros has a scale, too


def longest(weight: torch.Tensor) -> torch.Tensor:
    """The length of the longest row of a weight [o, i], a number in fp32."""
    return torch.linalg.vector_norm(weight.detach().float(), dim=-1).amax()


def reach(weight: torch.Tensor, limit: torch.Tensor | float, power: int = 1) -> torch.Tensor:
    """What no number in x W^T exceeds, raised to a power, where the rows of x are no longer than `limit`."""
    return (longest(weight) * limit) ** power


def codes_of(x: torch.Tensor, bound: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of numbers whose size is at most `bound`, and the fp32 number by which they are to be multiplied.

    Numbers beyond the bound become the largest code of their sign; NaN stays.
    """
    scale = bound.float().clamp(min=_LEAST) / _MOST
    return (x.float() / scale).clamp(-_MOST, _MOST).to(_FORMAT), scale


def weight_codes(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of a weight, and their scale: none of its numbers is larger than its longest row."""
    return codes_of(weight, longest(weight))


def _bound(x: torch.Tensor, limit: Limit) -> torch.Tensor:
    if limit is None:
        return x.detach().abs().amax()
    return limit if isinstance(limit, torch.Tensor) else x.new_full((), limit, dtype=torch.float32)


def _product(x: torch.Tensor, bound: torch.Tensor, w8: torch.Tensor, w_scale: torch.Tensor) -> torch.Tensor:
    """x W^T in bf16; the matrix units want both operands' numbers side by side along the sum, as they are."""
    x8, x_scale = codes_of(x, bound)
    return torch._scaled_mm(x8, w8.t(), x_scale, w_scale, out_dtype=torch.bfloat16, use_fast_accum=True)


class _Fp8Linear(torch.autograd.Function):
    """y = x W^T; x [n, i], W [o, i], y [n, o]."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, bound, *weight_codes(weight))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (dy,), (x, weight) = grads, ctx.saved_tensors
        return dy @ weight.to(dy.dtype), (dy.t() @ x).float(), None


def fp8_linear(x: torch.Tensor, weight: torch.Tensor, limit: Limit = None) -> torch.Tensor:
    """x times the transposed weight, [..., i] -> [..., o] in bf16; its gradients are products in bf16.

    Args:
        x: of shape [..., i] in bf16.
        weight: of shape [o, i] in fp32; i and o are multiples of 16.
        limit: which no number in x exceeds (default: it is looked for, in another pass over x).
    """
    rows = x.reshape(-1, x.shape[-1])
    return _Fp8Linear.apply(rows, weight, _bound(x, limit)).view(*x.shape[:-1], weight.shape[0])


def fp8_product(x: torch.Tensor, codes: tuple[torch.Tensor, torch.Tensor], limit: Limit = None) -> torch.Tensor:
    """x W^T for x [n, i] and the codes of a weight [o, i], without a gradient; the product of a chunk of many."""
    return _product(x, _bound(x, limit), *codes)


class _Fp8Mlp(torch.autograd.Function):
    """y = relu(x U^T)^2 V^T; x [n, d], U [4 d, d], V [d, 4 d]; the square is part of the first product's kernel."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, up: torch.Tensor, down: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
        from ..kernels.products.torch_squared_relu import product_in_codes

        (x8, x_scale), (u8, u_scale) = codes_of(x, limit), weight_codes(up)
        v8, v_scale = weight_codes(down)
        a_scale = reach(up, limit, 2).clamp(min=_LEAST) / _MOST
        a, a8 = product_in_codes(x8, u8, x_scale, u_scale, a_scale)
        ctx.save_for_backward(x, up, down, a)
        return torch._scaled_mm(a8, v8.t(), a_scale, v_scale, out_dtype=torch.bfloat16, use_fast_accum=True)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        from ..kernels.products.torch_squared_relu import gradient

        (dy,), (x, up, down, a) = grads, ctx.saved_tensors
        dh = gradient(dy, down.to(dy.dtype), a)
        return dh @ up.to(dy.dtype), (dh.t() @ x).float(), (dy.t() @ a).float(), None


def fp8_mlp(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor, limit: Limit = None) -> torch.Tensor:
    """relu(x up^T)^2 down^T with products in fp8 and their gradients in bf16, by Rooflab's kernels.

    Args:
        x: of shape [..., d] in bf16.
        up, down: of shape [n, d] and [d, n] in fp32; multiples of 16.
        limit: which no row of x is longer than (default: the longest is looked for, in another pass over x).
    """
    rows = x.reshape(-1, x.shape[-1])
    bound = longest(rows) if limit is None else _bound(x, limit)
    return _Fp8Mlp.apply(rows, up, down, bound).view(*x.shape[:-1], down.shape[0])
