"""Quantization against the same arithmetic compiled by torch, and torchao where it is installed; from bf16.

>>> SIZES
((16384, 4096),)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rooflab.kernels import rivals
from rooflab.kernels.benchmark import Case
from rooflab.kernels.rows.cases import random_sets

__all__ = ["SIZES", "cases"]

SIZES = ((16384, 4096),)


def cases(sizes: tuple[tuple[int, int], ...] = SIZES, device: str = "cuda") -> Iterator[Case]:
    """Yield every kernel that quantizes, at every size.

    The ceiling moves as many bytes: it writes the upper byte of each number, or of each pair.
    """
    import torch

    from . import torch_quantize as ours

    one = torch.full((1,), 0.02, device=device)
    theirs = _torchao(one)
    for rows, cols in sizes:
        size, made = f"{rows} x {cols}", random_sets(device, (rows, cols))
        kernels: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = {
            "rows_to_fp8": (ours.fp8_of_rows, _rows),
            "tensor_to_fp8": (lambda x: ours.fp8_of_tensor(x, one), lambda x: _fp8(x.float() / one)),
            "mxfp8": (lambda x: ours.mx(x, False), _mx),
            "mxfp4": (lambda x: ours.mx(x, True), None),
            "nvfp4": (lambda x: ours.nvfp4(x, one), None),
        }
        for name, (kernel, formula) in kernels.items():
            traffic = _upper_bytes if formula else _upper_bytes_of_pairs
            candidates = {"traffic": rivals.compiled(traffic), "rooflab": kernel}
            if formula:
                candidates["compiled"] = rivals.compiled(formula)
            if name in theirs:
                candidates["torchao"] = rivals.compiled(theirs[name])
            yield Case(name, size, made, candidates, "traffic", None)


def _upper_bytes(x: Any) -> Any:
    import torch

    return (x.view(torch.int16) >> 8).to(torch.uint8)


def _upper_bytes_of_pairs(x: Any) -> Any:
    import torch

    return (x.view(torch.int32) >> 24).to(torch.uint8)


def _torchao(one: Any) -> dict[str, Callable[..., Any]]:
    """torchao's formulas, which are written for torch's compiler; none where it is not installed."""
    import torch

    primitives = rivals.torchao("quantization.quant_primitives")
    if primitives is None:
        return {}
    to_fp8 = primitives._quantize_affine_float8

    def rows(x: Any) -> tuple[Any, Any]:
        scales = primitives._choose_scale_float8(x, [1, x.shape[-1]])
        return to_fp8(x, scales), scales

    found: dict[str, Callable[..., Any]] = {"rows_to_fp8": rows, "tensor_to_fp8": lambda x: to_fp8(x, one)}
    if (mx := rivals.torchao("prototype.mx_formats.mx_tensor")) is not None:
        found["mxfp8"] = lambda x: mx.to_mx(x, torch.float8_e4m3fn, 32)
        found["mxfp4"] = lambda x: mx.to_mx(x, torch.float4_e2m1fn_x2, 32)
    if (nv := rivals.torchao("prototype.mx_formats.nvfp4_tensor")) is not None:
        found["nvfp4"] = lambda x: nv.nvfp4_quantize(x, 16, one)
    return found


def _fp8(x: Any) -> Any:
    import torch

    return x.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)


def _rows(x: Any) -> tuple[Any, Any]:
    scales = x.float().abs().amax(-1) / 448
    return _fp8(x.float() / scales[:, None]), scales


def _mx(x: Any) -> tuple[Any, Any]:
    import torch

    blocks = x.float().unflatten(-1, (-1, 32))
    exponent = (blocks.abs().amax(-1).view(torch.int32) >> 23) - 8
    inverse = ((254 - exponent) << 23).view(torch.float32)
    return _fp8(blocks * inverse[..., None]).flatten(-2), exponent.to(torch.uint8)
