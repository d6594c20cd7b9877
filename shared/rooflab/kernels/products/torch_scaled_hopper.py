"""The fp8 product for Hopper: which calls it takes, and its descriptors.

>>> import torch
>>> on_hopper(torch.device("cpu"))
False
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..launching import launch
from .tiles import HOPPER

__all__ = ["described_on_hopper", "launch_on_hopper", "on_hopper"]

_TILE, _HALF = 128, 64


@functools.cache
def on_hopper(device: torch.device) -> bool:
    """Whether a device is a Hopper GPU and this Triton has Gluon, in which the kernel is written."""
    if device.type != "cuda" or torch.version.hip or torch.cuda.get_device_capability(device)[0] != 9:
        return False
    try:
        from . import triton_scaled_hopper  # noqa: F401
    except ImportError:
        return False
    return True


def launch_on_hopper(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor, kind: str
) -> None:
    """Fill C with the product, sums of 128 terms being added up in fp32.

    Args:
        c: [M, N], its rows at multiples of 16 bytes.
        a: [M, K], in e4m3, its rows at multiples of 16 bytes.
        b: [N, K], the same.
        a_scale: in fp32, of any strides if they are of blocks, else contiguous.
        b_scale: the same.
        kind: "tensor", "row" or "block".
    """
    from .triton_scaled_hopper import scaled_matmul_hopper_kernel

    (m, k), n = a.shape, b.shape[0]
    tiles = -(-m // _TILE) * -(-n // _TILE)
    programs = min(tiles, torch.cuda.get_device_properties(c.device).multi_processor_count)
    steps = (*a_scale.stride(), *b_scale.stride()) if kind == "block" else (0, 0, 0, 0)
    rows = (c, _HALF), (a, _HALF), (b, _TILE)
    matrices = [described_on_hopper(one, (height, _TILE)) for one, height in rows]
    launch(
        scaled_matmul_hopper_kernel, (programs,), *matrices, a_scale, b_scale, m, n, k, *steps, SCALES=kind, **HOPPER
    )


def described_on_hopper(x: torch.Tensor, block: tuple[int, int]) -> Any:
    """Return Gluon's descriptor of a matrix, for blocks of it: it says how a block lies in shared memory.

    Args:
        x: its rows at multiples of 16 bytes.
        block: rows and columns.
    """
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    return TensorDescriptor(x, list(x.shape), list(x.stride()), list(block), _layout(block, x.dtype))


@functools.cache
def _layout(block: tuple[int, int], dtype: torch.dtype) -> Any:
    from triton.experimental.gluon import language as gl

    kinds = {
        torch.float8_e4m3fn: gl.float8e4nv, torch.bfloat16: gl.bfloat16, torch.float16: gl.float16,
        torch.float32: gl.float32,
    }  # fmt: skip
    return gl.NVMMASharedLayout.get_default_for(list(block), kinds[dtype])
