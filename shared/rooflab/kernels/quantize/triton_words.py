# mypy: disallow-untyped-defs=False
"""Codes of 4 bits from bf16, two numbers in a word of 32 bits and an instruction: on NVIDIA's chips from 8.0 on.

The numbers of bf16 from 128 to 255 are the whole ones, so a multiply-add whose sum lies there rounds to a whole number,
once, ties to even, and leaves it in the sum's last bits. Of a size a, in units of its block's scale, the code is the
least of three such sums: 2 a, a + 2 and a / 2 + 4.

Nothing here is interpreted: the tests carry out the text of these instructions in NumPy.

>>> PAIR.value.count("fma.rn.bf16x2"), NUMBERS.value.count("fma.rn.f32")
(4, 6)
"""

from __future__ import annotations

import triton
import triton.language as tl

from .triton_quantize import blocks_to_nvfp4_kernel, from_fp8, to_fp8

__all__ = ["EIGHT", "LARGEST", "NUMBERS", "PAIR", "blocks_to_mxfp4_words_kernel", "blocks_to_nvfp4_words_kernel"]

# The largest magnitude in four words, in both halves; ".NaN" in place of KEEP: NaN if there is one.
LARGEST = tl.constexpr("""{
    .reg .b32 a, b, c, d;
    abs.bf16x2 a, $1;
    abs.bf16x2 b, $2;
    abs.bf16x2 c, $3;
    abs.bf16x2 d, $4;
    maxKEEP.bf16x2 a, a, b;
    maxKEEP.bf16x2 c, c, d;
    maxKEEP.bf16x2 a, a, c;
    prmt.b32 b, a, a, 0x1032;
    maxKEEP.bf16x2 $0, a, b;
}""")
LARGEST_KEEPS_NAN = tl.constexpr(LARGEST.value.replace("KEEP", ".NaN"))
LARGEST_NUMBER = tl.constexpr(LARGEST.value.replace("KEEP", ""))

# The codes of two numbers times a power of two, which is exact; in the last bits of each half. The third sum is
# 0.298828125 a + 5: of the sizes of bf16 below 8 all get the same code as by a / 2 + 4, and none one above 7.
PAIR = tl.constexpr("""{
    .reg .b32 a, s, t, u, k, n;
    abs.bf16x2 a, $1;
    mov.b32 n, 0x80008000;
    fma.rn.bf16x2 a, a, $2, n;
    mov.b32 k, 0x40004000;
    mov.b32 n, 0x43004300;
    fma.rn.bf16x2 s, a, k, n;
    mov.b32 k, 0x3F803F80;
    mov.b32 n, 0x43024302;
    fma.rn.bf16x2 t, a, k, n;
    mov.b32 k, 0x3E993E99;
    mov.b32 n, 0x43054305;
    fma.rn.bf16x2 u, a, k, n;
    min.bf16x2 s, s, t;
    min.bf16x2 $0, s, u;
}""")

# The same for two numbers, at most $2, by a number $3 of fp32: twice it is $4, half of it $5. The sums are rounded to
# 2^-16 before they become whole: what is so near to a tie counts as one, as it would but for the rounding of $3.
NUMBERS = tl.constexpr("""{
    .reg .b32 a, b, s, t, u;
    abs.bf16x2 a, $1;
    min.bf16x2 a, a, $2;
    shl.b32 b, a, 16;
    and.b32 a, a, 0xFFFF0000;
    fma.rn.f32 s, a, $4, 0f43000000;
    fma.rn.f32 t, a, $3, 0f43020000;
    fma.rn.f32 u, a, $5, 0f43040000;
    min.u32 s, s, t;
    min.u32 a, s, u;
    fma.rn.f32 s, b, $4, 0f43000000;
    fma.rn.f32 t, b, $3, 0f43020000;
    fma.rn.f32 u, b, $5, 0f43040000;
    min.u32 s, s, t;
    min.u32 b, s, u;
    cvt.rn.bf16x2.f32 $0, a, b;
}""")

# Eight codes in a word, the first one lowest: of four words of codes $1 to $4, and of their numbers $5 to $8 the signs,
# which `prmt` spreads over a byte.
EIGHT = tl.constexpr("""{
    .reg .b32 a, b, s, t;
    prmt.b32 a, $1, $2, 0x6240;
    prmt.b32 b, $3, $4, 0x6240;
    prmt.b32 s, $5, $6, 0xFBD9;
    prmt.b32 t, $7, $8, 0xFBD9;
    lop3.b32 a, a, s, 0x08080808, 0xF8;
    lop3.b32 b, b, t, 0x08080808, 0xF8;
    prmt.b32 s, a, b, 0x5410;
    prmt.b32 t, a, b, 0x7632;
    mad.lo.u32 $0, t, 16, s;
}""")
UPPER = tl.constexpr("prmt.b32 $0, $1, 0, 0x3232;")  # a number of fp32, cut off to bf16, twice
INVERSE = tl.constexpr("rcp.approx.ftz.f32 $0, $1;")


@triton.jit
def in_fours(x, b, inside, BLOCKS: tl.constexpr, N: tl.constexpr):
    """Words 0, 1, 2 and 3 of each four of the N words of a block: those that a thread loads in one go."""
    w = tl.load(x.to(tl.pointer_type(tl.int32), bitcast=True) + b * N + tl.arange(0, N)[None, :], mask=inside)
    even, odd = tl.split(tl.reshape(w, [BLOCKS, N // 4, 2, 2]))
    w0, w2 = tl.split(even)
    w1, w3 = tl.split(odd)
    return w0, w1, w2, w3


@triton.jit
def largest_of(w0, w1, w2, w3, ASM: tl.constexpr):
    """The largest magnitude of eight numbers, twice in a word."""
    return tl.inline_asm_elementwise(ASM, "=r,r,r,r,r", [w0, w1, w2, w3], dtype=tl.int32, is_pure=True, pack=1)


@triton.jit
def pair(w, inverse):
    """The codes of two numbers; `inverse` is a pair, too."""
    return tl.inline_asm_elementwise(PAIR, "=r,r,r", [w, inverse], dtype=tl.int32, is_pure=True, pack=1)


@triton.jit
def numbers(w, most, inverse, twice, half):
    """The codes of two numbers, cut off at the pair `most`; the others are numbers of fp32."""
    given = [w, most, inverse, twice, half]
    return tl.inline_asm_elementwise(NUMBERS, "=r,r,r,r,r,r", given, dtype=tl.int32, is_pure=True, pack=1)


@triton.jit
def eight(c0, c1, c2, c3, w0, w1, w2, w3):
    """Codes and signs, packed."""
    given = [c0, c1, c2, c3, w0, w1, w2, w3]
    return tl.inline_asm_elementwise(EIGHT, "=r,r,r,r,r,r,r,r,r", given, dtype=tl.int32, is_pure=True, pack=1)


@triton.jit
def blocks_to_mxfp4_words_kernel(q, scale, x, blocks, BLOCKS: tl.constexpr):
    """What `blocks_to_mx_kernel` does with bf16; x begins at a multiple of 4 bytes."""
    first = tl.program_id(0) * BLOCKS
    b = tl.arange(0, BLOCKS)[:, None]
    inside = b < blocks - first
    w0, w1, w2, w3 = in_fours(x + first.to(tl.int64) * 32, b, inside, BLOCKS, 16)
    # Exponents stay where they are in bf16, from bit 7 on.
    exponent = tl.max(largest_of(w0, w1, w2, w3, LARGEST_KEEPS_NAN) & 0x7F80, 1, keep_dims=True)
    unknown = exponent == 0x7F80  # with NaN or an infinity in it
    e = tl.maximum(exponent - 0x100, 0)
    tl.store(scale + first + b, tl.where(unknown, 255, e >> 7).to(tl.uint8), mask=inside)
    inverse = (0x7F00 - e) * 0x10001  # 2^(127 - e) twice
    c0, c1, c2, c3 = pair(w0, inverse), pair(w1, inverse), pair(w2, inverse), pair(w3, inverse)
    codes = tl.where(unknown, 0x77777777, eight(c0, c1, c2, c3, w0, w1, w2, w3))
    tl.store(q + first.to(tl.int64) * 4 + b * 4 + tl.arange(0, 4)[None, :], codes, mask=inside)


@triton.jit
def blocks_to_nvfp4_words_kernel(q, scale, x, tensor_scale, blocks, CONVERTS: tl.constexpr, BLOCKS: tl.constexpr):
    """What `blocks_to_nvfp4_kernel` does with bf16; x begins at a multiple of 4 bytes."""
    first = tl.program_id(0) * BLOCKS
    b = tl.arange(0, BLOCKS)[:, None]
    inside = b < blocks - first
    w0, w1, w2, w3 = in_fours(x + first.to(tl.int64) * 16, b, inside, BLOCKS, 8)
    unit = tl.load(tensor_scale)
    if (unit > 1e-28) & (unit < 1e30):  # so that no product below overflows, and no reciprocal
        largest = (largest_of(w0, w1, w2, w3, LARGEST_NUMBER) & -0x10000).to(tl.float32, bitcast=True)
        # As a division by 6 and by the unit is compiled; the reciprocal of the unit is the same for all blocks.
        code = to_fp8(tl.max(largest, 1, keep_dims=True) * (1 / 6) * (1.0 / unit), CONVERTS)
        tl.store(scale + first + b, code, mask=inside)
        s = from_fp8(code, CONVERTS)
        # More than 6 has the code of 6; of NaN and of it this is the least. In a block of scale 0 it is 0, and what is
        # added to the scale, less than its rounding, keeps the reciprocal finite.
        most = tl.inline_asm_elementwise(UPPER, "=r,r", [s * (6.0 * unit)], dtype=tl.int32, is_pure=True, pack=1)
        s = tl.fma(s, unit, 1.2e-38)
        inverse = tl.inline_asm_elementwise(INVERSE, "=r,r", [s], dtype=tl.float32, is_pure=True, pack=1)
        twice, half = inverse + inverse, inverse * 0.5
        c0, c1 = numbers(w0, most, inverse, twice, half), numbers(w1, most, inverse, twice, half)
        c2, c3 = numbers(w2, most, inverse, twice, half), numbers(w3, most, inverse, twice, half)
        codes = eight(c0, c1, c2, c3, w0, w1, w2, w3)
        tl.store(q + first.to(tl.int64) * 2 + b * 2 + tl.arange(0, 2)[None, :], codes, mask=inside)
    else:
        blocks_to_nvfp4_kernel(q, scale, x, tensor_scale, blocks, CONVERTS, BLOCKS)
