# mypy: disallow-untyped-defs=False
"""From the product of a layer to the heads of attention: norm, rotation and layout of queries and keys in one pass.

    n = x rsqrt(mean x^2 + eps)  (or n = x)         y1 = n1 c - n2 s,  y2 = n2 c + n1 s
    g1 = dy1 c + dy2 s,  g2 = dy2 c - dy1 s         dx = rstd (g - n mean(g n))  (or dx = g)

x is a query or a key of D numbers, 1 and 2 its halves, c and s cosine and sine of its position's angles. With N tokens
of H heads in s bytes: forward 6 s N H D bytes (three tensors read and written), backward 8 s N H D with a norm, whose
statistics are found again. At 65,536 tokens of 12 heads
of 64 in bf16, in MB and in ms at 4.2 TB/s:

>>> [(round(moved * 2 * 65536 * 768 / 1e6), round(moved * 2 * 65536 * 768 / 4.2e9, 2)) for moved in (6, 8)]
[(604, 0.14), (805, 0.19)]

A compiler that fuses these lines with the concatenation of the three gradients computes
every one of them for all three parts; here a program has rows of one part only.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["heads_backward_kernel", "heads_kernel"]


@triton.jit
def rows_of(rows, heads, T, ROWS: tl.constexpr, HALF: tl.constexpr):
    """Numbers of tokens, heads and positions of a program's rows, [ROWS, 1]; which there are; columns of a half."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    token = row // heads
    return token.to(tl.int64), row % heads, token % T, row < rows, tl.arange(0, HALF)[None, :]


@triton.jit
def normalized(x1, x2, NORMALIZE: tl.constexpr):
    """Both halves of rows in fp32, divided by the root of their mean square; and one over that."""
    a1, a2 = x1.to(tl.float32), x2.to(tl.float32)
    rstd = tl.full([x1.shape[0], 1], 1.0, tl.float32)
    if NORMALIZE:
        rstd = tl.rsqrt(tl.sum(a1 * a1 + a2 * a2, 1) / (2 * x1.shape[1]) + 1e-6)[:, None]
    return a1 * rstd, a2 * rstd, rstd


@triton.jit
def heads_kernel(
    q, k, v, qkv, cosine, sine, rows, heads, T,
    HALF: tl.constexpr, ROWS: tl.constexpr, NORMALIZE: tl.constexpr,
):  # fmt: skip
    """ROWS heads of tokens of one part: program_id(1) is 0 for queries, 1 for keys, 2 for values, which are copied."""
    part = tl.program_id(1)
    token, head, position, there, i = rows_of(rows, heads, T, ROWS, HALF)
    x = qkv + ((token * 3 + part) * heads + head) * (2 * HALF) + i
    out = (token * heads + head) * (2 * HALF) + i
    x1 = tl.load(x, mask=there, other=0.0)
    x2 = tl.load(x + HALF, mask=there, other=0.0)
    if part == 2:
        tl.store(v + out, x1, mask=there)
        tl.store(v + out + HALF, x2, mask=there)
    else:
        n1, n2, _ = normalized(x1, x2, NORMALIZE)
        c = tl.load(cosine + position * HALF + i, mask=there, other=0.0)
        s = tl.load(sine + position * HALF + i, mask=there, other=0.0)
        y = q if part == 0 else k
        tl.store(y + out, (n1 * c - n2 * s).to(q.dtype.element_ty), mask=there)
        tl.store(y + out + HALF, (n2 * c + n1 * s).to(q.dtype.element_ty), mask=there)


@triton.jit
def heads_backward_kernel(
    dqkv, dq, dk, dv, qkv, cosine, sine, rows, heads, T,
    HALF: tl.constexpr, ROWS: tl.constexpr, NORMALIZE: tl.constexpr,
):  # fmt: skip
    """The gradient of the same rows; dq, dk and dv are [N, H, D]."""
    part = tl.program_id(1)
    token, head, position, there, i = rows_of(rows, heads, T, ROWS, HALF)
    place = ((token * 3 + part) * heads + head) * (2 * HALF) + i
    given = (token * heads + head) * (2 * HALF) + i
    dy = dv if part == 2 else (dk if part == 1 else dq)
    dy1 = tl.load(dy + given, mask=there, other=0.0)
    dy2 = tl.load(dy + given + HALF, mask=there, other=0.0)
    if part == 2:
        tl.store(dqkv + place, dy1, mask=there)
        tl.store(dqkv + place + HALF, dy2, mask=there)
    else:
        c = tl.load(cosine + position * HALF + i, mask=there, other=0.0)
        s = tl.load(sine + position * HALF + i, mask=there, other=0.0)
        g1, g2 = dy1.to(tl.float32) * c + dy2.to(tl.float32) * s, dy2.to(tl.float32) * c - dy1.to(tl.float32) * s
        if NORMALIZE:
            x1 = tl.load(qkv + place, mask=there, other=0.0)
            x2 = tl.load(qkv + place + HALF, mask=there, other=0.0)
            n1, n2, rstd = normalized(x1, x2, NORMALIZE)
            mean = tl.sum(g1 * n1 + g2 * n2, 1)[:, None] / (2 * HALF)
            g1, g2 = rstd * (g1 - n1 * mean), rstd * (g2 - n2 * mean)
        tl.store(dqkv + place, g1.to(dqkv.dtype.element_ty), mask=there)
        tl.store(dqkv + place + HALF, g2.to(dqkv.dtype.element_ty), mask=there)
