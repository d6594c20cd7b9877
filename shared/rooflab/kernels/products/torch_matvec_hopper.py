"""Which calls of `matvec` does the kernel for weights in 4 bits on Hopper take, with which blocks, and how?

>>> hopper_blocks(groups=64, group=128)[0]
{'R': 32, 'D': 1, 'BUFFERS': 2, 'ABREAST': 1, 'SPREAD': 0, 'PER_SM': 4, 'num_warps': 4}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..launching import launch

__all__ = ["hopper_blocks", "on_hopper", "run_on_hopper", "step_of", "whole_words"]

_WORD = 4  # bytes
# Of groups of 128, 64 and 32: rows of W, successive groups of a warp, buffers, warps that have other rows and the same
# K, whether a thread loads 16 bytes in one go where a group of 32 gives it 4, programs a multiprocessor that a call
# should have, and warps in all.
_BLOCKS = {
    128: (
        (32, 1, 2, 1, 0, 4, 4), (16, 1, 4, 1, 0, 5, 4), (32, 1, 3, 1, 0, 3, 4), (16, 2, 2, 1, 0, 4, 4),
        (32, 1, 2, 1, 0, 2, 8), (16, 1, 3, 1, 0, 5, 4), (16, 1, 4, 1, 0, 2, 8), (16, 2, 3, 1, 0, 3, 4),
        (32, 2, 2, 1, 0, 3, 4), (32, 1, 2, 1, 0, 8, 2), (16, 1, 3, 1, 0, 10, 2), (64, 1, 2, 2, 0, 4, 4),
        (64, 1, 2, 2, 0, 2, 8), (32, 1, 3, 2, 0, 5, 4), (32, 1, 4, 2, 0, 2, 8), (16, 1, 2, 1, 0, 2, 8),
        (64, 1, 2, 1, 0, 4, 2), (64, 1, 2, 1, 0, 3, 4),
    ),
    64: (
        (32, 2, 2, 1, 0, 3, 4), (16, 2, 4, 1, 0, 4, 4), (16, 2, 2, 1, 0, 5, 4), (16, 2, 3, 1, 0, 4, 4),
        (32, 2, 2, 1, 0, 6, 2), (16, 4, 2, 1, 0, 3, 4), (16, 1, 4, 1, 0, 5, 4), (16, 1, 2, 1, 0, 5, 4),
    ),
    32: (
        (16, 4, 2, 1, 1, 3, 4), (16, 4, 2, 1, 0, 3, 4), (32, 4, 2, 1, 1, 2, 4), (16, 4, 3, 1, 1, 3, 4),
        (16, 4, 2, 1, 1, 12, 1), (16, 8, 2, 1, 1, 2, 4), (16, 2, 2, 1, 0, 5, 4), (16, 1, 4, 1, 0, 5, 4),
        (32, 4, 2, 1, 1, 5, 2), (32, 2, 2, 1, 0, 3, 4),
    ),
}  # fmt: skip


def on_hopper(x: torch.Tensor, w: torch.Tensor) -> bool:
    """Whether the kernel takes weights in 4 bits as they lie in memory: on such a chip or a later one, as whole words.

    Args:
        x: on the device in question.
        w: codes [N, K / 2] in uint8.
    """
    if x.device.type != "cuda" or torch.version.hip or torch.cuda.get_device_capability(x.device)[0] < 9:
        return False
    try:
        from . import triton_matvec_hopper  # noqa: F401 - only to see whether this Triton has Gluon
    except ImportError:
        return False
    return whole_words(w)


def whole_words(w: torch.Tensor) -> bool:
    """Whether rows of codes begin and end with words of 32 bits.

    >>> whole_words(torch.zeros(2, 64, dtype=torch.uint8)), whole_words(torch.zeros(2, 66, dtype=torch.uint8)[:, :64])
    (True, False)
    """
    return w.stride(1) == 1 and w.stride(0) % _WORD == w.shape[1] % _WORD == w.data_ptr() % _WORD == 0


def hopper_blocks(groups: int, group: int) -> list[dict[str, int]]:
    """Return what the kernel can be launched with, the most likely choice first.

    Args:
        groups: in a row of W.
        group: weights in each: 128, 64 or 32.
    """
    names = ("R", "D", "BUFFERS", "ABREAST", "SPREAD", "PER_SM", "num_warps")
    return [dict(zip(names, each, strict=True)) for each in _BLOCKS[group] if groups % each[1] == 0]


def step_of(choice: Mapping[str, int], group: int) -> int:
    """Return how many k a program takes in a step.

    >>> step_of(hopper_blocks(64, 128)[0], 128)  # four warps with a group each
    512
    """
    return choice["num_warps"] // choice["ABREAST"] * choice["D"] * group


def run_on_hopper(
    y: torch.Tensor, x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None, group: int,
    choice: Mapping[str, Any], steps: int,
) -> None:  # fmt: skip
    """Launch the kernel.

    Args:
        y: of shape [splits, rows, N], or [rows, N] for one range of K.
        x: of shape [rows, K].
        w: codes [N, K / 2] in uint8, in whole words.
        scale: of shape [N, K / group].
        zero: of the shape and the strides of scale, or None.
        group: of weights that share a scale.
        choice: one of `hopper_blocks`.
        steps: of a range of K, each of `step_of` k.
    """
    from .triton_matvec_hopper import matvec_hopper_kernel

    n, words = w.shape[0], w.view(torch.int32)
    parts = y.shape[0] if y.ndim == 3 else 1
    options = {name: value for name, value in choice.items() if name != "PER_SM"}
    launch(
        matvec_hopper_kernel, (-(-n // choice["R"]), parts), y, x, words, scale, zero, n, x.shape[1], words.stride(0),
        x.stride(0), *scale.stride(), x.shape[0], steps, GROUP=group, ZERO=zero is not None, **options,
    )  # fmt: skip
