# mypy: disallow-untyped-defs=False
"""GELU and SwiGLU in one pass, forward and backward.

    gelu(x) = x P(x)            with the normal distribution function P, or S(2 sqrt(2/pi) (x + 0.044715 x^3)) for it
    swiglu(g, u) = g S(g) u     with S(z) = 1 / (1 + exp(-z))

Forward reads and writes each element once, s n bytes for each array. In the time of 4 bytes of traffic, which is what
an element of GELU moves in bf16, an H200 issues about 30 instructions for it, and a library's erf alone takes most of
them. So P comes from an exponential, a reciprocal and a polynomial (Abramowitz and Stegun 1964, formula 7.1.26, whose
error is below 1.5e-7); the same exponential is the density that the gradient needs. Forward in 16 bits an exponential
of a polynomial is enough.

>>> gelu_kernel.__name__, swiglu_backward_kernel.__name__
('gelu_kernel', 'swiglu_backward_kernel')
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["gelu_backward_kernel", "gelu_kernel", "swiglu_backward_kernel", "swiglu_kernel"]


@triton.jit
def piece(cols, BLOCK: tl.constexpr):
    """The row and the columns of this program, and which of them there are."""
    pieces = tl.cdiv(cols, BLOCK)
    row = (tl.program_id(0) // pieces).to(tl.int64)
    c = (tl.program_id(0) % pieces).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return row, c, c < cols


@triton.jit
def normal_tail(x):
    """The normal distribution function of -|x|, and exp(-x^2 / 2)."""
    e = tl.exp2(-0.7213475204444817 * x * x)
    t = 1.0 / (1.0 + 0.23164189 * tl.abs(x))  # 0.3275911 / sqrt(2)
    p = (((0.5307027145 * t - 0.7265760135) * t + 0.7107068705) * t - 0.142248368) * t + 0.127414796  # halves of theirs
    return p * t * e, e


@triton.jit
def short_tail(a):
    """The normal distribution function of -a, for a >= 0, where the result is rounded to 16 bits.

    It is 2^(p - 1) with a polynomial p that is 0 at 0, fitted so that the largest relative error up to a = 7 is least,
    1e-5; behind that, where the function is below 1e-12, it only falls.
    """
    p = (5.63954657e-05 - 1.597164637e-06 * a) * a - 0.0008858573734
    return tl.exp2(((((p * a + 0.008318079356) * a - 0.05354692159) * a - 0.4588902439) * a - 1.151091851) * a - 1.0)


@triton.jit
def sigmoid(x):
    """1 / (1 + exp(-x)); an exponential that overflows gives the limit, zero."""
    return 1.0 / (1.0 + tl.exp2(-1.4426950408889634 * x))


@triton.jit
def gelu_kernel(y, x, cols, x_step, TANH: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of x, `x_step` elements apart, to rows of y, `cols` apart."""
    row, c, inside = piece(cols, BLOCK)
    v = tl.load(x + row * x_step + c, mask=inside, other=0.0).to(tl.float32)
    if TANH:
        v *= sigmoid(v * (1.5957691216057308 + 0.07135481282806326 * v * v))  # (1 + tanh(z)) / 2 = S(2 z)
    else:  # v P(v) = max(v, 0) - |v| P(-|v|), without a choice between two sides
        size = tl.minimum(tl.abs(v), 1e4)  # at infinity the tail is 0, and infinity times 0 would be NaN
        if x.dtype.element_ty == tl.float32:
            tail, _ = normal_tail(v)
        else:
            tail = short_tail(size)
        v = tl.maximum(v, 0.0, propagate_nan=tl.PropagateNan.ALL) - size * tail
    tl.store(y + row * cols + c, v, mask=inside)


@triton.jit
def gelu_backward_kernel(dx, x, dy, cols, x_step, dy_step, TANH: tl.constexpr, BLOCK: tl.constexpr):
    """dx = dy (p + x p')."""
    row, c, inside = piece(cols, BLOCK)
    v = tl.load(x + row * x_step + c, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(dy + row * dy_step + c, mask=inside, other=0.0).to(tl.float32)
    if TANH:
        square = v * v
        z = v * (1.5957691216057308 + 0.07135481282806326 * square)
        e = tl.exp2(-1.4426950408889634 * tl.abs(z))
        q = 1.0 / (1.0 + e)  # S(|z|); 1 - q would cancel where q is nearly 1, e q does not
        p = tl.where(z < 0, e * q, q)
        d = e * q * q * (1.5957691216057308 + 0.2140644384841898 * square)
    else:
        tail, e = normal_tail(v)
        p, d = tl.where(v < 0, tail, 1.0 - tail), e * 0.3989422804014327
    tl.store(dx + row * cols + c, g * (p + v * d), mask=inside)


@triton.jit
def swiglu_kernel(y, gate, up, cols, gate_step, up_step, BLOCK: tl.constexpr):
    """Rows of the gate and of what it lets through, often two halves of one row, to rows of y, `cols` apart."""
    row, c, inside = piece(cols, BLOCK)
    g = tl.load(gate + row * gate_step + c, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + row * up_step + c, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * cols + c, g * sigmoid(g) * u, mask=inside)


@triton.jit
def swiglu_backward_kernel(dgate, dup, gate, up, dy, cols, gate_step, up_step, dy_step, BLOCK: tl.constexpr):
    """Gradients of both; the sigmoid is computed again, which is cheaper than to keep and read it."""
    row, c, inside = piece(cols, BLOCK)
    g = tl.load(gate + row * gate_step + c, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + row * up_step + c, mask=inside, other=0.0).to(tl.float32)
    d = tl.load(dy + row * dy_step + c, mask=inside, other=0.0).to(tl.float32)
    s = sigmoid(g)
    tl.store(dup + row * cols + c, d * (g * s), mask=inside)  # d g may be infinite where s is 0
    tl.store(dgate + row * cols + c, d * u * s * (1.0 + g * (1.0 - s)), mask=inside)
