# mypy: disallow-untyped-defs=False
"""Softmax, fifth step: as many programs as the chip holds, each of which takes rows in turn.

Faster where starting programs costs: a program is set up once, not once a row. A chip starts the next program while
others wait for memory, so that little is gained with long rows; what it is for is the next step.

>>> softmax.__name__
'softmax'
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from rooflab.kernels.launching import launch
from rooflab.kernels.rows.blocks import processors

__all__ = ["softmax", "softmax_kernel"]


@triton.jit
def softmax_kernel(y, x, rows, cols, COLS: tl.constexpr):
    """Rows of x to rows of y, both `cols` apart; COLS is a power of two, at least `cols`."""
    i = tl.arange(0, COLS)
    for r in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        row = r * tl.cast(cols, tl.int64)
        v = tl.load(x + row + i, mask=i < cols, other=-float("inf")).to(tl.float32)
        v = tl.exp(v - tl.max(v, 0))
        tl.store(y + row + i, v / tl.sum(v, 0), mask=i < cols)


def softmax(y: Any, x: Any) -> None:
    """Write softmax of the rows of x to y; both contiguous, of shape [rows, cols]."""
    rows, cols = x.shape
    width = triton.next_power_of_2(cols)
    warps = max(1, min(32, width // 512))
    programs = min(rows, processors(x.device) * max(1, 64 // warps))
    launch(softmax_kernel, (programs,), y, x, rows, cols, COLS=width, num_warps=warps)
