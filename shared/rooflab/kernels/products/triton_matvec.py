# mypy: disallow-untyped-defs=False
"""Few rows times a matrix of weights in 16, 8 or 4 bits, as when a model writes one token after another: y = x W^T.

    y[b, n] = sum over groups g of s[n, g] (sum over the k of group g of (q[n, k] - z[n, g]) x[b, k])

FLOPs: 2 B N K. Bytes: those of W, N K / 2 with 4 bits, which are read once; x and y are next to nothing. So the memory
is the roof, if the instructions keep up: an H200 that reads 4.3 TB/s gets 8.6e12 codes of 4 bits a second, and its 132
multiprocessors issue 128 lanes at 1.98 GHz, 3.9 instructions for each code:

>>> round(132 * 128 * 1.98e9 / (4.3e12 * 2), 1)
3.9

* The matrix units multiply and add, whatever the number of rows: 8 rows cost no more than one, and sums are in fp32.
* A code becomes a number without a conversion. The bits 0x4300 are 128 in bf16, where the last place is worth one: with
  q in the lowest bits they are 128 + q, and 136 less is q - 8. Two codes at a time take a permutation of bytes or a
  shift, one logical instruction and one subtraction. In fp16, 0x6400 is 1024.
* The low halves of all bytes meet the even x, the high halves the odd ones: two products, and nothing is interleaved.
* The matrix units have 8 columns for x, of which one row fills one. The others keep groups apart: the column of a group
  holds its part of x, and zeros elsewhere, so that each of its sums can be scaled in fp32 afterwards.
* Where N gives too few programs, K is cut into ranges, whose sums `add_splits_kernel` adds up in one order.

On Hopper, weights in 4 bits have a kernel of their own, :mod:`.triton_matvec_hopper`.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["matvec_kernel"]


def _asm(kind: str, magic: str, less: str, one: str) -> str:
    """PTX: four bytes in one register to the low halves, in two registers of two numbers, and the high halves."""
    return f"""{{
        .reg .b32 m, b, o, p, q;
        mov.b32 m, 0x{magic * 4};
        mov.b32 b, 0x{less * 2};
        mov.b32 o, 0x{one * 2};
        prmt.b32 p, $4, m, 0x4140;
        prmt.b32 q, $4, m, 0x4342;
        lop3.b32 $0, p, 0x{magic}0F{magic}0F, 0, 0xC0;
        lop3.b32 $1, q, 0x{magic}0F{magic}0F, 0, 0xC0;
        shr.u32 p, p, 4;
        shr.u32 q, q, 4;
        lop3.b32 $2, p, 0x000F000F, 0x{magic}00{magic}00, 0xEA;
        lop3.b32 $3, q, 0x000F000F, 0x{magic}00{magic}00, 0xEA;
        fma.rn.{kind}x2 $0, $0, o, b;
        fma.rn.{kind}x2 $1, $1, o, b;
        fma.rn.{kind}x2 $2, $2, o, b;
        fma.rn.{kind}x2 $3, $3, o, b;
        }}"""


_BF16 = tl.constexpr(_asm("bf16", "43", "C308", "3F80"))
_FP16 = tl.constexpr(_asm("f16", "64", "E408", "3C00"))


@triton.jit
def unpack(codes, x, PTX: tl.constexpr):
    """Low and high halves of bytes, less 8, in the format of x, which holds them exactly."""
    if not PTX:
        low, high = ((codes & 15).to(tl.float32) - 8.0).to(x.dtype), ((codes >> 4).to(tl.float32) - 8.0).to(x.dtype)
    elif x.dtype == tl.bfloat16:
        low, high = tl.inline_asm_elementwise(
            _BF16, "=&r,=&r,=&r,=&r,r", [codes], dtype=(tl.bfloat16, tl.bfloat16), is_pure=True, pack=4
        )
    else:
        low, high = tl.inline_asm_elementwise(
            _FP16, "=&r,=&r,=&r,=&r,r", [codes], dtype=(tl.float16, tl.float16), is_pure=True, pack=4
        )
    return low, high


@triton.jit
def widen(codes, x, FORM: tl.constexpr, PTX: tl.constexpr):
    """Codes of 8 bits in the format of x, which holds them exactly; other weights as they are."""
    if FORM == "int8":
        v = codes.to(tl.float32).to(x.dtype) if not PTX else codes.to(x.dtype)
    elif FORM == "fp8" and PTX:
        # By way of fp32: from fp16 to bf16 directly is an instruction of an eighth of the rate.
        v = codes.to(tl.float8e4nv, bitcast=True).to(tl.float16).to(tl.float32).to(x.dtype)
    elif FORM == "fp8":
        # Sign, exponent and mantissa at their places in fp32; 2^120 makes up for the difference of the biases.
        bits = codes.to(tl.uint32)
        v = ((bits & 0x7F) << 20 | (bits & 0x80) << 24).to(tl.float32, bitcast=True) * 1.329227995784916e36
        v = tl.where((bits & 0x7F) == 0x7F, float("nan"), v).to(x.dtype)
    else:
        v = codes
    return v


@triton.jit(do_not_specialize=["steps"])
def matvec_kernel(
    y, x, w, scale, zero, N, K, cols, w_step, x_step, s_row, s_group, rows, steps,
    R: tl.constexpr, KB: tl.constexpr, FORM: tl.constexpr, GROUP: tl.constexpr, ZERO: tl.constexpr, P: tl.constexpr,
    STAGES: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """R rows of W times `rows` rows of x, over a range of `steps` times KB of K.

    w is [N, cols], its rows w_step apart; cols is K, or half of it if FORM is "int4". scale and zero are
    [N, K / GROUP], their rows s_row and their columns s_group apart, or [N] if GROUP is 0. y is [splits, rows, N].
    P, a power of two, is at least `rows`.
    Grid: (N / R, splits), both rounded up.
    """
    PACK: tl.constexpr = 2 if FORM == "int4" else 1
    GROUPS: tl.constexpr = KB // GROUP if GROUP else 1
    C: tl.constexpr = P * GROUPS if P * GROUPS > 8 else 8
    r = tl.program_id(0) * R + tl.arange(0, R)
    known = (r < N)[:, None]
    i, j, c = tl.arange(0, KB)[:, None], tl.arange(0, KB // PACK)[None, :], tl.arange(0, C)[None, :]
    # Column c has row c % P of x, and of this the part in group c // P.
    mine = (c % P < rows) & (i // (KB // GROUPS) == c // P)
    scaled = known & (c // P < GROUPS)
    at_w, at_x = w + r.to(tl.int64)[:, None] * w_step + j, x + c % P * x_step + i
    at_group = r.to(tl.int64)[:, None] * s_row + c // P * s_group
    first = tl.program_id(1) * steps
    last = tl.minimum(first + steps, tl.cdiv(K, KB))
    total = tl.zeros((R, C), tl.float32)
    one = tl.full((R, KB // PACK), 1.0, x.dtype.element_ty)
    # Scales of the next step are on their way during this one; the first step's here.
    s = tl.load(scale + at_group + first * GROUPS * s_group, mask=scaled & (first < last), other=0.0) if GROUP else one
    z = tl.load(zero + at_group + first * GROUPS * s_group, mask=scaled & (first < last), other=0) if ZERO else one
    for step in tl.range(first, last, num_stages=STAGES):
        codes = tl.load(at_w + step * (KB // PACK), mask=known & (step * (KB // PACK) + j < cols), other=0)
        xs = tl.load(at_x + step * KB, mask=mine & (step * KB + i < K), other=0.0)
        now, off = s, z
        if GROUP:
            s = tl.load(scale + at_group + (step + 1) * GROUPS * s_group, mask=scaled & (step + 1 < last), other=0.0)
        if ZERO:
            z = tl.load(zero + at_group + (step + 1) * GROUPS * s_group, mask=scaled & (step + 1 < last), other=0)
        if FORM == "int4":
            low, high = unpack(codes, xs, PTX)
            even, odd = tl.split(tl.permute(tl.reshape(xs, (KB // 2, 2, C)), (0, 2, 1)))
            acc = tl.dot(high, odd, tl.dot(low, even))
            if ZERO:  # the sums of x come from the matrix units, too, where they are needed
                acc -= (off.to(tl.float32) - 8.0) * tl.dot(one, odd, tl.dot(one, even))
        else:
            acc = tl.dot(widen(codes, xs, FORM, PTX), xs)
        total += acc * now.to(tl.float32) if GROUP else acc
    if FORM != "plain" and GROUP == 0:
        total *= tl.load(scale + r, mask=r < N, other=0.0).to(tl.float32)[:, None]
    b = tl.arange(0, P)[None, :]
    at_y = y + (tl.program_id(1) * rows + b).to(tl.int64) * N + r[:, None]
    tl.store(at_y, tl.sum(tl.reshape(total, (R, C // P, P)), 1), mask=known & (b < rows))
