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
    for rows, cols in sizes:
        size, made = f"{rows} x {cols}", random_sets(device, (rows, cols))
        plain: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
            "rows_to_fp8": (ours.fp8_of_rows, _rows),
            "tensor_to_fp8": (lambda x: ours.fp8_of_tensor(x, one), lambda x: _fp8(x.float() / one)),
            "mxfp8": (lambda x: ours.mx(x, False), _mx),
        }
        for name, (kernel, formula) in plain.items():
            candidates = {
                "traffic": rivals.compiled(lambda x: (x.view(torch.int16) >> 8).to(torch.uint8)),
                "rooflab": kernel, "compiled": rivals.compiled(formula),
            }  # fmt: skip
            yield Case(name, size, made, candidates, "traffic", None)
        for name, kernel in (("mxfp4", lambda x: ours.mx(x, True)), ("nvfp4", lambda x: ours.nvfp4(x, one))):
            half = rivals.compiled(lambda x: (x.view(torch.int32) >> 24).to(torch.uint8))
            yield Case(name, size, made, {"traffic": half, "rooflab": kernel}, "traffic", None)


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
