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
  1.65 GB, 0.4 ms at 4.2 TB/s. dW is added to once per chunk of tokens, 8 V d bytes each time, by the copy engine while
  the next tile is multiplied. Together 3.2 ms, and what the products fall short of 690 TFLOP/s.

The second is faster as long as a chunk fills the matrix units, so that is what is done, with chunks as large as memory
allows: the larger they are, the more often a column of dW is used that has been read. A chunk's dx has few tiles but
long sums: these are cut into ranges, added up in a fixed order afterwards.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["scale_kernel", "softmax_gradient_kernel"]


@triton.jit
def softmax_gradient_kernel(  # type: ignore[no-untyped-def]
    losses, z, targets, V, z_step, ignored,
    BLOCK: tl.constexpr, GRADIENT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The loss of a token from its logits; with GRADIENT these are replaced by the loss's gradient.

    The row is read twice, the second time from the cache. A target that is no word makes the loss NaN.
    """
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + row)
    z += row * z_step
    col = tl.arange(0, BLOCK)
    most, total = -float("inf"), 0.0
    for start in tl.range(0, V, BLOCK, num_stages=STAGES):
        x = tl.load(z + start + col, mask=start + col < V, other=-float("inf")).to(tl.float32) * 1.4426950408889634
        # What the maximum of NaN is depends on the machine; the sum is NaN anyway.
        new = tl.maximum(most, tl.max(tl.where(x == x, x, -float("inf")), 0))
        shift = tl.where(new == -float("inf"), 0.0, new)  # -inf - -inf would be NaN
        total = total * tl.exp2(most - shift) + tl.sum(tl.exp2(x - shift), 0)
        most = new
    is_word = (target >= 0) & (target < V)
    counts = target != ignored
    right = tl.load(z + target, mask=is_word & counts, other=float("nan")).to(tl.float32)
    loss = (most + tl.log2(total)) * 0.6931471805599453 - right
    tl.store(losses + row, tl.where(counts, loss, 0.0))
    if GRADIENT:
        tl.debug_barrier()  # z[target] is read by one warp and replaced by another
        for start in tl.range(0, V, BLOCK, num_stages=STAGES):
            inside = start + col < V
            x = tl.load(z + start + col, mask=inside, other=0.0).to(tl.float32) * 1.4426950408889634
            g = tl.exp2(x - most) / total - tl.where(start + col == target, 1.0, 0.0)
            tl.store(z + start + col, tl.where(counts, g, 0.0).to(z.dtype.element_ty), mask=inside)


@triton.jit
def scale_kernel(y, x, factor, numel, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """y = x times a number, rounded to y's format."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < numel
    tl.store(y + i, (tl.load(x + i, mask=inside) * tl.load(factor)).to(y.dtype.element_ty), mask=inside)
