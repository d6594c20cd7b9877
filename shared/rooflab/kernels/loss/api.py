"""Losses as functions of PyTorch's tensors.

>>> import torch
>>> linear_cross_entropy(torch.zeros(1, 8), torch.zeros(4, 8), torch.tensor([2])).exp()
tensor(4.)
"""

from __future__ import annotations

from typing import Any

from ..api import function_for
from ..demands import number, whole

__all__ = ["cross_entropy_with_gradient", "linear_cross_entropy"]


def linear_cross_entropy(x: Any, weight: Any, target: Any, ignore_index: int = -100, reduction: str = "mean") -> Any:
    """Cross-entropy of a linear layer's logits, x times the weight transposed, never all in memory.

    Args:
        x: of shape [..., d], float32, bfloat16 or float16.
        weight: of shape [V, d], the same format.
        target: of shape [...], int64: words below V. Any other one makes the loss NaN.
        ignore_index: a target that does not count.
        reduction: "mean" over the targets that count (NaN if none does, as in torch), or "sum".

    Returns:
        a float32 number. Logits are rounded to the format of x, as a linear layer's are; all else is in fp32.
    """
    found = function_for(x, "linear_cross_entropy", weight=weight, target=target)
    return found(x, weight, target, whole("linear_cross_entropy", "ignore_index", ignore_index), reduction)


def cross_entropy_with_gradient(z: Any, target: Any, softcap: float = 0.0, ignore_index: int = -100) -> tuple[Any, Any]:
    """Cross-entropy of logits and its gradient, made while the logits are read; for a last layer in chunks of tokens.

    Args:
        z: of shape [N, V], float32, bfloat16 or float16.
        target: of shape [N], int64: words below V. Any other one makes the loss NaN.
        softcap: c, up to 60: the loss is that of c tanh(z / c); 0: of z.
        ignore_index: a target that does not count.

    Returns:
        the loss of each row, [N] in float32, and the gradient of their sum with regard to z, in the format of z.
        Neither has a gradient of its own.
    """
    name = "cross_entropy_with_gradient"
    found = function_for(z, name, target=target)
    return found(z, target, number(name, "softcap", softcap), whole(name, "ignore_index", ignore_index))
