"""Which products with a squared ReLU does the kernel for Hopper take, with which blocks, and how is it launched?

>>> blocks_of({"TOGETHER": 0, "STEP": 64}, gradient=True)
[(128, 128), (128, 64), (64, 128), (128, 128)]
>>> hopper_tilings(torch.empty(4096, 4096))
[]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..launching import launch
from .tiles import RELU
from .torch_operands import processors
from .torch_scaled_hopper import described_on_hopper, on_hopper

__all__ = ["blocks_of", "hopper_tilings", "run_on_hopper"]

_HEIGHT = 128


def hopper_tilings(c: torch.Tensor) -> list[Any]:
    """Return what the kernel can be launched with for a result; nothing where it cannot run.

    With fewer tiles of 128 x 128 than groups of warps, most groups would have none in their turn: then nothing either.
    """
    return list(RELU) if on_hopper(c.device) and _tiles(c, 128) >= 2 * processors(c.device)[0] else []


def blocks_of(choice: Mapping[str, Any], *, gradient: bool) -> list[tuple[int, int]]:
    """Return the blocks of c, x, w and a that the kernel asks for.

    Args:
        choice: one of `hopper_tilings`.
        gradient: whether w is [K, N].
    """
    rows, cols = (_HEIGHT // 2, 256) if choice["TOGETHER"] else (_HEIGHT, 128)
    step = choice["STEP"]
    return [(rows, cols), (rows, step), (step, cols) if gradient else (cols, step), (rows, cols)]


def run_on_hopper(
    c: torch.Tensor, x: torch.Tensor, w: torch.Tensor, a: torch.Tensor | None, choice: Mapping[str, Any]
) -> None:
    """Fill c with relu(x w^T)^2, or with 2 sqrt(a) (x w).

    Args:
        c: [M, N]; all matrices have rows at multiples of 16 bytes, and are in one format of 16 bits.
        x: [M, K].
        w: [N, K], or [K, N] with a.
        a: [M, N], or None.
        choice: one of `hopper_tilings`.
    """
    from .triton_squared_relu_hopper import squared_relu_hopper_kernel

    gradient = a is not None
    blocks = blocks_of(choice, gradient=gradient)
    matrices = [described_on_hopper(*each) for each in zip((c, x, w, c if a is None else a), blocks, strict=True)]
    programs = min(_tiles(c, blocks[0][1]), processors(c.device)[0])
    sizes = *c.shape, x.shape[1]
    launch(squared_relu_hopper_kernel, (programs,), *matrices, *sizes, GRADIENT=gradient, **choice)


def _tiles(c: torch.Tensor, cols: int) -> int:
    return -(-c.shape[0] // _HEIGHT) * -(-c.shape[1] // cols)
