"""Quantization as operators of PyTorch; codes have no gradient.

>>> import torch
>>> codes, scales = quantize_fp8(torch.tensor([[1.0, -2.0]]))
>>> codes.float() * scales[:, None]
tensor([[ 1., -2.]])
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rooflab.counters.interpreter import interpreting

from ..demands import as_rows, floats, refuse, together
from ..launching import launch
from ..rows.blocks import LONGEST, next_power_of_2, row_blocks
from ..tuning import choose
from . import triton_quantize as kernels
from . import triton_words as words
from .formats import BLOCK

__all__ = ["fp8_of_rows", "fp8_of_tensor", "mx", "nvfp4", "quantize_fp8", "quantize_mx", "quantize_nvfp4"]


def quantize_fp8(x: Tensor, scale: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return codes in e4m3 and scales; see :func:`rooflab.kernels.quantize_fp8`."""
    codes, scales = fp8_of_rows(x) if scale is None else (fp8_of_tensor(x, scale), scale)
    return codes.view(torch.float8_e4m3fn), scales


def quantize_mx(x: Tensor, form: str = "mxfp8") -> tuple[Tensor, Tensor]:
    """Return codes and powers of two of blocks; see :func:`rooflab.kernels.quantize_mx`."""
    if form not in ("mxfp8", "mxfp4"):
        raise ValueError(f"quantize_mx: expected form 'mxfp8' or 'mxfp4'; found {form!r}.")
    codes, scales = mx(x, form == "mxfp4")
    return codes if form == "mxfp4" else codes.view(torch.float8_e4m3fn), scales.view(torch.float8_e8m0fnu)


def quantize_nvfp4(x: Tensor, tensor_scale: Tensor) -> tuple[Tensor, Tensor]:
    """Return packed codes and scales of blocks; see :func:`rooflab.kernels.quantize_nvfp4`."""
    codes, scales = nvfp4(x, tensor_scale)
    return codes, scales.view(torch.float8_e4m3fn)


@torch.library.custom_op("rooflab::fp8_of_rows", mutates_args=())
def fp8_of_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bytes of codes, of the shape of x, and a scale for each row."""
    floats("quantize_fp8", x=x)
    together("quantize_fp8", x=x)
    given = as_rows("quantize_fp8", x, longest=LONGEST)
    rows, cols = given.shape
    codes = torch.empty(x.shape, dtype=torch.uint8, device=x.device)
    scales = torch.ones(x.shape[:-1], dtype=torch.float32, device=x.device)
    width, constants = next_power_of_2(cols), _constants(x)

    def run(choice: Any) -> None:
        grid = (-(-rows // choice["ROWS"]),)
        given_rows = (given, rows, cols, given.stride(0))
        launch(kernels.rows_to_fp8_kernel, grid, codes, scales, *given_rows, COLS=width, **constants, **choice)

    if given.numel():
        run(choose("rows_to_fp8", (width,), row_blocks(width, 32), run, x.device))
    return codes, scales


@torch.library.custom_op("rooflab::fp8_of_tensor", mutates_args=())
def fp8_of_tensor(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return the bytes of codes for numbers divided by one scale, of one element in fp32."""
    floats("quantize_fp8", x=x)
    together("quantize_fp8", x=x, scale=scale)
    _one("quantize_fp8", "scale", scale)
    given = x.contiguous()
    codes = torch.empty(x.shape, dtype=torch.uint8, device=x.device)

    def run(choice: Any) -> None:
        grid = (-(-given.numel() // choice["BLOCK"]),)
        launch(kernels.tensor_to_fp8_kernel, grid, codes, given, scale, given.numel(), **_constants(x), **choice)

    if given.numel():
        run(choose("tensor_to_fp8", (given.numel(),), _sizes("BLOCK", 4096, 2048, 8192, 1024), run, x.device))
    return codes


@torch.library.custom_op("rooflab::mx", mutates_args=())
def mx(x: torch.Tensor, four: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bytes of codes, and the exponent of each block of 32, with a bias of 127."""
    name, form = "quantize_mx", "mxfp4" if four else "mxfp8"
    given, codes, scales = _blocks(name, x, BLOCK[form], 2 if four else 1)

    def run(choice: Any) -> None:
        grid = (-(-scales.numel() // choice["BLOCKS"]),)
        written = codes.view(-1).view(torch.int32) if four else codes  # eight codes at a time
        blocks = (written, scales, given, scales.numel())
        if four and _in_words(given):
            launch(words.blocks_to_mxfp4_words_kernel, grid, *blocks, **choice)
        else:
            launch(kernels.blocks_to_mx_kernel, grid, *blocks, FOUR=four, **_constants(x), **choice)

    if given.numel():
        run(choose(form, (scales.numel(),), _sizes("BLOCKS", 128, 64, 256, 32), run, x.device))
    return codes, scales


@torch.library.custom_op("rooflab::nvfp4", mutates_args=())
def nvfp4(x: torch.Tensor, tensor_scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return packed codes, and the bytes of each block's scale in e4m3."""
    given, codes, scales = _blocks("quantize_nvfp4", x, BLOCK["nvfp4"], 2)
    together("quantize_nvfp4", x=x, tensor_scale=tensor_scale)
    _one("quantize_nvfp4", "tensor_scale", tensor_scale)

    def run(choice: Any) -> None:
        grid = (-(-scales.numel() // choice["BLOCKS"]),)
        blocks = (codes.view(-1).view(torch.int32), scales, given, tensor_scale, scales.numel())
        kernel = words.blocks_to_nvfp4_words_kernel if _in_words(given) else kernels.blocks_to_nvfp4_kernel
        launch(kernel, grid, *blocks, **_constants(x), **choice)

    if given.numel():
        run(choose("nvfp4", (scales.numel(),), _sizes("BLOCKS", 256, 128, 512, 64), run, x.device))
    return codes, scales


def _blocks(name: str, x: Tensor, block: int, packed: int) -> tuple[Tensor, Tensor, Tensor]:
    """The numbers side by side, and room for codes and scales."""
    floats(name, x=x)
    together(name, x=x)
    if x.dim() == 0 or x.shape[-1] % block:
        refuse(name, f"expected a last dimension that {block} divides; found the shape {tuple(x.shape)}.")
    *rest, cols = x.shape
    codes = torch.empty(*rest, cols // packed, dtype=torch.uint8, device=x.device)
    return x.contiguous(), codes, torch.empty(*rest, cols // block, dtype=torch.uint8, device=x.device)


def _constants(x: Tensor) -> dict[str, Any]:
    """Whether the chip has an instruction for e4m3, as NVIDIA's have from 8.9 on; the interpreter does as they do."""
    there = x.device.type == "cpu" or (not torch.version.hip and torch.cuda.get_device_capability(x.device) >= (8, 9))
    return {"CONVERTS": there}


def _in_words(x: Tensor) -> bool:
    """Whether numbers can be loaded two at a time, as words, on a chip with instructions for such pairs."""
    if x.dtype != torch.bfloat16 or x.device.type != "cuda" or torch.version.hip or x.data_ptr() % 4 or interpreting():
        return False
    return torch.cuda.get_device_capability(x.device) >= (8, 0)


def _one(name: str, what: str, scale: Tensor) -> None:
    if scale.numel() != 1 or scale.dtype != torch.float32:
        found = f"{tuple(scale.shape)} in {scale.dtype}"
        refuse(name, f"expected {what} of one element in torch.float32; found {found}.")


def _sizes(name: str, *sizes: int) -> list[dict[str, Any]]:
    """The choices for sizes of a program, the most likely one first, and one warp only for smaller ones."""
    warps = ((size, warps) for size in sizes for warps in (4, 2, 8, 1) if warps > 1 or size < sizes[0])
    return [{name: size, "num_warps": each} for size, each in warps]


@fp8_of_rows.register_fake
def _(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape, dtype=torch.uint8), x.new_empty(x.shape[:-1], dtype=torch.float32)


@fp8_of_tensor.register_fake
def _(x: Tensor, scale: Tensor) -> Tensor:
    return x.new_empty(x.shape, dtype=torch.uint8)


@mx.register_fake
def _(x: Tensor, four: bool) -> tuple[Tensor, Tensor]:
    *rest, cols = x.shape
    codes, scales = cols // (2 if four else 1), cols // 32
    return x.new_empty(*rest, codes, dtype=torch.uint8), x.new_empty(*rest, scales, dtype=torch.uint8)


@nvfp4.register_fake
def _(x: Tensor, tensor_scale: Tensor) -> tuple[Tensor, Tensor]:
    *rest, cols = x.shape
    return x.new_empty(*rest, cols // 2, dtype=torch.uint8), x.new_empty(*rest, cols // 16, dtype=torch.uint8)
