# mypy: disallow-untyped-defs=False
"""Quantization in one pass: each number is read once, its code and its scale are written.

The bytes are the least, 2 read and 1 (or a half) written for an element in bf16, beside the scales. What a block's
scale needs, its largest magnitude, is found in registers. The codes come from integer arithmetic on the bits of an fp32
number, rounded to nearest, ties to even, which every chip can do, in about 20 instructions an element.

>>> rows_to_fp8_kernel.__name__, blocks_to_mx_kernel.__name__
('rows_to_fp8_kernel', 'blocks_to_mx_kernel')
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["blocks_to_mx_kernel", "blocks_to_nvfp4_kernel", "rows_to_fp8_kernel", "tensor_to_fp8_kernel"]


@triton.jit
def to_fp8(v):
    """Codes of e4m3 for numbers in fp32; what is too large becomes 448, NaN stays NaN."""
    u = v.to(tl.uint32, bitcast=True)
    size = tl.minimum(tl.abs(v), 448.0)
    m = size.to(tl.uint32, bitcast=True)
    normal = ((m + 0x7FFFF + ((m >> 20) & 1)) >> 20) - (120 << 3)  # 20 bits are rounded off, the bias goes 127 to 7
    # Below 2^-6 the step is 2^-9: that of fp32 above 2^14, so adding 2^14 rounds, and leaves the count of steps.
    tiny = (size + 16384.0).to(tl.uint32, bitcast=True) - 0x46800000
    code = tl.where(size < 0.015625, tiny, normal)
    code = tl.where(v == v, code, 0x7F)
    return (code | ((u >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def to_fp4(v):
    """Codes of e2m1 for numbers in fp32; what is too large becomes 6, and so does NaN, for which there is no code."""
    u = v.to(tl.uint32, bitcast=True)
    size = tl.minimum(tl.abs(v), 6.0)
    m = size.to(tl.uint32, bitcast=True)
    normal = ((m + 0x1FFFFF + ((m >> 22) & 1)) >> 22) - (126 << 1)
    tiny = (size + 4194304.0).to(tl.uint32, bitcast=True) - 0x4A800000  # steps of 0.5 below 1
    return tl.where(size < 1.0, tiny, normal) | ((u >> 28) & 8)


@triton.jit
def packed(codes, BLOCKS: tl.constexpr, BLOCK: tl.constexpr):
    """Two codes of 4 bits in a byte, the first in its low half."""
    low, high = tl.split(tl.reshape(codes, [BLOCKS, BLOCK // 2, 2]))
    return (low | (high << 4)).to(tl.uint8)


@triton.jit
def rows_to_fp8_kernel(q, scale, x, rows, cols, x_step, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Rows of x, `x_step` apart, to codes, `cols` apart, and a scale for each, with which its largest becomes 448."""
    r = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    c = tl.arange(0, COLS)[None, :]
    inside = (r < rows) & (c < cols)
    v = tl.load(x + r * x_step + c, mask=inside, other=0.0).to(tl.float32)
    largest = tl.max(tl.abs(v), 1, keep_dims=True)
    s = tl.where(largest == 0.0, 1.0, largest / 448.0)
    tl.store(scale + r, s, mask=r < rows)
    tl.store(q + r * cols + c, to_fp8(v / s), mask=inside)


@triton.jit
def tensor_to_fp8_kernel(q, x, scale, n, BLOCK: tl.constexpr):
    """Numbers that lie side by side to codes, with one scale that is there already."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(q + i, to_fp8(v / tl.load(scale)), mask=i < n)


@triton.jit
def blocks_to_mx_kernel(q, scale, x, blocks, FOUR: tl.constexpr, BLOCKS: tl.constexpr):
    """Blocks of 32 numbers to codes of 8 or 4 bits, and a power of two for each: the exponent of the largest number,
    less that of the format's largest (OCP specification, section 6.3)."""
    b = (tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)).to(tl.int64)[:, None]
    v = tl.load(x + b * 32 + tl.arange(0, 32)[None, :], mask=b < blocks, other=0.0).to(tl.float32)
    bits = tl.max(v.to(tl.uint32, bitcast=True) & 0x7FFFFFFF, 1, keep_dims=True)  # magnitudes in order, NaN the largest
    exponent = (bits >> 23).to(tl.int32)
    e = tl.where(exponent == 255, 255, tl.maximum(exponent - (2 if FOUR else 8), 0))
    tl.store(scale + b, e.to(tl.uint8), mask=b < blocks)
    # 2^(127 - e), as its bits; 2^-127 of e = 254 has no exponent of its own in fp32.
    inverse = tl.where(e == 254, 0x00400000, (254 - e) << 23).to(tl.uint32).to(tl.float32, bitcast=True)
    v = tl.where(e == 255, float("nan"), v * inverse)
    if FOUR:
        half = b * 16 + tl.arange(0, 16)[None, :]
        tl.store(q + half, packed(to_fp4(v), BLOCKS, 32), mask=b < blocks)
    else:
        tl.store(q + b * 32 + tl.arange(0, 32)[None, :], to_fp8(v), mask=b < blocks)


@triton.jit
def blocks_to_nvfp4_kernel(q, scale, x, tensor_scale, blocks, BLOCKS: tl.constexpr):
    """Blocks of 16 numbers to codes of 4 bits, and a scale of 8 bits for each, in units of the tensor's scale."""
    b = (tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)).to(tl.int64)[:, None]
    v = tl.load(x + b * 16 + tl.arange(0, 16)[None, :], mask=b < blocks, other=0.0).to(tl.float32)
    unit = tl.load(tensor_scale)
    code = to_fp8(tl.max(tl.abs(v), 1, keep_dims=True) / 6.0 / unit)
    tl.store(scale + b, code, mask=b < blocks)
    # The code's own number: what was rounded is what the elements are divided by.
    c = code.to(tl.uint32)
    normal = ((c << 20) + (120 << 23)).to(tl.float32, bitcast=True)
    s = tl.where(c < 8, c.to(tl.float32) * 0.001953125, normal) * unit
    v = tl.where(s == 0.0, 0.0, v / s)
    half = b * 8 + tl.arange(0, 8)[None, :]
    tl.store(q + half, packed(to_fp4(v), BLOCKS, 16), mask=b < blocks)
