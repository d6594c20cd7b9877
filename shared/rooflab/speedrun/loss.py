"""What is the loss of the last layer? Its softmax over all words, with the logits of a chunk of tokens at a time.

Legend: N tokens, d width, V rows of the token table, z logits.

>>> x, head = torch.zeros(2, 4), torch.zeros(3, 4)
>>> loss = chunked_loss(x, head, torch.tensor([0, 2]), (0.0, None, False, False), lambda part, *given: part(*given))
>>> round(float(loss), 4)  # ln 3: all words are as likely
1.0986
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor

from .config import LOSS_CHUNK
from .fp8 import fp8_product, weight_codes

__all__ = ["capped", "chunked_loss"]

# A soft cap (0: none), what no number in x exceeds (None: not known), whether in fp8, whether by Rooflab's kernel.
Form: TypeAlias = tuple[float, Any, bool, bool]


def capped(z: Tensor, cap: float) -> Tensor:
    """Logits pressed into -cap to cap, c tanh(z / c) in fp32; as they are where the cap is 0."""
    return cap * torch.tanh(z.float() / cap) if cap else z


def losses_of(z: Tensor, target: Tensor, cap: float, train: bool, kernel: bool) -> tuple[Tensor, Tensor]:
    """The losses of logits [chunk, V], and the gradient of their sum (without `train` it is left out)."""
    if kernel:
        from ..kernels.loss.torch_cross_entropy import losses_and_gradient

        return losses_and_gradient(z, target, cap, -100, train)
    u = capped(z, cap).float()
    log_sum = u.logsumexp(dim=-1, keepdim=True)
    losses = log_sum - u.gather(1, target[:, None])
    if not train:
        return losses, z
    words = torch.arange(u.shape[1], device=u.device)
    dz = (u - log_sum).exp() - (words == target[:, None]).float()
    if cap:  # d/dz of c tanh(z / c) is 1 - tanh^2
        dz = dz * (1 - (u / cap).square())
    return losses, dz.to(z.dtype)


def of_chunk(rows: Tensor, target: Tensor, weight: Tensor, codes: Any, dw: Any, form: Form) -> Any:
    """The sum of a chunk's losses, the gradient of its rows, and `dw`, the weight's, with what the chunk adds to it."""
    cap, limit, _, kernel = form
    z = rows @ weight.t() if codes is None else fp8_product(rows, codes, limit)
    losses, dz = losses_of(z, target, cap, dw is not None, kernel)
    return (losses.sum(), None, None) if dw is None else (losses.sum(), dz @ weight, dw + (dz.t() @ rows).float())


class _ChunkedLoss(torch.autograd.Function):
    """Last layer, cap and cross-entropy; both gradients are made while a chunk's logits are there."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, head: Tensor, targets: Tensor, form: Form, run: Any, train: bool) -> Tensor:
        weight, codes, total, parts = head.to(x.dtype), run(weight_codes, head) if form[2] else None, 0.0, []
        dw = torch.zeros_like(head, dtype=torch.float32) if train else None
        # A chunk after the other, compiled or not: a compiler that sees all of them keeps each one's part of dw.
        for rows, target in zip(x.split(LOSS_CHUNK), targets.split(LOSS_CHUNK), strict=True):
            loss, dx, dw = run(of_chunk, rows, target, weight, codes, dw, form)
            total = total + loss
            parts.append(dx)
        ctx.tokens = targets.numel()
        if train:
            ctx.save_for_backward(torch.cat(parts), dw)
        return total / ctx.tokens

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dx, dw), part = ctx.saved_tensors, grads[0] / ctx.tokens
        return (dx * part).to(dx.dtype), dw * part, None, None, None, None


def chunked_loss(x: Tensor, head: Tensor, targets: Tensor, form: Form, run: Any) -> Tensor:
    """The loss of x [N, d] under the last layer [V, d], with at most 8,192 tokens' logits in memory.

    In fp8 the logits are made in 8 bits; the gradients, whose errors the chunks would add up, in the format of x. By
    Rooflab's kernel the softmax is one, not what a compiler makes of its formula. `run` calls a function, as it is or
    compiled.

    Sources: Hsu et al. 2024 (Liger), Wijmans et al. 2024.
    """
    return _ChunkedLoss.apply(x, head, targets, form, run, torch.is_grad_enabled())
