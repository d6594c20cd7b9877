"""A product of matrices as a PyTorch operator, `rooflab::matmul`, with a gradient by the same kernel.

    C = A B          dA = dC B^T          dB = A^T dC

Either operand may be stored transposed, so that the gradient needs no copies.

>>> import torch
>>> matmul(torch.ones(2, 3), torch.full((3, 2), 2.0))
tensor([[6., 6.],
        [6., 6.]])
"""

from __future__ import annotations

from typing import Any

import torch

from ..demands import floats, refuse, together
from .torch_operands import autocast, padded_empty
from .torch_products import multiply

__all__ = ["matmul"]


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the product of matrices; see :func:`rooflab.kernels.matmul`."""
    a, b = autocast(a, b)
    if a.ndim < 2 or b.ndim != 2:
        refuse("matmul", f"expected a of two or more dimensions and b of two; found {a.ndim} and {b.ndim}.")
    if a.ndim == 2:
        return product(a, b)
    rows = a.reshape(a.shape[:-1].numel(), a.shape[-1])
    return product(rows, b).reshape(*a.shape[:-1], b.shape[-1])


@torch.library.custom_op("rooflab::matmul", mutates_args=())
def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the product of two matrices, contiguous.

    Args:
        a: of shape [M, K].
        b: of shape [K, N].
    """
    together("matmul", a=a, b=b)
    _check(a, b)
    (m, k), n = a.shape, b.shape[1]
    if not m * n * k:
        return a.new_zeros(m, n)
    c = padded_empty(m, n, a.dtype, a.device)
    multiply(c, a, b)
    return c.contiguous()


@product.register_fake
def _(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    _check(a, b)
    return a.new_empty(a.shape[0], b.shape[1])


def _save(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradient(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    a, b = ctx.saved_tensors
    wants_a, wants_b = ctx.needs_input_grad
    return product(grad, b.t()) if wants_a else None, product(a.t(), grad) if wants_b else None


product.register_autograd(_gradient, setup_context=_save)


def _check(a: torch.Tensor, b: torch.Tensor) -> None:
    floats("matmul", a=a, b=b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        refuse("matmul", f"expected matrices [M, K] and [K, N]; found {list(a.shape)} and {list(b.shape)}.")
    if a.dtype != b.dtype:
        refuse("matmul", f"expected two matrices of one format; found {a.dtype} and {b.dtype}: convert one.")
