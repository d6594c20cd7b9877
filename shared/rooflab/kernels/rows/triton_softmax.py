# mypy: disallow-untyped-defs=False
"""Softmax over rows in one kernel, forward and backward: each element is read once and written once.

    y = exp(x - max(x)) / sum(exp(x - max(x)))        dx = y (dy - sum(y dy))

A program takes some whole rows, which stay in registers between the passes over them. So the bytes are the least there
are, s n read and s n written forward, 2 s n read and s n written backward, for n elements of s bytes; at 5 FLOPs an
element nothing but the memory counts.

>>> softmax_kernel.__name__, softmax_backward_kernel.__name__
('softmax_kernel', 'softmax_backward_kernel')
"""

from __future__ import annotations

import triton
import triton.language as tl

from .triton_ahead import fetch_ahead

__all__ = ["softmax_backward_kernel", "softmax_kernel"]


@triton.jit
def softmax_kernel(y, x, rows, cols, x_step, ROWS: tl.constexpr, COLS: tl.constexpr, AHEAD: tl.constexpr):
    """Rows of x, `x_step` elements apart, to rows of y, `cols` apart; COLS is a power of two, at least `cols`."""
    r = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    c = tl.arange(0, COLS)[None, :]
    inside = (r < rows) & (c < cols)
    v = tl.load(x + r * x_step + c, mask=inside, other=-float("inf")).to(tl.float32)
    if AHEAD:
        fetch_ahead(x, cols, x_step, COLS, AHEAD)
    v = tl.exp2((v - tl.max(v, 1, keep_dims=True)) * 1.4426950408889634)  # exp(v) = 2^(v log2(e)): one instruction
    tl.store(y + r * cols + c, v / tl.sum(v, 1, keep_dims=True), mask=inside)


@triton.jit
def softmax_backward_kernel(dx, y, dy, rows, cols, dy_step, ROWS: tl.constexpr, COLS: tl.constexpr):
    """The gradient from y and dy, `dy_step` elements a row apart, to dx; y and dx are `cols` apart."""
    r = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    c = tl.arange(0, COLS)[None, :]
    inside = (r < rows) & (c < cols)
    p = tl.load(y + r * cols + c, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(dy + r * dy_step + c, mask=inside, other=0.0).to(tl.float32)
    tl.store(dx + r * cols + c, p * (g - tl.sum(p * g, 1, keep_dims=True)), mask=inside)
