"""Losses and gradient of logits as one PyTorch operator, `rooflab::cross_entropy_with_gradient`.

>>> import torch
>>> losses, dz = cross_entropy_with_gradient(torch.zeros(1, 4), torch.tensor([1]))
>>> losses.exp(), dz
(tensor([4.]), tensor([[ 0.2500, -0.7500,  0.2500,  0.2500]]))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..demands import floats, never, refuse, together
from ..launching import launch
from ..tuning import choose
from .chunks import row_blocks
from .triton_cross_entropy import cross_entropy_kernel

__all__ = ["cross_entropy_with_gradient", "losses_and_gradient"]

_NAME = "cross_entropy_with_gradient"
_LARGEST_CAP = 60.0  # e^60 times the largest vocabulary is a number in fp32


def cross_entropy_with_gradient(
    z: torch.Tensor, target: torch.Tensor, softcap: float = 0.0, ignore_index: int = -100
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return losses and gradient of logits; see :func:`rooflab.kernels.cross_entropy_with_gradient`."""
    return losses_and_gradient(z, target, float(softcap), ignore_index, True)


@torch.library.custom_op("rooflab::cross_entropy_with_gradient", mutates_args=())
def losses_and_gradient(
    z: torch.Tensor, target: torch.Tensor, softcap: float, ignore_index: int, gradient: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss of each row, [N] in fp32, and the gradient of their sum, [N, V] in z's format, or [0, V].

    Args:
        z: [N, V], the logits.
        target: [N] in int64.
        softcap: c, where logits become c tanh(z / c); 0: as they are.
        ignore_index: the target of rows whose loss is 0.
        gradient: whether it is wanted.
    """
    _check(z, target, softcap)
    together(_NAME, z=z, target=target)
    z = z if z.stride(-1) == 1 or not z.numel() else z.contiguous()
    losses, dz = _results(z, gradient)
    if not z.numel():
        return losses.fill_(float("nan")).masked_fill_(target == ignore_index, 0.0), dz  # of no words none is right
    capped = softcap > 0
    nvidia = z.is_cuda and torch.version.hip is None
    instruction = capped and z.dtype == torch.bfloat16 and nvidia
    each = 1 if z.stride(0) % 16 or z.data_ptr() % 16 else 16 // z.itemsize  # where Triton loads 16 bytes at a time

    def run(choice: Mapping[str, Any]) -> None:
        launch(
            cross_entropy_kernel, (len(z),), losses, dz, z, target.contiguous(), z.shape[1], z.stride(0), dz.stride(0),
            softcap or 1.0, ignore_index, CAPPED=capped, INSTRUCTION=instruction, GRADIENT=gradient, EACH=each,
            **choice,
        )  # fmt: skip

    found = row_blocks(z.shape[1], z.device.type, 32 if nvidia else 64)
    run(choose("cross_entropy", (z.shape[1],), found, run, z.device))
    return losses, dz


@losses_and_gradient.register_fake
def _(
    z: torch.Tensor, target: torch.Tensor, softcap: float, ignore_index: int, gradient: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    _check(z, target, softcap)
    return _results(z, gradient)


never(_NAME, losses_and_gradient, "its second result is that of the sum of the losses")


def _results(z: torch.Tensor, gradient: bool) -> tuple[torch.Tensor, torch.Tensor]:
    rows, words = z.shape
    return z.new_empty(rows, dtype=torch.float32), z.new_empty(rows if gradient else 0, words)


def _check(z: torch.Tensor, target: torch.Tensor, softcap: float) -> None:
    floats(_NAME, z=z)
    if z.ndim != 2 or target.shape != z.shape[:1]:
        refuse(_NAME, f"expected logits [N, V] and targets [N]; found {list(z.shape)} and {list(target.shape)}.")
    if target.dtype != torch.int64:
        refuse(_NAME, f"expected targets of int64; found {target.dtype}: convert them first.")
    if not 0 <= softcap <= _LARGEST_CAP:
        refuse(_NAME, f"expected a softcap from 0 (none) to {_LARGEST_CAP:g}; found {softcap:g}.")
