"""How are rows shared out among programs, and a row among threads?

Two numbers decide: how many elements a thread holds (few enough for its registers, enough loads under way to hide the
memory's latency), and how many rows a program takes together.

>>> row_blocks(4096)[0]
{'ROWS': 1, 'num_warps': 8}
>>> forward_blocks(32_768, 32)[1]
{'BLOCK': 8192, 'num_warps': 32}
>>> forward_blocks(32_768, 32, together=(2,))[3]
{'ROWS': 2, 'BLOCK': 8192, 'num_warps': 32}
>>> loop_blocks(4096, 16_384)[0]
{'ROWS': 1, 'STAGES': 3, 'PER_SM': 2, 'num_warps': 8}
>>> long_blocks(32_768, 2)[0]
{'PARTS': 2, 'BLOCK': 4096, 'PER_SM': 1, 'num_warps': 16}
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

from rooflab.counters.interpreter import interpreting

__all__ = [
    "LONG", "LONGEST", "MOST", "chained", "evenly", "forward_blocks", "long_blocks", "loop_blocks", "next_power_of_2",
    "processors", "row_blocks", "warp_blocks",
]  # fmt: skip

LONG = 8192  # elements of a row, from which on a kernel with sums over all rows reads each row twice
LONGEST = 65_536  # elements of a row: 64 for each of 1,024 threads
MOST = 12  # choices that a chip tries that is not known
_SHARED_BYTES = 160 * 1024  # of a program, on every chip since the A100
_LOOP_ELEMENTS, _LOOP_THREADS = 8192, (256, 512)  # of a multiprocessor; an H200 was fastest with 16 or 32 for each
_WARPS = (1, 2, 4, 8, 16, 32)
_THREADS = 32  # of a warp; an AMD wavefront has 64, and holds half as many elements in each


def next_power_of_2(n: int) -> int:
    """Return the smallest power of two that is n or more; 1 for n = 0."""
    return 1 << max(0, n - 1).bit_length()


@functools.cache
def row_blocks(cols: int, most: int = 64) -> list[dict[str, Any]]:
    """Return the choices for a kernel whose programs take some rows once, the most likely one first.

    Args:
        cols: of a row, a power of two.
        most: elements that a thread may hold.
    """
    found = [
        {"ROWS": rows, "num_warps": warps}
        for rows, warps in itertools.product((1, 2, 4, 8, 16, 32, 64), _WARPS)
        if 8 <= rows * cols / (_THREADS * warps) <= most
    ]
    return sorted(found or [_extreme(cols)], key=lambda one: _unlikely(cols, one))


@functools.cache
def forward_blocks(
    cols: int, most: int, *, fetches: bool = False, twice: bool = True, together: tuple[int, ...] = ()
) -> list[dict[str, Any]]:
    """Return the choices for a kernel that writes what it reads: for long rows more than those of :func:`row_blocks`.

    Args:
        cols: of a row, a power of two.
        most: elements that a thread may hold.
        fetches: a program can ask for the row of another, AHEAD times the number of multiprocessors after its own.
        twice: rows can be read twice, in turns of BLOCK columns, 8 for each thread.
        together: how many of these, beside one, a program can have: they share what it loads of the parameters.
    """
    found = row_blocks(cols, most)
    if cols < LONG:
        # Four numbers a thread: so few registers that a multiprocessor has all of its 2,048 threads at work.
        return found + [{"ROWS": 1, "num_warps": cols // 128} for _ in range(cols >= 256)]
    again = [
        {"BLOCK": 8 * _THREADS * warps, "num_warps": warps}
        for warps in (32, 16, 8)
        if twice and 16 <= cols / (_THREADS * warps) <= 64
    ]
    # A row in four turns or so: with two in each program some 35 MB are in work, and the cache of all has 50.
    near = sorted(again, key=lambda one: abs(one["BLOCK"] - cols // 4))[:2]
    sharing = [{"ROWS": rows, **one} for one, rows in itertools.product(near, together)]
    # As much again as those programs have that are on a multiprocessor: some 64 KB of 16 bits, twice that in blocks.
    further = [
        {**one, "AHEAD": max(1, (65_536 if "BLOCK" in one else 32_768) // cols)}
        for one in again + found
        if fetches and one.get("ROWS", 1) == 1
    ]
    return found + again + sharing + further


@functools.cache
def loop_blocks(cols: int, row_bytes: int, most: int = 32) -> list[dict[str, Any]]:
    """Return the choices for a kernel whose programs stay and take rows in turn, the most likely one first.

    Args:
        cols: of a row, a power of two.
        row_bytes: that a row of all that is loaded has. Those of STAGES - 1 turns are in shared memory.
        most: elements that a thread may hold.
    """
    found = []
    for one, per_sm in itertools.product(row_blocks(cols, most), (2, 1, 4, 8)):
        stages = next(each for each in (3, 2, 1) if (each - 1) * one["ROWS"] * row_bytes <= _SHARED_BYTES)
        elements, threads = one["ROWS"] * cols * per_sm, _THREADS * one["num_warps"] * per_sm
        if threads in _LOOP_THREADS and 16 * threads <= elements <= _LOOP_ELEMENTS:
            found.append({"ROWS": one["ROWS"], "STAGES": stages, "PER_SM": per_sm, "num_warps": one["num_warps"]})
    one = row_blocks(cols, most)[0]
    return found or [{"ROWS": one["ROWS"], "STAGES": stages, "PER_SM": 1, "num_warps": one["num_warps"]}]


@functools.cache
def warp_blocks(cols: int) -> list[dict[str, Any]]:
    """Return the choices for a kernel whose programs stay, and whose warps have a row each.

    Args:
        cols: of a row, a power of two: a warp loads 256 at a time, and holds up to 1,024 beside its sums.

    >>> warp_blocks(1024)
    [{'ROWS': 8, 'PER_SM': 1, 'num_warps': 8}]
    """
    warps = {1024: ((8, 1),), 512: ((16, 1), (8, 2)), 256: ((16, 2), (16, 1))}
    return [{"ROWS": each, "PER_SM": per_sm, "num_warps": each} for each, per_sm in warps.get(cols, ())]


def evenly(shares: int, most: int) -> int:
    """Return how many programs, at most so many, take shares in turn so that they end together, or nearly so.

    >>> evenly(4096, 132)  # 32 turns: with 132 programs four would be alone in the last one
    128
    """
    turns = max(1, -(-shares // max(1, most)))
    return -(-shares // turns)


@functools.cache
def long_blocks(cols: int, sums: int) -> list[dict[str, Any]]:
    """Return the choices for a kernel that keeps sums over all rows in registers and reads each row twice.

    Args:
        cols: of a row, a power of two.
        sums: that it keeps of each column, 1 or 2, and one more for a residual: they may take half of the registers.

    Returns:
        choices whose PARTS programs share the columns, the fewest first; a block has 8 elements for each thread.
    """
    found = []
    for parts, warps in itertools.product((1, 2, 4, 8), (16, 8, 32)):
        kept = sums * cols // parts // (_THREADS * warps)
        block = min(8 * _THREADS * warps, cols // parts)
        if 8 <= kept <= min(128, 1024 // warps):
            found.append({"PARTS": parts, "BLOCK": block, "PER_SM": 1, "num_warps": warps})
    return found


def chained(device: Any) -> bool:
    """Whether a kernel can be brought to a torch device while the one whose results it waits for still runs.

    NVIDIA's chips can from Hopper on (programmatic dependent launch).
    """
    import torch

    if device.type != "cuda" or torch.version.hip is not None or interpreting():
        return False
    return torch.cuda.get_device_capability(device)[0] >= 9


def processors(device: Any) -> int:
    """Return the number of multiprocessors of a torch device; few on a CPU, where programs run one after another."""
    if device.type == "cpu":
        return 2
    import torch

    return torch.cuda.get_device_properties(device).multi_processor_count


def _extreme(cols: int) -> dict[str, Any]:
    """Of rows too short for one warp, or so long that registers run out."""
    return {"ROWS": 64, "num_warps": 1} if cols < 256 else {"ROWS": 1, "num_warps": 32}


def _unlikely(cols: int, one: dict[str, Any]) -> tuple[float, int]:
    elements = one["ROWS"] * cols / (_THREADS * one["num_warps"])
    return abs(elements - 16), abs(one["num_warps"] - 8)
