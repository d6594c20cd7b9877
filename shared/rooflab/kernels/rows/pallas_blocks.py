"""How are the rows of a matrix shared out among the programs of a Pallas kernel?

>>> block_of("gpu", "softmax", 100, 1000)
((4, 1024), {'num_warps': 8})
>>> block_of("tpu", "softmax", 100, 1000)
((104, 1000), {})
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..pallas_launching import choice_of, processors
from .blocks import loop_blocks, next_power_of_2, row_blocks

__all__ = ["block_of", "inside_of", "inside_of_all", "room_ahead", "rows_in_vmem", "share_of", "sums_block"]

_VMEM_BLOCK = 1 << 18  # elements, 1 MiB in float32: some blocks and their copies in flight fit into 16 MiB
_SUBLANES = 16  # rows of a TPU's tile in 16 bits; two tiles of 8 in 32 bits
_INTERPRETED = 1 << 20  # elements: each step of the interpreter costs as much as some thousand of them


def block_of(kind: str, name: str, rows: int, cols: int, most: int = 64) -> tuple[tuple[int, int], dict[str, int]]:
    """Return the shape of a program's block, and the number of warps on a GPU.

    Args:
        kind: of device.
        name: of the kernel.
        rows: of the matrix.
        cols: of the matrix.
        most: elements that a thread of a GPU may hold.
    """
    width = next_power_of_2(cols)
    if kind == "tpu":
        return (rows_in_vmem(rows, cols), cols), {}
    if kind == "cpu":
        return (min(next_power_of_2(rows), max(1, _INTERPRETED // width)), width), {}
    choice = choice_of(name, (width,), row_blocks(width, most))
    return (min(choice["ROWS"], next_power_of_2(rows)), width), {"num_warps": choice["num_warps"]}


def rows_in_vmem(rows: int, cols: int) -> int:
    """Return how many rows a TPU takes at a time: whole tiles, at least one and at most what its memory holds."""
    fit = max(1, _VMEM_BLOCK // (cols * _SUBLANES)) * _SUBLANES
    return min(fit, -(-rows // 8) * 8)


def share_of(kind: str, name: str, rows: int, cols: int) -> tuple[tuple[int, int], int, dict[str, int]]:
    """Return the shape of a program's share, how many rows it takes at a time, and the number of warps on a GPU.

    Args:
        kind: of device.
        name: of the kernel.
        rows: of the matrix.
        cols: of the matrix.
    """
    width = next_power_of_2(cols)
    if kind == "tpu":
        share = rows_in_vmem(rows, 2 * cols)
        return (share, cols), share, {}
    if kind == "cpu":  # two programs that take rows twice, so that what is interpreted is all of the kernel
        step, programs, more = min(next_power_of_2(-(-rows // 4)), max(1, _INTERPRETED // width)), 2, {}
    else:
        choice = choice_of(name, (width,), loop_blocks(width, 4 * width))
        step, programs = min(choice["ROWS"], next_power_of_2(rows)), processors() * choice["PER_SM"]
        more = {"num_warps": choice["num_warps"]}
    return (-(-rows // (step * programs)) * step, width), step, more


def room_ahead(elements: int, num_warps: int = 4) -> bool:
    """Return whether a program's registers have room for the next rows besides those with which it computes."""
    return elements <= 16 * 32 * num_warps


def sums_block(kind: str, count: int, cols: int) -> tuple[tuple[int, int], int]:
    """Return the shape of the block in which a program adds up `count` rows, and how many it takes at a time."""
    step, width = {"gpu": (32, 32), "tpu": (8, min(cols, 128)), "cpu": (32, next_power_of_2(cols))}[kind]
    return (-(-count // step) * step, width), step


def inside_of_all(shape: tuple[int, int], rows: int, cols: int, top: Any) -> Any:
    """Return which elements of a block of whole rows are inside of the matrix: None if all of each block are."""
    return None if shape[1] == cols and not rows % shape[0] else inside_of(shape, rows, cols, top)


def inside_of(shape: tuple[int, int], rows: int, cols: int, top: Any = 0, left: Any = 0) -> Any:
    """Return which elements of a block are inside of the matrix.

    Args:
        shape: of the block.
        rows: of the matrix.
        cols: of the matrix.
        top: its first row.
        left: its first column.
    """
    r = top + jax.lax.broadcasted_iota(jnp.int32, shape, 0)
    return (r < rows) & (left + jax.lax.broadcasted_iota(jnp.int32, shape, 1) < cols)
