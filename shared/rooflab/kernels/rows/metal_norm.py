"""RMS norm and layer norm over rows on Apple's GPUs: the twin of `triton_norm` in Metal, unverified on real hardware.

    layer norm:  y = (x - mean) rstd w + b         RMS norm:  y = x rstd w

    dx = rstd (g - n mean(n g) [- mean(g)]),       dw = sum over rows of dy n,       db = sum over rows of dy

with n = (x - mean) rstd and g = dy w. Backward some threadgroups stay and take rows in turn; each adds up in registers
what it sees of dw and db, and a last kernel adds up these partial sums, always in the same order.

>>> KERNELS.count("KERNEL")
3
"""

from __future__ import annotations

from typing import Any

import torch

from .metal_source import library, shape_of

__all__ = ["KERNELS", "norm", "norm_backward"]

_STAYING = 64  # threadgroups that take rows in turn: several for each core of an Apple GPU

KERNELS = """
KERNEL norm(device number* y, device const number* x, device const float* w, device const float* b,
                 device float* mean, device float* rstd, constant long& cols, constant long& step,
                 constant float& eps, constant long& centred, POSITION) {
    threadgroup float parts[32];
    float v[ITEMS];
    float sum = 0;
    for (uint i = 0; i < ITEMS; ++i) {
        const uint c = i * THREADS + thread;
        v[i] = c < cols ? float(x[group.y * step + c]) : 0.0f;
        sum += v[i];
    }
    if (centred) {
        const float m = total(sum, parts, lane, simd) / cols;
        if (thread == 0) mean[group.y] = m;
        for (uint i = 0; i < ITEMS; ++i) v[i] = i * THREADS + thread < cols ? v[i] - m : 0.0f;
    }
    float squares = 0;
    for (uint i = 0; i < ITEMS; ++i) squares += v[i] * v[i];
    const float s = precise::rsqrt(total(squares, parts, lane, simd) / cols + eps);
    if (thread == 0) rstd[group.y] = s;
    for (uint i = 0; i < ITEMS; ++i) {
        const uint c = i * THREADS + thread;
        if (c < cols) y[group.y * cols + c] = number(v[i] * s * w[c] + b[c]);
    }
}

KERNEL norm_backward(device number* dx, device float* dw_parts, device float* db_parts, device const number* dy,
                          device const number* x, device const float* w, device const float* mean,
                          device const float* rstd, constant long& rows, constant long& cols, constant long& dy_step,
                          constant long& x_step, constant long& groups, constant long& centred, POSITION) {
    threadgroup float parts[32];
    float n[ITEMS], g[ITEMS], dw[ITEMS], db[ITEMS];
    for (uint i = 0; i < ITEMS; ++i) dw[i] = db[i] = 0;
    for (long r = group.y; r < rows; r += groups) {
        const float m = centred ? mean[r] : 0.0f, s = rstd[r];
        float along = 0, sum = 0;
        for (uint i = 0; i < ITEMS; ++i) {
            const uint c = i * THREADS + thread;
            n[i] = c < cols ? (float(x[r * x_step + c]) - m) * s : 0.0f;
            g[i] = c < cols ? float(dy[r * dy_step + c]) : 0.0f;
            dw[i] += g[i] * n[i];
            db[i] += g[i];
            g[i] *= c < cols ? w[c] : 0.0f;
            along += n[i] * g[i];
            sum += g[i];
        }
        along = total(along, parts, lane, simd) / cols;
        sum = centred ? total(sum, parts, lane, simd) / cols : 0.0f;
        for (uint i = 0; i < ITEMS; ++i) {
            const uint c = i * THREADS + thread;
            if (c < cols) dx[r * cols + c] = number(s * (g[i] - n[i] * along - sum));
        }
    }
    for (uint i = 0; i < ITEMS; ++i) {
        const uint c = i * THREADS + thread;
        if (c < cols) {
            dw_parts[group.y * cols + c] = dw[i];
            db_parts[group.y * cols + c] = db[i];
        }
    }
}

KERNEL add_partial_sums(device float* out, device const float* parts, constant long& count, constant long& cols,
                             POSITION) {
    const long c = group.y * long(THREADS) + thread;
    if (c >= cols) return;
    float sum = 0;
    for (long i = 0; i < count; ++i) sum += parts[i * cols + c];
    out[c] = sum;
}
"""


def norm(
    y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, mean: torch.Tensor,
    rstd: torch.Tensor, eps: float,
) -> None:  # fmt: skip
    """Write normalized rows, and of each its mean and 1 / its deviation; layer norm where `mean` has elements.

    Args:
        y: the result, contiguous.
        x: of shape [rows, cols], the elements of a row side by side.
        weight: of shape [cols].
        bias: of shape [cols], or None.
        mean: of shape [rows] in float32, or empty: then nothing is subtracted.
        rstd: of shape [rows] in float32.
        eps: added under the root.
    """
    rows, cols = x.shape
    threads, _ = shape_of(cols)
    w = weight.float()
    b = torch.zeros_like(w) if bias is None else bias.float()
    centred = mean.numel() > 0
    _library(x).norm(
        y, x, w, b, mean if centred else rstd, rstd, cols, x.stride(0), float(eps), int(centred),
        threads=[threads, rows], group_size=[threads, 1],
    )  # fmt: skip


def norm_backward(
    dx: torch.Tensor, dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Write the gradient with regard to x, and return those with regard to the weight and the bias, in float32.

    Args:
        dx: the result, contiguous.
        dy: of shape [rows, cols], the elements of a row side by side.
        x: likewise.
        weight: of shape [cols].
        mean: as `norm` wrote it.
        rstd: as `norm` wrote it.
    """
    rows, cols = x.shape
    threads, _ = shape_of(cols)
    groups = min(rows, _STAYING)
    dw_parts, db_parts = (torch.empty(groups, cols, dtype=torch.float32, device=x.device) for _ in range(2))
    made, centred = _library(x), mean.numel() > 0
    made.norm_backward(
        dx, dw_parts, db_parts, dy, x, weight.float(), mean if centred else rstd, rstd, rows, cols, dy.stride(0),
        x.stride(0), groups, int(centred), threads=[threads, groups], group_size=[threads, 1],
    )  # fmt: skip
    sums = [torch.empty(cols, dtype=torch.float32, device=x.device) for _ in range(2)]
    for out, parts in zip(sums, (dw_parts, db_parts), strict=True):
        made.add_partial_sums(out, parts, groups, cols, threads=[threads, -(-cols // threads)], group_size=[threads, 1])
    return sums[0], sums[1]


def _library(x: torch.Tensor) -> Any:
    return library(KERNELS, str(x.dtype).removeprefix("torch."), x.shape[1])
