"""Which block sizes can attention use?

M queries meet N keys at a time. A thread holds, of M x N scores and M x D sums, (M N + M D) / (32 warps) numbers in
registers of 32 bits, and at most 255 of these: with D = 128, blocks of 128 x 128 need 8 warps. Several programs of
small blocks on a multiprocessor hide each other's softmax, and were faster on an H200 than one of large blocks.

>>> forward_blocks(64, 2)[0]
{'M': 64, 'N': 64, 'num_warps': 4, 'num_stages': 3}
"""

from __future__ import annotations

__all__ = ["backward_blocks", "decode_blocks", "forward_blocks", "head_rows", "key_splits", "size_key"]

_MOST_SPLITS = 128

Blocks = dict[str, int]


def forward_blocks(width: int, itemsize: int, *, hopper: bool = False) -> list[Blocks]:
    """Return what the forward kernels can be launched with, the most likely one for a large chip first.

    Args:
        width: D.
        itemsize: bytes of an element of q, k and v.
        hopper: the kernel for Hopper can be launched too; its blocks have STAGES in place of M.
    """
    if hopper:
        deepest = 4 if width <= 64 else 2
        special = [{"N": 128, "STAGES": stages, "num_warps": 4} for stages in range(deepest, 1, -1)]
        return special + forward_blocks(width, itemsize)
    if itemsize == 4:
        return _all((64, 32, 4, 1), (32, 32, 4, 1), (16, 16, 4, 1))
    if width <= 64:
        return _all((64, 64, 4, 3), (128, 64, 4, 3), (128, 128, 8, 3), (128, 128, 8, 2), (64, 32, 4, 1))
    return _all((64, 64, 4, 2), (128, 64, 8, 3), (128, 128, 8, 2), (64, 128, 4, 2), (64, 32, 4, 1))


def backward_blocks(width: int, itemsize: int, *, hopper: bool = False) -> tuple[list[Blocks], list[Blocks]]:
    """Return what the kernels for dq, and what those for dk and dv can be launched with; arguments as forward."""
    if hopper:
        special = [{"STAGES": stages, "num_warps": 4} for stages in ((2, 3) if width <= 64 else (2,))]
        of_queries, of_keys = backward_blocks(width, itemsize)
        return special + of_queries, special + of_keys
    if itemsize == 4:
        small = _all((32, 32, 4, 1), (16, 16, 4, 1))
        return small, small
    if width <= 64:
        return (
            _all((64, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2), (64, 32, 4, 1)),
            _all((64, 64, 4, 3), (64, 128, 8, 3), (32, 64, 4, 1)),
        )
    return (
        _all((64, 64, 4, 2), (128, 128, 8, 2), (128, 64, 8, 2), (64, 32, 4, 1)),
        _all((64, 64, 4, 2), (64, 128, 8, 2), (32, 128, 8, 3), (32, 64, 4, 1)),
    )


def head_rows(device: str) -> list[Blocks]:
    """Return how many heads of tokens a program of the kernels that prepare queries and keys can have."""
    if device == "cpu":
        return [{"ROWS": 8, "num_warps": 1}]
    sizes = [(64, 4), (32, 4), (128, 4), (128, 8), (32, 2), (16, 1), (64, 8)]
    return [{"ROWS": rows, "num_warps": warps} for rows, warps in sizes]


def decode_blocks(width: int, itemsize: int) -> list[Blocks]:
    """Return what the kernel for one query can be launched with: N keys at a time, PER_SM programs a processor."""
    if itemsize == 4:
        return [{"N": 16, "PER_SM": 4, "num_warps": 4, "num_stages": 2}]
    sizes = ((128, 2, 4), (128, 4, 3), (64, 8, 3)) if width <= 64 else ((128, 2, 3), (64, 2, 4), (64, 4, 3), (32, 8, 4))
    return [
        {"N": n, "PER_SM": programs, "num_warps": 4, "num_stages": stages}
        for n, programs, stages in (*sizes, (32, 4, 2))
    ]


def key_splits(keys: int, heads: int, n: int, per_processor: int, processors: int) -> tuple[int, int]:
    """Return the keys of a stretch, a multiple of n, and the number of stretches: as many programs as are wanted.

    >>> key_splits(8192, 16, 64, 4, 132)  # 16 heads of k and v: 33 stretches would give 528 programs
    (256, 32)
    """
    wanted = min(_MOST_SPLITS, max(1, round(per_processor * processors / heads)))
    chunk = -(-keys // wanted)
    chunk = -(-chunk // n) * n
    return chunk, -(-keys // chunk)


def size_key(width: int, *lengths: int) -> tuple[int, ...]:
    """Return what a choice of blocks depends on: lengths are rounded up to powers of 2, so that few are measured.

    >>> size_key(128, 1000, 4096, 1)
    (128, 1024, 4096, 1)
    """
    return width, *(1 << (length - 1).bit_length() for length in lengths)


def _all(*sizes: tuple[int, int, int, int]) -> list[Blocks]:
    return [dict(zip(("M", "N", "num_warps", "num_stages"), each, strict=True)) for each in sizes]
