"""Which products with a squared ReLU does the kernel for Hopper take, and how is it launched?

>>> import torch
>>> turns(torch.empty(4096, 4096))
[]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..launching import launch
from .tiles import TURNS
from .torch_operands import processors
from .torch_scaled_hopper import described_on_hopper, on_hopper

__all__ = ["run_in_turns", "turns"]

_TILE, _STEP = 128, 64


def turns(c: torch.Tensor) -> list[Any]:
    """Return what the kernel can be launched with for a result; nothing where it cannot run.

    Where there are fewer tiles than groups of warps, which have them in turn, most groups would have none: then nothing
    either.
    """
    return list(TURNS) if on_hopper(c.device) and _tiles(c) >= 2 * processors(c.device)[0] else []


def run_in_turns(
    c: torch.Tensor, x: torch.Tensor, w: torch.Tensor, a: torch.Tensor | None, choice: Mapping[str, Any]
) -> None:
    """Fill c with relu(x w^T)^2, or with 2 sqrt(a) (x w).

    Args:
        c: [M, N]; all matrices have rows at multiples of 16 bytes, and are in one format of 16 bits.
        x: [M, K].
        w: [N, K], or [K, N] with a.
        a: [M, N], or None.
        choice: one of `turns`.
    """
    from .triton_squared_relu_hopper import squared_relu_hopper_kernel

    tile, back = (_TILE, _TILE), a is not None
    blocks = (
        (c, tile),
        (x, (_TILE, _STEP)),
        (w, (_STEP, _TILE) if back else (_TILE, _STEP)),
        (c if a is None else a, tile),
    )
    matrices = [described_on_hopper(*each) for each in blocks]
    programs = min(_tiles(c), processors(c.device)[0])
    launch(
        squared_relu_hopper_kernel, (programs,), *matrices, *c.shape, x.shape[1], GRADIENT=back, **choice
    )  # fmt: skip


def _tiles(c: torch.Tensor) -> int:
    return -(-c.shape[0] // _TILE) * -(-c.shape[1] // _TILE)
