"""Linear layer and cross-entropy as one PyTorch operator, `rooflab::linear_cross_entropy`, without all logits.

>>> import torch
>>> x, weight = torch.zeros(3, 4), torch.zeros(8, 4)
>>> linear_cross_entropy(x, weight, torch.tensor([1, 2, 3])).exp()
tensor(8.)
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..demands import floats, refuse, refuse_second_derivative, together
from ..launching import launch
from ..products.torch_operands import as_stored, autocast, padded_empty
from .chunks import chunk_tokens
from .torch_chunk import Chunk
from .triton_linear_cross_entropy import scale_kernel

__all__ = ["linear_cross_entropy", "loss_and_gradients", "scaled"]

_NAME = "linear_cross_entropy"


def linear_cross_entropy(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> torch.Tensor:
    """Return the cross-entropy of a linear layer; see :func:`rooflab.kernels.linear_cross_entropy`."""
    if reduction not in ("mean", "sum"):
        refuse(_NAME, f"expected reduction 'mean' or 'sum'; found {reduction!r}.")
    if x.ndim == 0 or x.shape[:-1] != target.shape:
        refuse(_NAME, f"expected a target for each row of x; found {list(target.shape)} for {list(x.shape)}.")
    x, weight = autocast(x, weight)
    wants = torch.is_grad_enabled()
    rows = x.reshape(target.numel(), x.shape[-1])
    total = loss_and_gradients(
        rows, weight, target.reshape(-1), ignore_index, wants and x.requires_grad, wants and weight.requires_grad
    )[0]
    if reduction == "sum":
        return total
    count = (target != ignore_index).sum()
    # Without a target that counts, the gradient of total / count would be infinite, and 0 times that NaN.
    return torch.where(count > 0, total / count.clamp(min=1), math.nan)


@torch.library.custom_op("rooflab::linear_cross_entropy", mutates_args=())
def loss_and_gradients(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, ignore_index: int, wants_dx: bool, wants_dw: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the sum of all tokens' losses and its gradients with regard to x and the weight, in fp32.

    They are computed together, while the logits are there; what is not wanted is empty. The gradients' rows are as
    long as those of x, or a little longer, filled up with zeros: a multiple of 16 bytes.

    Args:
        x: of shape [T, d].
        weight: of shape [V, d].
        target: of shape [T], of int64.
        ignore_index: the target of tokens that do not count.
        wants_dx: whether the gradient with regard to x is.
        wants_dw: the same, to the weight.
    """
    together(_NAME, x=x, weight=weight, target=target)
    _check(x, weight, target)
    (tokens, d), words = x.shape, weight.shape[0]
    dx, dw = _gradients(x, weight, wants_dx, wants_dw)
    if not tokens * d * words:
        # Without a term, each logit is zero.
        return _without_terms(weight, target, ignore_index), dx.zero_(), dw.zero_()
    losses = torch.empty(tokens, dtype=torch.float32, device=x.device)
    x, weight, target = _aligned(x), _aligned(weight), target.contiguous()
    size = min(tokens, chunk_tokens(words, d, x.itemsize))
    z = padded_empty(size, words, x.dtype, x.device)
    chunk = None
    for start in range(0, tokens, size):
        some = slice(start, min(tokens, start + size))
        if chunk is None or some.stop - start < size:
            chunk = None  # what it has room for is free again
            chunk = Chunk(z[: some.stop - start], x[some], weight, dx[some, :d], dw[:, :d], ignore_index)
        chunk(losses[some], x[some], target[some], dx[some, :d], add=start > 0)
    return losses.sum(), dx, dw


@torch.library.custom_op("rooflab::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return x times a number in memory, rounded once; in torch it takes a second tensor of x's size.

    Args:
        x: contiguous, in fp32.
        factor: of one element, in fp32.
        dtype: of the result.
    """
    y = torch.empty_like(x, dtype=dtype)
    block = 4096 if x.is_cuda else 256
    launch(scale_kernel, (-(-x.numel() // block),), y, x, factor, x.numel(), BLOCK=block, num_warps=8)
    return y


@scaled.register_fake
def _(x: torch.Tensor, factor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_like(x, dtype=dtype)


@loss_and_gradients.register_fake
def _(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, ignore_index: int, wants_dx: bool, wants_dw: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _check(x, weight, target)
    return x.new_empty((), dtype=torch.float32), *_gradients(x, weight, wants_dx, wants_dw)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> None:
    _, dx, dw = output
    ctx.mark_non_differentiable(dx, dw)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(dx, dw)
    ctx.dtypes, ctx.d = (inputs[0].dtype, inputs[1].dtype), inputs[0].shape[1]


def _backward(ctx: Any, grad: torch.Tensor | None, *_: Any) -> tuple[torch.Tensor | None, ...]:
    if torch.is_grad_enabled():  # what was saved knows nothing of x and the weight: it would pass for a constant
        refuse_second_derivative(_NAME)
    found: list[torch.Tensor | None] = [None] * 6
    for place, (saved, dtype) in enumerate(zip(ctx.saved_tensors, ctx.dtypes, strict=True)):
        if grad is not None and ctx.needs_input_grad[place]:
            found[place] = scaled(saved, grad.float(), dtype)[:, : ctx.d].contiguous()
    return tuple(found)


loss_and_gradients.register_autograd(_backward, setup_context=_save)


def _gradients(
    x: torch.Tensor, weight: torch.Tensor, wants_dx: bool, wants_dw: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tensors for the gradients, empty but for the filling at the end of their rows."""
    d = x.shape[1]
    make = x.new_zeros if d % 4 else x.new_empty
    dx, dw = (
        make((rows, -(-d // 4) * 4) if wanted else (0, 0), dtype=torch.float32)
        for rows, wanted in ((x.shape[0], wants_dx), (weight.shape[0], wants_dw))
    )
    return dx, dw


def _aligned(x: torch.Tensor) -> torch.Tensor:
    """A matrix that each of the products can read as it is."""
    stored, transposed = as_stored(x)
    return stored.t() if transposed else stored


def _without_terms(weight: torch.Tensor, target: torch.Tensor, ignore_index: int) -> torch.Tensor:
    words = weight.shape[0]
    each = torch.full_like(target, math.log(words) if words else math.nan, dtype=torch.float32)
    each[(target < 0) | (target >= words)] = math.nan
    each[target == ignore_index] = 0.0
    return each.sum()


def _check(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> None:
    floats(_NAME, x=x, weight=weight)
    if x.ndim != 2 or weight.ndim != 2 or x.shape[1] != weight.shape[1] or target.shape != x.shape[:1]:
        found = f"{list(x.shape)}, {list(weight.shape)} and {list(target.shape)}"
        refuse(_NAME, f"expected x [..., d], a weight [V, d] and a target [...]; found {found}.")
    if x.dtype != weight.dtype:
        refuse(_NAME, f"expected x and the weight in one format; found {x.dtype} and {weight.dtype}: convert one.")
    if target.dtype != torch.int64:
        refuse(_NAME, f"expected targets of int64; found {target.dtype}: convert them first.")
