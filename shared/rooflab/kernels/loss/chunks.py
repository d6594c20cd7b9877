"""How many tokens' logits are in memory at a time, and how is a row of them shared out among threads?

>>> row_blocks(50_304, "cuda")[0]
{'BLOCK': 8192, 'STAGES': 3, 'PER_SM': 1, 'num_warps': 16}
>>> chunk_tokens(50_304, 768, 2), chunk_tokens(50_304, 4096, 2)
(1024, 2048)
"""

from __future__ import annotations

__all__ = ["chunk_tokens", "row_blocks", "softmax_blocks"]

_BYTES = 100 * 2**20  # of logits: three products of so many fill any GPU, and 300 MiB hold all there is at d = 768
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


def row_blocks(words: int, device: str) -> list[dict[str, int]]:
    """Return in which blocks programs may go through rows of so many words, the most likely ones first.

    Some 26 kB must be on their way to each multiprocessor all the time: with STAGES of 2 or more the next blocks are,
    with 1 those of other programs, of which PER_SM stay on a multiprocessor.
    """
    if device == "cpu":
        return [{"BLOCK": 64, "STAGES": 1, "PER_SM": 1, "num_warps": 1}]
    sizes = [
        (8192, 3, 1, 16), (8192, 1, 2, 16), (4096, 3, 2, 8), (4096, 4, 1, 8), (4096, 1, 4, 8), (8192, 1, 1, 16),
        (16384, 2, 1, 32), (16384, 1, 1, 32), (8192, 2, 2, 16), (2048, 3, 4, 4), (2048, 1, 8, 4), (2048, 1, 16, 4),
    ]  # fmt: skip
    fitting = [each for each in sizes if each[0] <= max(2048, 2 * words)]
    return [{"BLOCK": block, "STAGES": stages, "PER_SM": per_sm, "num_warps": warps}
            for block, stages, per_sm, warps in fitting]  # fmt: skip
