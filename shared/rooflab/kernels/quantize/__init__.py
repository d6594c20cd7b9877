"""Numbers in 8 and 4 bits, with a scale for each tensor, row or block.

>>> BLOCK["mxfp8"], BLOCK["nvfp4"]
(32, 16)
"""

from .formats import BLOCK, decode, unpack_fp4

__all__ = ["BLOCK", "decode", "unpack_fp4"]
