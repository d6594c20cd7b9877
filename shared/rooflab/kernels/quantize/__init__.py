"""Numbers in 8 and 4 bits, with a scale for each tensor, row or block.

>>> LARGEST["fp8"], LARGEST["fp4"]
(448.0, 6.0)
"""

from .formats import LARGEST

__all__ = ["LARGEST"]
