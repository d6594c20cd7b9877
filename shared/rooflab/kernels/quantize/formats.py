"""The small formats, and what a code in them stands for: the reference in torch's own arithmetic.

fp8 is e4m3 (largest 448), fp4 is e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, two codes in a byte, the first
one in the low half. MXFP8 and MXFP4 give each 32 elements a power of two, of 8 bits (e8m0); NVFP4 gives each 16
elements a scale in e4m3, beside one of the tensor in fp32.

Sources: Micikevicius et al. 2022 (fp8); OCP Microscaling Formats specification 1.0, 2023; NVIDIA, NVFP4, 2025.

>>> import torch
>>> unpack_fp4(torch.tensor([0x72], dtype=torch.uint8))
tensor([1., 6.])
"""

from __future__ import annotations

from typing import Any

__all__ = ["BLOCK", "decode", "unpack_fp4"]

BLOCK = {"mxfp8": 32, "mxfp4": 32, "nvfp4": 16}
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def unpack_fp4(codes: Any) -> Any:
    """Return the numbers of packed codes in fp32; the last dimension doubles.

    Args:
        codes: uint8 of shape [..., n / 2].
    """
    import torch

    values = torch.tensor([*_FP4, *(-value for value in _FP4)], device=codes.device)
    pairs = torch.stack((codes & 15, codes >> 4), dim=-1)
    return values[pairs.long()].flatten(-2)


def decode(codes: Any, scales: Any, form: str, tensor_scale: Any = 1.0) -> Any:
    """Return the numbers that codes and scales stand for, in fp32.

    Args:
        codes: float8_e4m3fn of shape [..., n], or packed fp4.
        scales: of each row [...], or of each block [..., n / block].
        form: "fp8" (scales of rows), "mxfp8", "mxfp4" or "nvfp4".
        tensor_scale: of NVFP4.
    """
    numbers = unpack_fp4(codes) if form.endswith("fp4") else codes.float()
    if form == "fp8":
        return numbers * scales.float()[..., None]
    blocks = numbers.unflatten(-1, (-1, BLOCK[form]))
    return (blocks * (scales.float() * tensor_scale)[..., None]).flatten(-2)
