"""Products of few rows and weights in 16, 8 and 4 bits, against taking the weights apart and torch's own kernels.

>>> SIZES[0]
(1, 28672, 8192)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rooflab.kernels import rivals
from rooflab.kernels.benchmark import OURS, Case
from rooflab.kernels.quantize.weights import numbers, quantize_weights

__all__ = ["FORMS", "SIZES", "cases"]

# Rows, N and K, of the feed-forward layers of models of 70e9 and 8e9 parameters.
SIZES = ((1, 28672, 8192), (1, 14336, 4096), (8, 14336, 4096))
FORMS = ("plain", "int8", "fp8", "int4")
_GROUP = 128


def cases(sizes: tuple[tuple[int, int, int], ...] = SIZES, device: str = "cuda") -> Iterator[Case]:
    """Yield every form of weights at every size (rows, N, K)."""
    for size in sizes:
        for form in FORMS:
            yield _case(*size, form, device)


def _case(rows: int, n: int, k: int, form: str, device: str) -> Case:
    import torch

    from .torch_matvec import matvec

    library = _has_library(form, device)

    def made(seed: int) -> tuple[Any, ...]:
        generator = torch.Generator(device=device).manual_seed(seed)
        x, w = (torch.randn(shape, generator=generator, device=device).bfloat16() for shape in ((rows, k), (n, k)))
        if form == "plain":
            return x, w
        codes, scales = quantize_weights(w, form, _GROUP if form == "int4" else 0)
        if form == "int4":
            return (x, codes, scales, *(_for_torch(codes, scales) if library else ()))
        return x, codes, scales[:, 0]

    def right(x: Any, codes: Any, scales: Any = None, *_: Any) -> Any:
        """In fp32, to which codes have been converted, too."""
        stored = {"int4": torch.uint8, "int8": torch.int8, "fp8": torch.float8_e4m3fn}.get(form)
        return x @ numbers(codes.to(stored) if stored else codes, scales).T

    def apart(x: Any, codes: Any, scales: Any = None, *_: Any) -> Any:
        return x @ numbers(codes, scales, dtype=x.dtype).T

    candidates: dict[str, Callable[..., Any]] = {
        # Weights are read, and next to nothing is written: half of what it takes to copy them.
        "traffic": lambda x, codes, *_: codes[: n // 2].clone(),
        OURS: lambda x, codes, scales=None, *_: matvec(x, codes, scales),
        "eager": apart, "compiled": rivals.compiled(apart),
    }  # fmt: skip
    if library and form == "int8":
        candidates["torch"] = torch._weight_int8pack_mm
    elif library:
        candidates["torch"] = lambda x, codes, scales, packed, both: torch._weight_int4pack_mm(x, packed, _GROUP, both)
    return Case(f"matvec_{form}", f"{rows} x {n} x {k}", made, candidates, "traffic", right, k, 0.9)


def _has_library(form: str, device: str) -> bool:
    """Whether torch has a kernel of its own for the form and this device."""
    import torch

    if form not in ("int8", "int4") or device == "cpu":
        return False
    name, known = f"_weight_{form}pack_mm", torch._C._dispatch_has_kernel_for_dispatch_key
    return hasattr(torch.ops.aten, name) and known(f"aten::{name}", "CUDA")


def _for_torch(codes: Any, scales: Any) -> tuple[Any, Any]:
    """Weights as torch's kernel for 4 bits takes them: the first of two in the high half, tiled, beside zero points."""
    import torch

    return torch._convert_weight_to_int4pack((codes << 4) | (codes >> 4), 8), _with_zeros(scales)


def _with_zeros(scales: Any) -> Any:
    """Scales [N, groups] as torch takes them, [groups, N, 2], beside what it adds to (code - 8) times the scale: 0."""
    import torch

    return torch.stack((scales, torch.zeros_like(scales)), -1).transpose(0, 1).contiguous()
