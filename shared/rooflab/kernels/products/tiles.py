"""How is a product cut into tiles, so that all multiprocessors work and none waits at the end?

>>> busy(512, 132), round(busy(133, 132), 3)      # four waves of which the last is nearly full, and one tile too many
(0.9696969696969697, 0.504)
>>> best = tilings(4096, 4096, "16", 132)[0]
>>> best["TILE_M"], best["TILE_N"], best["STAGES"]
(128, 256, 4)
>>> best = tilings(4096, 512, "16", 132)[0]      # 64 tiles of 128 x 256 leave half the chip idle
>>> best["TILE_M"], best["TILE_N"], best["PER_SM"]
(128, 128, 2)
"""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["BESIDE", "HOPPER", "INTERPRETED", "RELU", "TILINGS", "busy", "count_tiles", "launch_options", "tilings"]

Tiling = dict[str, Any]


def _tiling(
    m: int, n: int, k: int, warps: int, stages: int, parts: int = 1, per_sm: int = 1, *, group: int = 8
) -> Tiling:  # fmt: skip
    return {
        "TILE_M": m, "TILE_N": n, "TILE_K": k, "STAGES": stages, "PARTS": parts, "PER_SM": per_sm, "GROUP": group,
        "num_warps": warps,
    }  # fmt: skip


# Kind of product -> tilings, each with its rate in the long run relative to the first one's, as measured on an H200.
# The kinds are the bits of an element; "exact" adds up 128 terms of fp8 at a time in registers, "blocks" gives each
# such sum a scale, and "plain" stands for chips without a copy engine for tiles. "gradient" reads a third matrix at the
# end, and "squares" writes two, both of which ask for more and smaller parts; their rates are not measured yet.
# The larger a tile, the fewer bytes of shared memory the matrix units read for a product, up to 128 x 256. Two
# programs of half that size take turns: one multiplies while the other stores.
TILINGS: dict[str, tuple[tuple[Tiling, float], ...]] = {
    "16": (
        (_tiling(128, 256, 64, 8, 4, 4), 1.0),
        (_tiling(128, 256, 64, 8, 4, 2), 0.995),
        (_tiling(128, 256, 64, 8, 4, 2, group=4), 0.99),
        (_tiling(128, 256, 64, 8, 4, 2, group=16), 0.985),
        (_tiling(256, 128, 64, 8, 4, 2), 0.97),
        (_tiling(128, 128, 64, 4, 3, 2, 2), 0.97),
        (_tiling(64, 128, 64, 4, 3, 1, 2), 0.75),
        (_tiling(64, 64, 64, 4, 4, 1, 3), 0.5),
    ),
    "16 gradient": (
        (_tiling(128, 128, 64, 4, 3, 4, 2), 1.0),
        (_tiling(128, 256, 64, 8, 4, 8), 0.98),
        (_tiling(128, 256, 64, 8, 3, 4), 0.97),
        (_tiling(128, 128, 64, 8, 3, 4, 2), 0.96),
        (_tiling(64, 128, 64, 4, 3, 2, 2), 0.75),
    ),
    "8 squares": (
        (_tiling(128, 128, 128, 4, 3, 4, 2), 1.0),
        (_tiling(128, 256, 128, 8, 4, 4), 0.98),
        (_tiling(128, 256, 128, 8, 3, 2), 0.97),
        (_tiling(128, 128, 128, 8, 3, 4, 2), 0.96),
        (_tiling(64, 128, 128, 4, 3, 2, 2), 0.75),
    ),
    "8": (
        (_tiling(128, 256, 128, 8, 4, 2, group=16), 1.0),
        (_tiling(128, 256, 128, 8, 4, 2), 0.995),
        (_tiling(256, 128, 128, 8, 4, 2), 0.98),
        (_tiling(128, 128, 128, 4, 3, 2, 2), 0.96),
        (_tiling(64, 128, 128, 4, 3, 1, 2), 0.7),
    ),
    "8 exact": (
        (_tiling(64, 128, 128, 4, 3, 1, 2), 1.0),
        (_tiling(64, 128, 128, 4, 4, 2, 2), 0.96),
        (_tiling(128, 128, 128, 8, 4, 2), 0.92),
    ),
    "blocks": (
        (_tiling(128, 64, 128, 4, 3, 1, 2), 1.0),
        (_tiling(64, 128, 128, 4, 4, 2, 2), 0.97),
        (_tiling(128, 128, 128, 8, 4), 0.86),
    ),
    "32": ((_tiling(64, 64, 16, 8, 3, 1, 2), 1.0),),
    "16 plain": ((_tiling(64, 128, 32, 8, 3, 1, 2), 1.0), (_tiling(64, 64, 32, 4, 3, 1, 2), 0.8)),
    "16 gradient plain": ((_tiling(64, 128, 32, 8, 3, 1, 2), 1.0), (_tiling(64, 64, 32, 4, 3, 1, 2), 0.8)),
    "32 gradient": ((_tiling(64, 64, 16, 8, 3, 1, 2), 1.0),),
    "32 gradient plain": ((_tiling(64, 64, 16, 8, 3, 1, 2), 1.0),),
    "8 squares plain": ((_tiling(64, 128, 64, 4, 3), 1.0),),
    "8 plain": ((_tiling(128, 128, 64, 8, 3), 1.0),),
    "8 exact plain": ((_tiling(128, 128, 64, 8, 3), 1.0),),
    "blocks plain": ((_tiling(64, 64, 128, 8, 2), 1.0),),
    "32 plain": ((_tiling(64, 64, 16, 8, 3, 1, 2), 1.0),),
}
# Of two products that run at a time: on each multiprocessor there is room for a program of either.
BESIDE = _tiling(128, 128, 64, 4, 3, 2)
# The kernel for Hopper has one size of tiles. Five stages are what results in fp32 leave room for.
HOPPER: Tiling = {"GROUP": 8, "STAGES": 5, "num_warps": 4}
# The one with a squared ReLU: two groups of warps have tiles of 128 x 128 in turn, or halves of 128 x 256.
RELU: tuple[Tiling, ...] = tuple(
    {"TOGETHER": together, "STEP": step, "STAGES": stages, "GROUP": group, "num_warps": 4}
    for together, step, stages, group in ((0, 64, 5, 8), (0, 64, 5, 16), (1, 64, 3, 8), (1, 32, 6, 8))
)
_BEHIND = 0.75
# Interpreted, a program costs the same whatever its size; small tiles let small matrices have edges.
INTERPRETED = _tiling(32, 32, 32, 4, 2, 2, group=2)


def busy(tiles: int, processors: int) -> float:
    """Return which part of the time multiprocessors have work on the average: they wait for the one with most tiles."""
    return tiles / (-(-tiles // processors) * processors) if tiles else 1.0


def count_tiles(m: int, n: int, tiling: Tiling) -> int:
    """Return how many tiles a matrix [m, n] has."""
    return -(-m // tiling["TILE_M"]) * -(-n // tiling["TILE_N"])


@functools.cache
def tilings(m: int, n: int, kind: str, processors: int) -> list[Tiling]:
    """Return ways to cut up a product, the one first that is expected to take the least time.

    The expected rate is the part of the tiles that lies within C, times the part of the time that the multiprocessors
    are busy, times the tiling's rate in the long run: how long the sums are did not matter, even K = 1000 hides the
    storing. Those that fall far behind the first one are left out.

    Args:
        m: rows of C.
        n: columns of C.
        kind: of product: one of TILINGS.
        processors: multiprocessors of the chip.
    """

    def expected(pair: tuple[Tiling, float]) -> float:
        tiling, rate = pair
        tiles = count_tiles(m, n, tiling)
        within = m * n / (tiles * tiling["TILE_M"] * tiling["TILE_N"])
        return within * busy(tiles, processors) * rate

    ordered = sorted(TILINGS[kind], key=expected, reverse=True)
    return [pair[0] for pair in ordered if expected(pair) >= _BEHIND * expected(ordered[0])]


def launch_options(tiling: Tiling) -> dict[str, Any]:
    """Return the constants of a kernel, and what its compiler is told, from a tiling."""
    return {key: value for key, value in tiling.items() if key != "PER_SM"} | {"num_stages": tiling["STAGES"]}
