# mypy: disallow-untyped-defs=False
"""Quantization in one pass: each number is read once, its code and its scale are written.

The bytes are the least, 2 read and 1 (or a half) written for an element in bf16, beside the scales. What a block's
scale needs, its largest magnitude, is found in registers. An H200 has time for 25 instructions an element, and for half
as many with whole numbers. So codes come from the instruction that some chips have for e4m3, two at a time, and codes
of 4 bits through it; elsewhere (CONVERTS is False) from integer arithmetic on the bits of an fp32 number, rounded to
nearest, ties to even, which every chip can do, in about 20 instructions.

>>> rows_to_fp8_kernel.__name__, blocks_to_mx_kernel.__name__
('rows_to_fp8_kernel', 'blocks_to_mx_kernel')
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["blocks_to_mx_kernel", "blocks_to_nvfp4_kernel", "rows_to_fp8_kernel", "tensor_to_fp8_kernel"]


@triton.jit
def to_fp8(v, CONVERTS: tl.constexpr):
    """Codes of e4m3 for numbers in fp32; what is too large becomes 448, NaN stays NaN."""
    if CONVERTS:
        code = v.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    else:
        u = v.to(tl.uint32, bitcast=True)
        size = tl.minimum(tl.abs(v), 448.0)
        m = size.to(tl.uint32, bitcast=True)
        normal = ((m + 0x7FFFF + ((m >> 20) & 1)) >> 20) - (120 << 3)  # 20 bits are rounded off, the bias goes 127 to 7
        # Below 2^-6 the step is 2^-9: that of fp32 above 2^14, so adding 2^14 rounds, and leaves the count of steps.
        tiny = (size + 16384.0).to(tl.uint32, bitcast=True) - 0x46800000
        code = tl.where(size < 0.015625, tiny, normal)
        code = tl.where(v == v, code, 0x7F)
        code = (code | ((u >> 24) & 0x80)).to(tl.uint8)
    return code


@triton.jit
def from_fp8(code, CONVERTS: tl.constexpr):
    """The numbers of codes of e4m3 without a sign, in fp32."""
    if CONVERTS:
        number = code.to(tl.float8e4nv, bitcast=True).to(tl.float32)
    else:
        c = code.to(tl.uint32)
        normal = ((c << 20) + (120 << 23)).to(tl.float32, bitcast=True)
        number = tl.where(c < 8, c.to(tl.float32) * 0.001953125, normal)
    return number


@triton.jit
def halves(a, BLOCKS: tl.constexpr, N: tl.constexpr):
    """Numbers 0, 2, 4 ... of each block of N, and numbers 1, 3, 5 ..."""
    return tl.split(tl.reshape(a, [BLOCKS, N // 2, 2]))


@triton.jit
def words(codes, BLOCKS: tl.constexpr, N: tl.constexpr):
    """N codes of 8 bits in each block, four in a word, the first one lowest."""
    even, odd = halves(codes.to(tl.uint32), BLOCKS, N)
    first, second = halves(even | (odd << 8), BLOCKS, N // 2)
    return first | (second << 16)


@triton.jit
def positive(scale):
    """A scale, or NaN for one of 0 or below: nothing that it would be multiplied by gives the numbers back."""
    s = tl.load(scale)
    return tl.where(s > 0.0, s, float("nan"))


@triton.jit
def to_fp4(v, BLOCKS: tl.constexpr, BLOCK: tl.constexpr):
    """Codes of e2m1 for blocks of numbers in fp32, eight in a word, the first one lowest; what is too large becomes 6,
    and so does NaN, for which there is no code."""
    u = v.to(tl.uint32, bitcast=True)
    m = tl.minimum(u & 0x7FFFFFFF, 0x40C00000)  # at most 6, as whole numbers, of which NaN is the largest
    size = m.to(tl.float32, bitcast=True)
    normal = ((m + 0x1FFFFF + ((m >> 22) & 1)) >> 22) - (126 << 1)
    tiny = (size + 4194304.0).to(tl.uint32, bitcast=True) - 0x4A800000  # steps of 0.5 below 1
    even, odd = halves(tl.where(size < 1.0, tiny, normal) | ((u >> 28) & 8), BLOCKS, BLOCK)
    return words(even | (odd << 4), BLOCKS, BLOCK // 2)


@triton.jit
def to_fp4_through_fp8(v, BLOCKS: tl.constexpr, BLOCK: tl.constexpr):
    """The same with the instruction for e4m3, for products of a number of 16 bits.

    The code of a size a is the least of 2 a, a + 2, a / 2 + 4 and 7, rounded to a whole number, ties to even. From 8 to
    15, e4m3 has just the whole numbers: with 8 added, the instruction rounds, and the code is in the last three bits.
    Before that the sum is rounded to 2^-20: a number of 16 bits times a power of two has nothing there, and a product
    that should be a tie, but for the rounding of its scale, becomes one.
    """
    size = tl.abs(v)
    # Compared as whole numbers, of which NaN is the largest; some chips find the least of three at a time.
    least = tl.minimum((size * 2.0 + 8.0).to(tl.uint32, bitcast=True), (size + 10.0).to(tl.uint32, bitcast=True))
    least = tl.minimum(least, tl.minimum((size * 0.5 + 12.0).to(tl.uint32, bitcast=True), 0x41700000))  # 15
    signed = least | (v.to(tl.uint32, bitcast=True) & 0x80000000)
    even, odd = halves(signed.to(tl.float32, bitcast=True), BLOCKS, BLOCK)
    even = words(even.to(tl.float8e4nv).to(tl.uint8, bitcast=True), BLOCKS, BLOCK // 2)
    odd = words(odd.to(tl.float8e4nv).to(tl.uint8, bitcast=True), BLOCKS, BLOCK // 2)
    even = (even & 0x07070707) | ((even >> 4) & 0x08080808)  # four at once: the sign goes next to the code
    return even | ((odd << 4) & 0x70707070) | (odd & 0x80808080)


@triton.jit
def larger(a, BLOCKS: tl.constexpr, N: tl.constexpr):
    """Of each two numbers that follow each other the larger one, NaN if one is."""
    even, odd = halves(a, BLOCKS, N)
    return tl.maximum(even, odd, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def rows_to_fp8_kernel(q, scale, x, rows, cols, x_step, CONVERTS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Rows of x, `x_step` apart, to codes, `cols` apart, and a scale for each, with which its largest becomes 448."""
    r = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    c = tl.arange(0, COLS)[None, :]
    inside = (r < rows) & (c < cols)
    v = tl.load(x + r * x_step + c, mask=inside, other=0.0).to(tl.float32)
    largest = tl.max(tl.abs(v), 1, keep_dims=True)
    s = tl.where(largest == 0.0, 1.0, largest / 448.0)
    tl.store(scale + r, s, mask=r < rows)
    tl.store(q + r * cols + c, to_fp8(v / s, CONVERTS), mask=inside)


@triton.jit
def tensor_to_fp8_kernel(q, x, scale, n, CONVERTS: tl.constexpr, BLOCK: tl.constexpr):
    """Numbers that lie side by side to codes, with one scale that is there already."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(q + i, to_fp8(v / positive(scale), CONVERTS), mask=i < n)


@triton.jit
def blocks_to_mx_kernel(q, scale, x, blocks, FOUR: tl.constexpr, CONVERTS: tl.constexpr, BLOCKS: tl.constexpr):
    """Blocks of 32 numbers to codes of 8 bits, or of 4 bits in words of 32, and a power of two for each block: the
    exponent of its largest number, less that of the format's largest (OCP specification, section 6.3)."""
    b = (tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)).to(tl.int64)[:, None]
    v = tl.load(x + b * 32 + tl.arange(0, 32)[None, :], mask=b < blocks, other=0.0).to(tl.float32)
    # Three times two by two, which a thread can do with the 16 bytes that it loads; the rest as whole numbers.
    largest = larger(larger(larger(tl.abs(v), BLOCKS, 32), BLOCKS, 16), BLOCKS, 8)
    bits = tl.max(largest.to(tl.uint32, bitcast=True), 1, keep_dims=True)
    exponent = ((bits >> 23) & 255).to(tl.int32)
    e = tl.where(exponent == 255, 255, tl.maximum(exponent - (2 if FOUR else 8), 0))
    tl.store(scale + b, e.to(tl.uint8), mask=b < blocks)
    # 2^(127 - e), as its bits: with its largest number finite, a block has e < 254. Else all of it becomes NaN.
    inverse = tl.where(e == 255, 0x7FC00000, (254 - e) << 23).to(tl.uint32).to(tl.float32, bitcast=True)
    v *= inverse
    if FOUR:
        if CONVERTS and x.dtype.element_ty != tl.float32:
            codes = to_fp4_through_fp8(v, BLOCKS, 32)
        else:
            codes = to_fp4(v, BLOCKS, 32)
        tl.store(q + b * 4 + tl.arange(0, 4)[None, :], codes, mask=b < blocks)
    else:
        tl.store(q + b * 32 + tl.arange(0, 32)[None, :], to_fp8(v, CONVERTS), mask=b < blocks)


@triton.jit
def blocks_to_nvfp4_kernel(q, scale, x, tensor_scale, blocks, CONVERTS: tl.constexpr, BLOCKS: tl.constexpr):
    """Blocks of 16 numbers to codes of 4 bits, in words of 32, and a scale of 8 bits for each, in units of the tensor's
    scale."""
    b = (tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)).to(tl.int64)[:, None]
    v = tl.load(x + b * 16 + tl.arange(0, 16)[None, :], mask=b < blocks, other=0.0).to(tl.float32)
    unit = positive(tensor_scale)
    code = to_fp8(tl.max(tl.abs(v), 1, keep_dims=True) / 6.0 / unit, CONVERTS)
    tl.store(scale + b, code, mask=b < blocks)
    # The code's own number: what was rounded is what the elements are divided by. In a block of scale 0 all become 0.
    s = from_fp8(code, CONVERTS) * unit
    if CONVERTS:  # s may be too small for its reciprocal to be finite
        codes = to_fp4_through_fp8(v * tl.where(s == 0.0, 0.0, tl.minimum(1.0 / s, 3e38)), BLOCKS, 16)
    else:
        codes = to_fp4(tl.where(s == 0.0, 0.0, v / s), BLOCKS, 16)
    tl.store(q + b * 2 + tl.arange(0, 2)[None, :], codes, mask=b < blocks)
