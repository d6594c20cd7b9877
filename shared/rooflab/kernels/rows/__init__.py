"""Kernels over the rows of a matrix, which stay in registers between the passes over them.

>>> row_blocks(1024)[0]["num_warps"]
8
"""

from .blocks import loop_blocks, row_blocks

__all__ = ["loop_blocks", "row_blocks"]
