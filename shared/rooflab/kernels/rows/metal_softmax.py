"""Softmax over rows on Apple's GPUs: the twin of `triton_softmax` in Metal, unverified on real hardware.

    y = exp(x - max(x)) / sum(exp(x - max(x)))        dx = y (dy - sum(y dy))

Each element is read once and written once: a row stays in the registers of a threadgroup between the passes over it.

>>> KERNELS.count("KERNEL")
2
"""

from __future__ import annotations

import torch

from .metal_source import library, shape_of

__all__ = ["KERNELS", "softmax", "softmax_backward"]

KERNELS = """
KERNEL softmax(device number* y, device const number* x, constant long& cols, constant long& step, POSITION) {
    threadgroup float parts[32];
    float v[ITEMS];
    float most = -INFINITY;
    for (uint i = 0; i < ITEMS; ++i) {
        const uint c = i * THREADS + thread;
        v[i] = c < cols ? float(x[group.y * step + c]) : -INFINITY;
        most = max(most, v[i]);
    }
    most = largest(most, parts, lane, simd);
    float sum = 0;
    for (uint i = 0; i < ITEMS; ++i) {
        v[i] = i * THREADS + thread < cols ? precise::exp(v[i] - most) : 0.0f;
        sum += v[i];
    }
    sum = total(sum, parts, lane, simd);
    for (uint i = 0; i < ITEMS; ++i) {
        const uint c = i * THREADS + thread;
        if (c < cols) y[group.y * cols + c] = number(v[i] / sum);
    }
}

KERNEL softmax_backward(device number* dx, device const number* y, device const number* dy,
                        constant long& cols, constant long& step, POSITION) {
    threadgroup float parts[32];
    float p[ITEMS], g[ITEMS];
    float sum = 0;
    for (uint i = 0; i < ITEMS; ++i) {
        const uint c = i * THREADS + thread;
        p[i] = c < cols ? float(y[group.y * cols + c]) : 0.0f;
        g[i] = c < cols ? float(dy[group.y * step + c]) : 0.0f;
        sum += p[i] * g[i];
    }
    sum = total(sum, parts, lane, simd);
    for (uint i = 0; i < ITEMS; ++i) {
        const uint c = i * THREADS + thread;
        if (c < cols) dx[group.y * cols + c] = number(p[i] * (g[i] - sum));
    }
}
"""


def softmax(y: torch.Tensor, x: torch.Tensor) -> None:
    """Write the softmax of rows; of x the elements of a row lie side by side, and y is contiguous.

    Args:
        y: the result, of as many elements as x.
        x: of shape [rows, cols].
    """
    _over_rows("softmax", x, y, x)


def softmax_backward(dx: torch.Tensor, y: torch.Tensor, dy: torch.Tensor) -> None:
    """Write the gradient of softmax; of dy the elements of a row lie side by side, and the others are contiguous.

    Args:
        dx: the result, of as many elements as dy.
        y: what softmax returned.
        dy: of shape [rows, cols].
    """
    _over_rows("softmax_backward", dy, dx, y, dy)


def _over_rows(name: str, given: torch.Tensor, *tensors: torch.Tensor) -> None:
    rows, cols = given.shape
    threads, _ = shape_of(cols)
    made = library(KERNELS, str(given.dtype).removeprefix("torch."), cols)
    getattr(made, name)(*tensors, cols, given.stride(0), threads=[threads, rows], group_size=[threads, 1])
