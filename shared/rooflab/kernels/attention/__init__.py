"""Attention: forward, backward, and decoding with one query.

>>> from rooflab import costs
>>> round(costs.attention(1, 16, 4096, 4096, 128, "bf16").intensity)  # FLOPs a byte: the scores never reach the memory
2048
"""

__all__ = []
