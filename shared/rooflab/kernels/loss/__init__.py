"""Losses over large vocabularies without all logits in memory.

>>> 2 * 50_304 * chunk_tokens(50_304, 768, 2) // 2**20        # MiB of logits at a time; of 8,192 tokens they are 786
98
"""

from .chunks import chunk_tokens

__all__ = ["chunk_tokens"]
