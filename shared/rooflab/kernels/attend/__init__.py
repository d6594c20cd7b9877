"""Attention: softmax(q k^T) v without the scores in memory, forward, backward, and for one query against a cache.

>>> forward_blocks(128, 2)[0]["num_warps"]
4
"""

from .blocks import backward_blocks, decode_blocks, forward_blocks

__all__ = ["backward_blocks", "decode_blocks", "forward_blocks"]
