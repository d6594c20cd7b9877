"""How long should each step take on an H200, by what is counted of it?

Four things take time: the memory's bytes, the bytes that threads ask of the nearest cache in whole sectors, the
instructions that they issue, and the products of the matrix units. The slowest decides where they work at the same
time; else times are added. A step that waits for memory at each turn of its loop adds these turns.

>>> [round(predicted("matmul", name) * 1e3, 1) for name in ("naive", "coalesced", "tiled", "specialized")]
[66.2, 22.2, 0.4, 0.2]
>>> limit_of("matmul", "coalesced"), limit_of("attention", "tiled")
('instructions', 'in turn')
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rooflab import costs
from rooflab.specs import Chip, chip

__all__ = ["COUNTS", "SIZES", "Counts", "flops_of", "limit_of", "predicted", "roofs", "units"]

# Where the steps are timed: rows and columns; M, N and K; heads, length and D. All in bf16.
SIZES = {"softmax": (16384, 4096), "matmul": (4096, 4096, 4096), "attention": (16, 4096, 128)}

# An H200: 132 multiprocessors at up to 1.98 GHz, each of which issues instructions for 128 lanes and reads 128 bytes of
# its cache in a clock (CUDA C++ Programming Guide 13.0, compute capability 9.0). Which shares of the data sheet's rates
# a large copy and the library's product of 4096 cubed reach, measured; the wait for a block from memory or the cache.
_MULTIPROCESSORS = 132
_LANES_PER_S = _MULTIPROCESSORS * 128 * 1.98e9
_CACHE_BYTES_PER_S = _MULTIPROCESSORS * 128 * 1.98e9
_MEMORY_SHARE, _MATRIX_SHARE = 0.89, 0.705
_WAIT_S = 0.6e-6


@dataclass(frozen=True)
class Counts:
    """What one unit takes: an element of softmax, a product of matmul, a score of attention.

    Attributes:
        asked: bytes asked of the nearest cache, in whole sectors, as the interpreter counts them.
        instructions: issued for one lane, from the machine code for sm90.
        memory: bytes that cannot come from a cache.
        flops: of matrix units.
        overlap: whether the matrix units work while others compute.
        waits: times that a multiprocessor waits for memory, one after another, of the whole call.
    """

    asked: float
    instructions: float
    memory: float = 0.0
    flops: float = 0.0
    overlap: bool = True
    waits: int = 0


def _turns(tiles: int, resident: int, each: int) -> int:
    """Turns of loops, one after another: of the programs that one place of a multiprocessor gets."""
    return math.ceil(tiles / (_MULTIPROCESSORS * resident)) * each


_D, _L = 128, 4096
_TILE = 4 / 128  # bytes of A and B, each of which serves 128 products
COUNTS = {
    "softmax": {
        "naive": Counts(4 * 32, 6 + 12 + 22, 4), "coalesced": Counts(8, 4 + 10 + 11, 4),
        "online": Counts(6, 16 + 11, 4), "registers": Counts(4, 18, 4), "persistent": Counts(4, 18, 4),
        "pipelined": Counts(4, 21, 4),
    },
    "matmul": {
        "naive": Counts(32 + 32 / 128, 13), "coalesced": Counts(2 + 32 / 128, 10.8),
        "tiled": Counts(_TILE, 0.03, flops=2, overlap=False, waits=_turns(1024, 2, 64)),
        "pipelined": Counts(_TILE, 0.02, flops=2 * (1 + 100 / 4096)),  # a tile's end takes as long as 100 terms
        "persistent": Counts(_TILE, 0.02, flops=2), "specialized": Counts(0.75 * _TILE, 0.01, flops=2),
    },
    "attention": {
        "naive": Counts(_D * (64 + 64 / 128), _D * (16 + 26), 4 * _D), "coalesced": Counts(4 * _D + 8, 1380, 8),
        "online": Counts(4 * _D, 1400),
        "tiled": Counts(4 * _D / 128, 15.3, flops=4 * _D, overlap=False, waits=_turns(512, 1, 2 * 32)),
        "pipelined": Counts(4 * _D / 128, 12.8, flops=4 * _D, overlap=False, waits=_turns(512, 1, 2)),
        "persistent": Counts(4 * _D / 128, 12.8, flops=4 * _D, overlap=False, waits=_turns(512, 1, 1)),
        "specialized": Counts(4 * _D / 128, 12.2, flops=4 * _D, waits=_turns(512, 1, 1)),
    },
}  # fmt: skip


def units(ladder: str, size: tuple[int, ...]) -> int:
    """Return elements of softmax, products of matmul or scores of attention at a size."""
    return size[0] * size[1] ** 2 if ladder == "attention" else math.prod(size)


def flops_of(ladder: str) -> float:
    """Return FLOPs of the whole call: of its products, or five for each element of softmax."""
    if ladder == "softmax":
        rows, cols = SIZES[ladder]
        return costs.softmax(rows, cols, "bf16").flops
    first, second, third = SIZES[ladder]
    if ladder == "matmul":
        return costs.matmul(first, second, third, "bf16").flops
    return costs.attention(1, first, second, second, third, "bf16").flops


def roofs(of: Chip | None = None) -> dict[str, float]:
    """Return rates: bytes a second of memory and cache, FLOPs of matrix units; what is not known is not there.

    Args:
        of: a chip. An H200's (default) are those that are predicted with; another one's are its data sheet's, which
            has none of the cache.
    """
    h200 = chip("h200")
    if of is not None and of.id != h200.id:
        matrix = {"matrix": of.flops_per_s["bf16"]} if "bf16" in of.flops_per_s else {}
        return {"memory": of.bytes_per_s, **matrix}
    return {
        "memory": _MEMORY_SHARE * h200.bytes_per_s, "cache": _CACHE_BYTES_PER_S,
        "matrix": _MATRIX_SHARE * h200.flops_per_s["bf16"],
    }  # fmt: skip


def predicted(ladder: str, name: str) -> float:
    """Return the seconds that a step should take on an H200, at the size at which it is timed."""
    one, taken = COUNTS[ladder][name], _seconds(ladder, name)
    both = 0.0 if one.overlap else taken["instructions"] + taken["products"]
    return max(*taken.values(), both) + one.waits * _WAIT_S


def limit_of(ladder: str, name: str) -> str:
    """Return what decides that time: "memory", "cache", "instructions" or "products"; or "in turn" where it is a sum.

    Such a step computes while its products wait, and the other way round, and may wait for memory in between.
    """
    one, taken = COUNTS[ladder][name], _seconds(ladder, name)
    slowest = max(taken, key=taken.__getitem__)
    both = 0.0 if one.overlap else taken["instructions"] + taken["products"]
    return "in turn" if both > taken[slowest] else slowest


def _seconds(ladder: str, name: str) -> dict[str, float]:
    """What each of the four takes alone."""
    one, many = COUNTS[ladder][name], units(ladder, SIZES[ladder])
    return {
        "memory": many * one.memory / (_MEMORY_SHARE * chip("h200").bytes_per_s),
        "cache": many * one.asked / _CACHE_BYTES_PER_S,
        "instructions": many * one.instructions / _LANES_PER_S,
        "products": many * one.flops / (_MATRIX_SHARE * chip("h200").flops_per_s["bf16"]),
    }
