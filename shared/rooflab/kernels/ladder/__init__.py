"""Versions of kernels on the way to the roof; see `steps`.

>>> len(LADDERS["softmax"])
6
"""

from .steps import LADDERS, Step, difference, find_ladder

__all__ = ["LADDERS", "Step", "difference", "find_ladder"]
