"""Heads out of one product as an operator of PyTorch, `rooflab::rotary_heads`, with its gradient.

>>> import torch
>>> qkv = torch.ones(1, 1, 3, 1, 16)
>>> q, k, v = rotary_heads(qkv, torch.zeros(1, 8), torch.ones(1, 8))     # turned by a right angle
>>> q.flatten()[[0, 8]], v.unique()
(tensor([-1.,  1.]), tensor([1.]))
"""

from __future__ import annotations

from typing import Any

import torch

from ..demands import floats, once, refuse, together
from ..launching import launch
from ..tuning import choose
from .blocks import head_rows
from .triton_heads import heads_backward_kernel, heads_kernel

__all__ = ["heads_backward", "heads_of", "rotary_heads"]

_NAME = "rotary_heads"
_WIDTHS = (16, 32, 64, 128)
Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def rotary_heads(qkv: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, normalize: bool = False) -> Three:
    """Return queries, keys and values [B, H, T, D]; see :func:`rooflab.kernels.rotary_heads`."""
    if torch.is_grad_enabled() and (cosine.requires_grad or sine.requires_grad):
        refuse(_NAME, "it has no gradient with regard to angles: give it cosine.detach() and sine.detach().")
    q, k, v = heads_of(qkv, cosine, sine, normalize)
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


@torch.library.custom_op("rooflab::rotary_heads", mutates_args=())
def heads_of(qkv: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, normalize: bool) -> Three:
    """Return queries, keys and values, contiguous, [B, T, H, D] each."""
    _check(qkv, cosine, sine)
    together(_NAME, qkv=qkv, cosine=cosine, sine=sine)
    found = _three(qkv)
    _launch("heads", heads_kernel, found, qkv.contiguous(), cosine, sine, normalize)
    return found


@torch.library.custom_op("rooflab::rotary_heads_backward", mutates_args=())
def heads_backward(
    dq: torch.Tensor, dk: torch.Tensor, dv: torch.Tensor, qkv: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor,
    normalize: bool,
) -> torch.Tensor:  # fmt: skip
    """Return the gradient with regard to qkv; that of q, k and v is [B, T, H, D] each."""
    dqkv = torch.empty(qkv.shape, dtype=qkv.dtype, device=qkv.device)
    given = tuple(each.contiguous() for each in (dq, dk, dv))
    _launch("heads_backward", heads_backward_kernel, (dqkv, *given), qkv.contiguous(), cosine, sine, normalize)
    return dqkv


@heads_of.register_fake
def _(qkv: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, normalize: bool) -> Three:
    _check(qkv, cosine, sine)
    return _three(qkv)


@heads_backward.register_fake
def _(
    dq: torch.Tensor, dk: torch.Tensor, dv: torch.Tensor, qkv: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor,
    normalize: bool,
) -> torch.Tensor:  # fmt: skip
    return qkv.new_empty(qkv.shape)


def _launch(
    name: str, kernel: Any, out: tuple[torch.Tensor, ...], qkv: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor,
    normalize: bool,
) -> None:  # fmt: skip
    batch, length, _, heads, width = qkv.shape
    rows = batch * length * heads
    if not rows:
        return

    def run(choice: Any) -> None:
        grid = (-(-rows // choice["ROWS"]), 3)
        launch(
            kernel, grid, *out, qkv, cosine.contiguous(), sine.contiguous(), rows, heads, length, HALF=width // 2,
            NORMALIZE=normalize, **choice,
        )  # fmt: skip

    run(choose(name, (width,), head_rows(qkv.device.type), run, qkv.device))


def _three(qkv: torch.Tensor) -> Three:
    batch, length, _, heads, width = qkv.shape
    q, k, v = (qkv.new_empty(batch, length, heads, width) for _ in range(3))
    return q, k, v


def _check(qkv: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> None:
    floats(_NAME, qkv=qkv)
    if qkv.ndim != 5 or qkv.shape[2] != 3 or qkv.shape[4] not in _WIDTHS:
        refuse(_NAME, f"expected qkv [batch, T, 3, heads, D], D one of {_WIDTHS}; found {list(qkv.shape)}.")
    wanted = (qkv.shape[1], qkv.shape[4] // 2)
    for name, each in (("cosine", cosine), ("sine", sine)):
        if tuple(each.shape) != wanted or each.dtype != torch.float32:
            refuse(_NAME, f"expected {name} {list(wanted)} in float32; found {list(each.shape)} in {each.dtype}.")


def _save(ctx: Any, inputs: tuple[Any, ...], output: Three) -> None:
    qkv, cosine, sine, ctx.normalize = inputs
    ctx.save_for_backward(qkv, cosine, sine)


def _backward(ctx: Any, dq: torch.Tensor, dk: torch.Tensor, dv: torch.Tensor) -> tuple[Any, None, None, None]:
    return heads_backward(dq, dk, dv, *ctx.saved_tensors, ctx.normalize), None, None, None


heads_of.register_autograd(_backward, setup_context=_save)
once(_NAME, heads_backward)
