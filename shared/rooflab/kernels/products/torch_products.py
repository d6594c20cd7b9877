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

from ..launching import launch
from ..tuning import choose
from .tiles import INTERPRETED, count_tiles, launch_options, tilings
from .torch_operands import as_stored, described, padded_empty, processors
from .triton_matmul import add_splits_kernel, matmul_kernel

__all__ = ["multiply"]


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
    (m, k), n = a.shape, b.shape[1]
    given = a, b
    (a, a_transposed), (b, b_transposed) = as_stored(a), as_stored(b)
    many, _ = processors(c.device)
    flags = {"A_TRANSPOSED": a_transposed, "B_TRANSPOSED": b_transposed, "SPLITS": splits, "PRECISION": "ieee"}
    # Sums in fp32, twice as wide as the operands, are stored in twice as many parts.
    wide = max(1, (c.itemsize if splits == 1 else 4) // a.itemsize)

    def run(choice: Mapping[str, Any]) -> None:
        tiling = dict(choice) | {"PARTS": choice["PARTS"] * wide}
        height = -(-m // tiling["TILE_M"]) * tiling["TILE_M"]
        into = c if splits == 1 else padded_empty(splits * height, n, torch.float32, c.device)
        grid = (min(count_tiles(m, n, tiling) * splits, many * tiling["PER_SM"]),)
        matrices = (
            described(into, (tiling["TILE_M"], tiling["TILE_N"] // tiling["PARTS"])),
            described(a, (tiling["TILE_M"], tiling["TILE_K"]), a_transposed),
            described(b, (tiling["TILE_K"], tiling["TILE_N"]), b_transposed),
        )
        # The interpreter has no copy engine that adds.
        how = "no" if not add or splits > 1 else "engine" if c.is_cuda else "program"
        launch(matmul_kernel, grid, *matrices, m, n, k, ADD=how, **flags, **launch_options(tiling))
        if splits > 1:
            _add_splits(c, into, splits, add)

    if tiling is None:

        def tried(choice: Mapping[str, Any]) -> None:  # what adds is tried out elsewhere, and without adding
            spare = padded_empty(m, n, c.dtype, c.device) if add else c
            multiply(spare, *given, splits=splits, tiling=choice)

        name, candidates = _candidates((m * splits, n, k // splits), a, wide)
        tiling = choose(name, (m * splits, n, k // splits), candidates, tried, c.device)
    run(tiling)


def _candidates(size: tuple[int, int, int], a: torch.Tensor, wide: int) -> tuple[str, list[Any]]:
    """The name under which the choice is kept, and the tilings among which it is."""
    bits, (many, engine) = a.itemsize * 8, processors(a.device)
    if a.device.type == "cpu":
        return "matmul", [INTERPRETED]
    every = tilings(*size[:2], f"{bits}" if engine else f"{bits} plain", many)
    return f"matmul_{bits}" + ("_wide" if wide > 1 else ""), every


def _add_splits(c: torch.Tensor, parts: torch.Tensor, splits: int, add: bool) -> None:
    block = 1024
    slab = parts.shape[0] // splits * parts.stride(0)
    launch(
        add_splits_kernel, (c.shape[0], -(-c.shape[1] // block)), c, parts, c.shape[1], c.stride(0), parts.stride(0),
        slab, SPLITS=splits, ADD=add, BLOCK=block, num_warps=4,
    )  # fmt: skip
