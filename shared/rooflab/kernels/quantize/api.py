"""Quantization as functions of tensors.

>>> import torch
>>> codes, scales = quantize_fp8(torch.tensor([[448.0, 1.0]]))
>>> codes.float().tolist(), scales.tolist()
([[448.0, 1.0]], [1.0])
"""

from __future__ import annotations

from typing import Any

from ..api import function_for

__all__ = ["quantize_fp8", "quantize_mx", "quantize_nvfp4", "quantize_weights"]


def quantize_fp8(x: Any, scale: Any = None) -> tuple[Any, Any]:
    """Return numbers in e4m3 (8 bits) and the scales by which they are to be multiplied.

    Args:
        x: of shape [..., n], float32, bfloat16 or float16; without a scale, n is at most 65,536.
        scale: one number in float32 for the whole tensor, as a tensor on the same device; default: one for each row is
            found, with which the row's largest magnitude becomes 448 (of a row of zeros, 1). With one of 0, below or
            NaN all codes are NaN: the host does not wait for its value, so it cannot be refused.

    Returns:
        codes of the shape of x in float8_e4m3fn, and scales of shape [...] in float32, or `scale`. What is too large
        becomes 448, NaN stays NaN; a row with an infinity has an infinite scale, and nothing else in it is left.
    """
    return function_for(x, "quantize_fp8", scale=scale)(x, scale)


def quantize_mx(x: Any, form: str = "mxfp8") -> tuple[Any, Any]:
    """Return numbers in 8 or 4 bits, and a power of two for each 32 of them.

    Args:
        x: of shape [..., n], float32, bfloat16 or float16; 32 divides n.
        form: "mxfp8" (e4m3) or "mxfp4" (e2m1).

    Returns:
        codes of shape [..., n] in float8_e4m3fn, or two in a byte, [..., n / 2] in uint8; and scales of shape
        [..., n / 32] in float8_e8m0fnu. A block with NaN or an infinity in it has the scale NaN.
        Source: OCP Microscaling Formats specification 1.0, 2023.
    """
    return function_for(x, "quantize_mx")(x, form)


def quantize_nvfp4(x: Any, tensor_scale: Any) -> tuple[Any, Any]:
    """Return numbers in 4 bits, and a scale of 8 bits for each 16 of them.

    Args:
        x: of shape [..., n], float32, bfloat16 or float16; 16 divides n.
        tensor_scale: one number in float32, as a tensor: the largest magnitude / (448 * 6) lets every block's scale
            fit into e4m3. With one of 0, below or NaN all blocks' scales are NaN.

    Returns:
        codes, two in a byte, of shape [..., n / 2] in uint8, and scales of shape [..., n / 16] in float8_e4m3fn, in
        units of `tensor_scale`. There is no code for NaN: it becomes 6 times the block's scale.
    """
    return function_for(x, "quantize_nvfp4", tensor_scale=tensor_scale)(x, tensor_scale)


def quantize_weights(w: Any, form: str = "int4", group: int = 128, *, zeros: bool = False) -> tuple[Any, ...]:
    """Return weights in 8 or 4 bits for :func:`rooflab.kernels.matvec`, and the scales by which they are multiplied.

    This is done once for a model, in torch's own arithmetic, each weight rounded to the nearest.

    Args:
        w: of shape [N, K], float32, bfloat16 or float16.
        form: "int8", "fp8" (e4m3) or "int4".
        group: of weights in a row that share a scale; it divides K. 0: all of a row.
        zeros: let int4 have zero points: a group's codes reach from its smallest weight to its largest.

    Returns:
        codes, [N, K] in int8 or float8_e4m3fn, or two in a byte, [N, K / 2] in uint8; scales, [N, K / group] in the
        format of w; and with `zeros` zero points, [N, K / group] in uint8. A group with NaN or an infinity in it has
        such a scale, and all its weights become NaN.
    """
    return function_for(w, "quantize_weights")(w, form, group, zeros=zeros)
