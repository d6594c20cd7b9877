# mypy: disallow-untyped-defs=False
"""How does memory stay busy where few programs fit on the chip?

A multiprocessor of an H200 needs some 26 KB on their way at any time. A program of a long row has its bytes on their
way only while it loads; then it computes and stores, and with one or two programs memory waits. So a program asks for
the row of one that comes after it, into the cache that all share: that takes no registers and no shared memory.

>>> fetch_ahead.__name__
'fetch_ahead'
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..triton_prefetch import prefetch

__all__ = ["fetch_ahead"]


@triton.jit
def fetch_ahead(x, cols, x_step, COLS: tl.constexpr, AHEAD: tl.constexpr):
    """Have NVIDIA's chips bring a row to the cache of all, a line of 128 bytes for each thread.

    It is that of the program AHEAD of this one; a program has one row of x, and rows are `x_step` elements apart.
    """
    LINE: tl.constexpr = 1024 // x.dtype.element_ty.primitive_bitwidth
    next_row = tl.program_id(0).to(tl.int64) + AHEAD
    if next_row < tl.num_programs(0):
        prefetch(x + next_row * x_step + tl.minimum(tl.arange(0, COLS // LINE) * LINE, cols - 1))
