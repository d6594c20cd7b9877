# mypy: disallow-untyped-defs=False
"""Cross-entropy of a linear layer over a large vocabulary: the softmax between its products, in place.

    z = x W^T           loss = sum over tokens of (log sum exp z - z[target])
    g = softmax(z) - onehot(target)          dx = g W          dW = g^T x

x [T, d], W [V, d]; T tokens, V words. Each of the three products takes 2 T V d FLOPs, 6 T V d together; computing the
logits a second time would make it 8 T V d. In milliseconds at 690 TFLOP/s, and MB of logits in 16 bits:

>>> T, V, d = 8192, 50_304, 768
>>> [round(products * 2 * T * V * d / 690e12 * 1e3, 2) for products in (3, 4)], round(2 * T * V / 1e6)
([2.75, 3.67], 824)

In 300 MiB there is room for some 100 MB of them beside dx and dW, whose sums are kept in fp32 until they are scaled and
rounded at the end. Two schemes stay within that:

* No logits at all: one kernel for the loss, and one or two for the gradients, which compute them again, block by block.
  8 T V d FLOPs even if nothing else took time, and each logit is exponentiated three times.
* The logits of some tokens at a time, turned into their gradient where they are. 6 T V d FLOPs. The logits are moved
  five times (written, read and written by the softmax, read by two products), of which two take time of their own:
  1.65 GB, 0.4 ms at 4.2 TB/s. dW is added to once per chunk of tokens, 8 V d bytes each time: for chunks of 1,024
  tokens 2.5 GB, 0.6 ms, unless dx is multiplied meanwhile. Together 3.2 ms, and what the products fall short of
  690 TFLOP/s.

The second is faster as long as a chunk fills the matrix units, so that is what is done, with chunks as large as memory
allows: the larger they are, the fewer times dW is read and written. A chunk's dx has few tiles but long sums: these are
cut into ranges, added up in a fixed order afterwards.

So that each logit is read and written once between the products, the first of them also leaves what the softmax needs:
the maximum of each row of a tile, and its sum of exponentials. While one program computes these 128 x 128 exponentials,
in some 1,024 cycles, the other one on its multiprocessor multiplies, for 6,144 at d = 768:

>>> 128 * 128 / 16, 128 * 128 * 768 / 2048
(1024.0, 6144.0)
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..products.triton_matmul import place_of

__all__ = ["logits_kernel", "scale_kernel", "softmax_gradient_kernel"]

LOG2E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)


@triton.jit
def as_stored(acc, dtype: tl.constexpr, PAIRS: tl.constexpr):
    """Sums as they are after rounding to the format of the logits, in fp32."""
    if PAIRS and dtype == tl.bfloat16:
        # NVIDIA's instruction that rounds two numbers to bf16 has the full rate, and the one for one number an eighth
        # of it, which Triton takes where a rounded number is computed with: 1,024 cycles a tile.
        stored = tl.inline_asm_elementwise(
            "{ .reg .b32 pair; cvt.rn.bf16x2.f32 pair, $3, $2; shl.b32 $0, pair, 16; and.b32 $1, pair, 0xffff0000; }",
            "=r,=r,r,r", [acc], dtype=tl.float32, is_pure=True, pack=2,
        )  # fmt: skip
    else:
        stored = acc.to(dtype).to(tl.float32)
    return stored


@triton.jit
def store_logits(z, m, n, V, acc, PARTS: tl.constexpr, PAIRS: tl.constexpr):
    """Store a tile in parts of its columns; returns maximum and sum of exponentials of its rows, to base 2."""
    if PARTS == 1:
        z.store([m, n], acc.to(z.dtype))
        seen = as_stored(acc, z.dtype, PAIRS)
        if n + acc.shape[1] > V:  # only the last tiles
            seen = tl.where((n + tl.arange(0, acc.shape[1]) < V)[None, :], seen, -float("inf"))
        # NVIDIA's maximum passes over NaN, and that of others need not; the sum is NaN anyway.
        known = seen if PAIRS else tl.where(seen == seen, seen, -float("inf"))
        most = tl.max(known, 1) * LOG2E
        shift = tl.where(most == -float("inf"), 0.0, most)  # -inf - -inf would be NaN
        total = tl.sum(tl.exp2(seen * LOG2E - shift[:, None]), 1)
    else:
        HALF: tl.constexpr = acc.shape[1] // 2
        left, right = acc.reshape((acc.shape[0], 2, HALF)).permute((0, 2, 1)).split()
        most, total = store_logits(z, m, n, V, left, PARTS // 2, PAIRS)
        more, other = store_logits(z, m, n + HALF, V, right, PARTS // 2, PAIRS)
        both = tl.maximum(most, more)
        shift = tl.where(both == -float("inf"), 0.0, both)
        total = total * tl.exp2(most - shift) + other * tl.exp2(more - shift)
        most = both
    return most, total


@triton.jit
def logits_kernel(
    z, x, w, largest, sums, T, V, D,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    X_TRANSPOSED: tl.constexpr, W_TRANSPOSED: tl.constexpr, PRECISION: tl.constexpr, STAGES: tl.constexpr,
    PAIRS: tl.constexpr,
):  # fmt: skip
    """z = x W^T as `matmul_kernel` does it, and of each row of a tile maximum and sum of exponentials to base 2.

    z, x and w are descriptors; the statistics, [T, V / TILE_N], are those of the logits as they are stored. With PAIRS
    two numbers are rounded at a time, which NVIDIA's GPUs can do.
    """
    rows, cols = tl.cdiv(T, TILE_M), tl.cdiv(V, TILE_N)
    for tile in tl.range(tl.program_id(0), rows * cols, tl.num_programs(0), flatten=True):
        row, col = place_of(tile, rows, cols, GROUP)
        m, n = row * TILE_M, col * TILE_N
        acc = tl.zeros((TILE_M, TILE_N), tl.float32)
        for k in tl.range(0, D, TILE_K, num_stages=STAGES):
            some_x = x.load([k, m]).T if X_TRANSPOSED else x.load([m, k])
            some_w = w.load([k, n]) if W_TRANSPOSED else w.load([n, k]).T
            acc = tl.dot(some_x, some_w, acc, input_precision=PRECISION)
        most, total = store_logits(z, m, n, V, acc, PARTS, PAIRS)
        token = m + tl.arange(0, TILE_M)
        tl.store(largest + token * cols + col, most, mask=token < T)
        tl.store(sums + token * cols + col, total, mask=token < T)


@triton.jit
def softmax_gradient_kernel(
    losses, z, targets, largest, sums, V, z_step, tiles, ignored,
    BLOCK: tl.constexpr, TILES: tl.constexpr, GRADIENT: tl.constexpr,
):  # fmt: skip
    """A token's loss from what `logits_kernel` left; with GRADIENT logits are replaced by the loss's gradient.

    A program has BLOCK words of a token, and the one that has the target stores the loss; without GRADIENT there is
    no other. A target that is no word makes the loss NaN. TILES is `tiles` rounded up to a power of two. The logits of
    the last words, which were written last, are still in the cache, and so come first; and the gradients of the first
    words are there when the products begin with them.
    """
    row = tl.program_id(0).to(tl.int64)
    z += row * z_step
    block = tl.num_programs(1) - 1 - tl.program_id(1)
    start = block * BLOCK
    i = tl.arange(0, BLOCK)
    if GRADIENT:
        x = tl.load(z + start + i, mask=start + i < V, other=0.0)
    target = tl.load(targets + row)
    is_word, counts = (target >= 0) & (target < V), target != ignored
    mine = tl.where(is_word, target, 0) // BLOCK == block if GRADIENT else True
    right = tl.load(z + target, mask=is_word & counts & mine, other=float("nan")).to(tl.float32)
    j = tl.arange(0, TILES)
    most_of = tl.load(largest + row * tiles + j, mask=j < tiles, other=-float("inf"))
    most = tl.max(most_of, 0)
    shift = tl.where(most == -float("inf"), 0.0, most)
    total = tl.sum(tl.load(sums + row * tiles + j, mask=j < tiles, other=0.0) * tl.exp2(most_of - shift), 0)
    loss = (most + tl.log2(total)) * LN2 - right
    tl.store(losses + row, tl.where(counts, loss, 0.0), mask=mine)
    if GRADIENT:
        part = 1.0 / total
        g = tl.where(counts, tl.exp2(x.to(tl.float32) * LOG2E - most) * part, 0.0)
        tl.debug_barrier()  # z[target] is read by one warp and replaced by another
        tl.store(z + start + i, g.to(z.dtype.element_ty), mask=start + i < V)
        tl.debug_barrier()  # and replaced again
        g = tl.exp2(right * LOG2E - most) * part - 1.0
        tl.store(z + target, g.to(z.dtype.element_ty), mask=is_word & counts & mine)


@triton.jit
def scale_kernel(y, x, factor, numel, BLOCK: tl.constexpr):
    """y = x times a number, rounded to y's format."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < numel
    tl.store(y + i, (tl.load(x + i, mask=inside) * tl.load(factor)).to(y.dtype.element_ty), mask=inside)
