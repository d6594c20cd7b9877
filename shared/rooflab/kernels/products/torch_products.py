"""Launching a product of matrices into a tensor that is there: written, or added to; in ranges of K if C is small.

>>> c = torch.ones(2, 4)
>>> multiply(c, torch.ones(2, 3), torch.ones(3, 4), add=True)
>>> c[0]
tensor([4., 4., 4., 4.])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..launching import repeated
from ..tuning import choose
from .tiles import INTERPRETED, count_tiles, launch_options, tilings
from .torch_operands import Described, padded_empty, processors
from .triton_matmul import add_splits_kernel, matmul_kernel

__all__ = ["Product", "multiply", "prepare"]

_BLOCK = 1024  # columns that a program of `add_splits_kernel` adds up


def multiply(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, add: bool = False, splits: int = 1,
    tiling: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Write C = A B, or with `add` C += A B.

    Args:
        c: [M, N], not empty, its rows contiguous and at multiples of 16 bytes; a format at least as wide as A's.
        a: [M, K], of any strides.
        b: [K, N], of any strides.
        add: to what is there, in C's format.
        splits: ranges of K that are summed up apart and then together, for a C of few tiles.
        tiling: see :mod:`rooflab.kernels.products.tiles` (default: what is fastest).
    """
    prepare(c, a, b, add=add, splits=splits, tiling=tiling)(c, a, b)


def prepare(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, add: bool = False, splits: int = 1,
    tiling: Mapping[str, Any] | None = None,
) -> Product:  # fmt: skip
    """Return what :func:`multiply` does, to be done many times with matrices of these shapes, strides and formats."""
    (m, k), n = a.shape, b.shape[1]
    if tiling is None:

        def tried(choice: Mapping[str, Any]) -> None:  # what adds is tried out elsewhere, and without adding
            spare = padded_empty(m, n, c.dtype, c.device) if add else c
            multiply(spare, a, b, splits=splits, tiling=choice)

        name, candidates = _candidates((m * splits, n, k // splits), a, _width(c, a, splits))
        tiling = choose(name, (m * splits, n, k // splits), candidates, tried, c.device)
    return Product(c, a, b, add, splits, tiling)


class Product:
    """Products of matrices that are like the first ones, as a function of C, A and B; see :func:`prepare`."""

    def __init__(
        self, c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, add: bool, splits: int, tiling: Mapping[str, Any]
    ) -> None:
        (m, k), n = a.shape, b.shape[1]
        # Sums in fp32, twice as wide as the operands, are stored in twice as many parts.
        tiling = dict(tiling)
        options = launch_options(tiling) | {"PARTS": tiling["PARTS"] * _width(c, a, splits)}
        self._a = Described(a, (tiling["TILE_M"], tiling["TILE_K"]))
        self._b = Described(b, (tiling["TILE_K"], tiling["TILE_N"]))
        self._sizes = m, n, k
        height = -(-m // tiling["TILE_M"]) * tiling["TILE_M"]
        self._parts = padded_empty(splits * height, n, torch.float32, c.device) if splits > 1 else None
        if self._parts is not None:
            step = self._parts.stride(0)
            self._steps = n, c.stride(0), step, height * step
            constants = {"SPLITS": splits, "ADD": add, "BLOCK": _BLOCK, "num_warps": 4}
            self._add = repeated(add_splits_kernel, (m, -(-n // _BLOCK)), **constants)
        self._c = Described(
            c if self._parts is None else self._parts, (tiling["TILE_M"], tiling["TILE_N"] // options["PARTS"])
        )
        # The interpreter has no copy engine that adds.
        how = "no" if not add or splits > 1 else "engine" if c.is_cuda else "program"
        grid = (min(count_tiles(m, n, tiling) * splits, processors(c.device)[0] * tiling["PER_SM"]),)
        self._launch = repeated(
            matmul_kernel, grid, SPLITS=splits, A_TRANSPOSED=self._a.transposed, B_TRANSPOSED=self._b.transposed,
            ADD=how, PRECISION="ieee", **options,
        )  # fmt: skip

    def __call__(self, c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        """Write C = A B, or add to it."""
        parts = self._parts
        self._launch(self._c(c if parts is None else parts), self._a(a), self._b(b), *self._sizes)
        if parts is not None:
            self._add(c, parts, *self._steps)


def _width(c: torch.Tensor, a: torch.Tensor, splits: int) -> int:
    """How many times as wide as the operands what is stored is."""
    return max(1, (c.itemsize if splits == 1 else 4) // a.itemsize)


def _candidates(size: tuple[int, int, int], a: torch.Tensor, wide: int) -> tuple[str, list[Any]]:
    """The name under which the choice is kept, and the tilings among which it is."""
    bits, (many, engine) = a.itemsize * 8, processors(a.device)
    if a.device.type == "cpu":
        return "matmul", [INTERPRETED]
    every = tilings(*size[:2], f"{bits}" if engine else f"{bits} plain", many)
    return f"matmul_{bits}" + ("_wide" if wide > 1 else ""), every
