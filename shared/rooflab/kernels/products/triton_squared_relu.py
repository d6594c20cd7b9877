# mypy: disallow-untyped-defs=False
"""Products of an MLP with squared ReLU: its activation, and the gradient of it, in the products' last lines.

    a = relu(x W^T)^2                 x [M, K], W [N, K]
    dh = 2 sqrt(a) (dy V)             dy [M, K], V [K, N]: the gradient of h = x W^T, as a = relu(h)^2

The one idea: what is squared need not be kept. relu(h) is the root of a, so a alone, which the next product reads
anyway, goes to memory: one matrix [M, N] is written forward, one is read and one written backward. With operations of
their own the activation reads h and writes a, and its gradient reads h and da and writes dh, besides what the products
write: five more trips. The root is even the more exact one: a relative error is halved by it. At 65,536 tokens of
4 x 768 numbers in bf16, in MB of a matrix, and in ms of five of them at 4.2 TB/s:

>>> matrix = 2 * 65536 * 4 * 768
>>> round(matrix / 1e6), round(5 * matrix / 4.2e9, 2)
(403, 0.48)

FLOPs: 2 M N K each. The epilogue of a tile is long where K is short, and the gradient's waits for a block of a: so
tiles of half the size, two programs on a multiprocessor, one of which multiplies while the other stores, are worth
trying beside the largest ones. The block of a is asked for before the products, so that it waits in the cache when they
end. (See `triton_matmul` for the rest, and `triton_squared_relu_hopper` for what hides all of that on Hopper.)

In fp8 the operands have a scale each, and a is written twice: as it is, and as codes for the next product.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..triton_prefetch import prefetch
from .triton_matmul import place_of

__all__ = ["squared_relu_gradient_kernel", "squared_relu_kernel"]


@triton.jit
def store_squares(a, codes, m, n, h, per_scale, PARTS: tl.constexpr):
    """Store relu(h)^2 in parts of its columns, and its codes."""
    if PARTS == 1:
        positive = tl.where(h < 0, 0.0, h)  # NaN stays
        square = positive * positive
        a.store([m, n], square.to(a.dtype))
        if codes is not None:
            codes.store([m, n], (square * per_scale).to(codes.dtype))  # saturates
    else:
        HALF: tl.constexpr = h.shape[1] // 2
        left, right = h.reshape((h.shape[0], 2, HALF)).permute((0, 2, 1)).split()
        store_squares(a, codes, m, n, left, per_scale, PARTS // 2)
        store_squares(a, codes, m, n + HALF, right, per_scale, PARTS // 2)


@triton.jit
def squared_relu_kernel(
    a, codes, x, w, x_scale, w_scale, a_scale, M, N, K,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    PRECISION: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """a = relu(x W^T)^2; a, codes, x and w are descriptors. Without codes, these and the scales are None."""
    rows, cols = tl.cdiv(M, TILE_M), tl.cdiv(N, TILE_N)
    per_scale = 1.0
    for tile in tl.range(tl.program_id(0), rows * cols, tl.num_programs(0), flatten=True):
        row, col = place_of(tile, rows, cols, GROUP)
        m, n = row * TILE_M, col * TILE_N
        h = tl.zeros((TILE_M, TILE_N), tl.float32)
        for k in tl.range(0, K, TILE_K, num_stages=STAGES):
            h = tl.dot(x.load([m, k]), w.load([n, k]).T, h, input_precision=PRECISION)
        if codes is not None:
            h *= tl.load(x_scale) * tl.load(w_scale)
            per_scale = 1.0 / tl.load(a_scale)
        store_squares(a, codes, m, n, h, per_scale, PARTS)


@triton.jit
def store_gradient(dh, a, m, n, da, PARTS: tl.constexpr):
    """Store 2 sqrt(a) da in parts of its columns."""
    if PARTS == 1:
        dh.store([m, n], (2.0 * tl.sqrt(a.load([m, n]).to(tl.float32)) * da).to(dh.dtype))
    else:
        HALF: tl.constexpr = da.shape[1] // 2
        left, right = da.reshape((da.shape[0], 2, HALF)).permute((0, 2, 1)).split()
        store_gradient(dh, a, m, n, left, PARTS // 2)
        store_gradient(dh, a, m, n + HALF, right, PARTS // 2)


@triton.jit
def ask_for(block, step, rows, cols, TILE_M: tl.constexpr, TILE_N: tl.constexpr):
    """Have a block of a matrix brought into the second-level cache, a line of 128 bytes for each lane (PTX)."""
    LINE: tl.constexpr = 128 * 8 // block.dtype.element_ty.primitive_bitwidth
    i = tl.minimum(tl.arange(0, TILE_M), rows - 1)[:, None]
    j = tl.minimum(tl.arange(0, TILE_N // LINE) * LINE, cols - 1)[None, :]
    prefetch(block + i.to(tl.int64) * step + j)


@triton.jit
def squared_relu_gradient_kernel(
    dh, dy, v, a, a_start, a_step, M, N, K,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    PRECISION: tl.constexpr, AHEAD: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """dh = 2 sqrt(a) (dy V); the first four are descriptors. With AHEAD a block of a is asked for before the loop."""
    rows, cols = tl.cdiv(M, TILE_M), tl.cdiv(N, TILE_N)
    for tile in tl.range(tl.program_id(0), rows * cols, tl.num_programs(0), flatten=True):
        row, col = place_of(tile, rows, cols, GROUP)
        m, n = row * TILE_M, col * TILE_N
        if AHEAD:
            ask_for(a_start + m.to(tl.int64) * a_step + n, a_step, M - m, N - n, TILE_M, TILE_N)
        da = tl.zeros((TILE_M, TILE_N), tl.float32)
        for k in tl.range(0, K, TILE_K, num_stages=STAGES):
            da = tl.dot(dy.load([m, k]), v.load([k, n]), da, input_precision=PRECISION)
        store_gradient(dh, a, m, n, da, PARTS)
