"""Functions of each element alone, fused into one pass over memory.

>>> tile_blocks()[0]
{'BLOCK': 4096, 'num_warps': 8}
"""

from .tiles import tile_blocks

__all__ = ["tile_blocks"]
