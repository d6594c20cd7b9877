"""Descriptors of matrices and of heads, which the copy engine takes in place of addresses.

>>> import torch
>>> c, a, b = descriptors((torch.zeros(64, 64), torch.zeros(64, 32), torch.zeros(32, 64)), (32, 16))
>>> c.block_shape, a.block_shape, b.block_shape
([32, 32], [32, 16], [16, 32])
"""

from __future__ import annotations

from typing import Any

__all__ = ["check_tiles", "described", "descriptors"]


def descriptors(matrices: tuple[Any, Any, Any], blocks: tuple[int, int]) -> list[Any]:
    """Return descriptors of C, A and B.

    Args:
        matrices: c [M, N], a [M, K], b [K, N]; contiguous, rows begin at multiples of 16 bytes.
        blocks: the side of a tile of C, and how deep a block of A and B is.

    Raises:
        ValueError: rows do not begin at multiples of 16 bytes.
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    for matrix in matrices:
        if matrix.stride(0) * matrix.element_size() % 16:
            raise ValueError(f"The copy engine takes rows that begin at multiples of 16 bytes; found {matrix.shape[1]} "
                             f"elements of {matrix.element_size()} bytes in a row.")  # fmt: skip
    tile, depth = blocks
    shapes = ([tile, tile], [tile, depth], [depth, tile])
    return [TensorDescriptor.from_tensor(matrix, shape) for matrix, shape in zip(matrices, shapes, strict=True)]


def described(heads: tuple[Any, ...], rows: int) -> list[Any]:
    """Return descriptors of arrays of heads, [heads, length, D], contiguous, with blocks of some rows.

    Raises:
        ValueError: blocks would reach from one head into the next.
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    for each in heads:
        check_tiles(each, rows)
    return [TensorDescriptor.from_tensor(each.flatten(0, 1), [rows, each.shape[2]]) for each in heads]


def check_tiles(heads: Any, rows: int) -> None:
    """Refuse heads whose length is no multiple of a tile's rows."""
    if heads.shape[1] % rows:
        raise ValueError(f"This step of the ladder takes lengths that {rows} divides; found {heads.shape[1]}.")
