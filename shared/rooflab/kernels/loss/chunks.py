"""How many tokens' logits are in memory at a time, and how is a row of them shared out among threads?

>>> row_blocks(50_304, "cuda")[0]
{'BLOCK': 16384, 'num_warps': 32}
>>> row_blocks(50_304, "cuda", 64)[0]
{'BLOCK': 8192, 'num_warps': 16}
>>> chunk_tokens(50_304, 768, 2), chunk_tokens(50_304, 4096, 2)
(1024, 2048)
"""

from __future__ import annotations

__all__ = ["chunk_tokens", "row_blocks", "softmax_blocks"]

_BYTES = 100 * 2**20  # of logits: three products of so many fill any GPU, and 300 MiB hold all there is at d = 768
_THREADS = 1024  # the most that a program can have
_ROWS = 128  # of a tile of a product: chunks are whole ones


def chunk_tokens(words: int, d: int, itemsize: int) -> int:
    """Return how many tokens' logits are in memory at a time: 100 MiB of them, or a quarter of what dW takes.

    Args:
        words: of the vocabulary.
        d: width of the linear layer's input.
        itemsize: bytes of a logit.
    """
    room = max(_BYTES, words * d) // (words * itemsize)
    return max(1, room // _ROWS) * _ROWS


def softmax_blocks(words: int) -> tuple[int, int]:
    """Return how many of so many words a program turns into their gradient, and its warps."""
    return (4096, 4) if words > 4096 else (1024, 4)


def row_blocks(words: int, device: str, warp_size: int = 32) -> list[dict[str, int]]:
    """Return in which blocks a program may go through a row of so many words, the most likely ones first.

    The more warps a program has, the fewer rows are in work at a time, and the more of them the cache holds.
    """
    if device == "cpu":
        return [{"BLOCK": 64, "num_warps": 1}]
    sizes = [(16384, 32), (8192, 16), (16384, 16), (8192, 8), (4096, 8), (4096, 4), (2048, 4)]
    fitting = [(block, warps) for block, warps in sizes if block <= max(2048, 2 * words)]
    return [{"BLOCK": block, "num_warps": warps} for block, warps in fitting if warps * warp_size <= _THREADS]
