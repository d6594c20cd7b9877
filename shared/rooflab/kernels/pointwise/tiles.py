"""How are elements shared out among programs: a piece of one row to each, so that rows need not lie side by side.

>>> import torch
>>> x = torch.zeros(6, 8)
>>> [tuple(each.shape) for each in as_tiles("gelu", x, x)]        # side by side: one long row
[(1, 48), (1, 48)]
>>> [tuple(each.shape) for each in as_tiles("swiglu", *x.chunk(2, -1))]
[(6, 4), (6, 4)]
"""

from __future__ import annotations

from typing import Any

from rooflab.kernels.demands import as_rows, refuse

__all__ = ["as_tiles", "tile_blocks", "tile_grid"]

_NO_LIMIT = 2**62  # a row may be as long as memory


def as_tiles(kernel: str, *tensors: Any) -> list[Any]:
    """Return tensors of one shape as matrices whose rows have their elements side by side; as one row if all can be.

    Raises:
        ValueError: their shapes differ.
    """
    if len({tuple(each.shape) for each in tensors}) > 1:
        refuse(kernel, f"expected tensors of one shape; found {', '.join(str(tuple(each.shape)) for each in tensors)}.")
    if all(each.is_contiguous() for each in tensors):
        return [each.reshape(1, -1) for each in tensors]
    return [as_rows(kernel, each, longest=_NO_LIMIT) for each in tensors]


def tile_grid(tiles: Any, block: int) -> tuple[int]:
    """Return the number of programs: so many for each row that its elements are taken `block` at a time."""
    rows, cols = tiles.shape
    return (rows * -(-cols // block),)


def tile_blocks() -> list[dict[str, Any]]:
    """Return the choices, the most likely one first: 16 elements of 16 bits a thread are two loads of 16 bytes."""
    return [
        {"BLOCK": block, "num_warps": warps}
        for block, warps in ((4096, 8), (2048, 4), (1024, 4), (2048, 8), (1024, 2), (4096, 4), (8192, 8))
    ]
