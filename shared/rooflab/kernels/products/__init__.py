"""Products of matrices: in 16 bits, and in 8 bits with scales.

>>> tilings(8192, 8192, "16", 132)[0]["TILE_K"]
64
"""

from .tiles import tilings

__all__ = ["tilings"]
