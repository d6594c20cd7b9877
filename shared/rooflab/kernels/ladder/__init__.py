"""Versions of kernels on the way to the roof; see `steps`.

>>> len(LADDERS["softmax"])
6
"""

from .steps import LADDERS, Step, code_of, difference, find_ladder

__all__ = ["LADDERS", "Step", "code_of", "difference", "find_ladder"]
