"""Kernels over elements against their rivals, at the width of a transformer's hidden layer, in bf16.

>>> SIZES[0]
(8192, 11008)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rooflab.kernels import rivals
from rooflab.kernels.benchmark import Case
from rooflab.kernels.rows.cases import random_sets

__all__ = ["SIZES", "cases"]

SIZES = ((8192, 11008), (16384, 3072))


def cases(sizes: tuple[tuple[int, int], ...] = SIZES, device: str = "cuda") -> Iterator[Case]:
    """Yield GELU and SwiGLU at every size, forward and backward."""
    for shape in sizes:
        yield from _gelu(shape, device)
        yield from _swiglu(shape, device)


def _gelu(shape: tuple[int, int], device: str) -> Iterator[Case]:
    import torch

    from .torch_pointwise import gelu_backward, gelu_forward

    functional, aten, size = torch.nn.functional, torch.ops.aten, f"{shape[0]} x {shape[1]}"
    forward: dict[str, Callable[..., Any]] = {
        "copy": torch.clone, "rooflab": lambda x: gelu_forward(x, False), "eager": functional.gelu,
        "compiled": rivals.compiled(functional.gelu),
    }  # fmt: skip
    backward: dict[str, Callable[..., Any]] = {
        "add": torch.add, "rooflab": lambda x, dy: gelu_backward(x, dy, False),
        "eager": lambda x, dy: aten.gelu_backward(dy, x),
        "compiled": rivals.compiled(lambda x, dy: aten.gelu_backward(dy, x)),
    }  # fmt: skip
    yield Case("gelu", size, random_sets(device, shape), forward, "copy", functional.gelu)
    right = backward["eager"]
    yield Case("gelu_backward", size, random_sets(device, shape, shape), backward, "add", right)


def _swiglu(shape: tuple[int, int], device: str) -> Iterator[Case]:
    import torch

    from .torch_pointwise import swiglu, swiglu_backward

    functional, size = torch.nn.functional, f"{shape[0]} x {shape[1]}"

    def right(gate: Any, up: Any) -> Any:
        return functional.silu(gate) * up

    def gradients(gate: Any, up: Any, dy: Any) -> tuple[Any, Any]:
        g, u, d = gate.float(), up.float(), dy.float()
        s = g.sigmoid()
        return (d * u * s * (1 + g * (1 - s))).to(gate.dtype), (d * g * s).to(gate.dtype)

    forward: dict[str, Callable[..., Any]] = {
        "add": torch.add, "rooflab": swiglu, "eager": right, "compiled": rivals.compiled(right)
    }  # fmt: skip
    backward: dict[str, Callable[..., Any]] = {
        "traffic": rivals.compiled(lambda gate, up, dy: (gate + up + dy, gate - up + dy)),
        "rooflab": swiglu_backward, "eager": gradients, "compiled": rivals.compiled(gradients),
    }  # fmt: skip
    if (library := rivals.liger("swiglu")) is not None:
        forward["liger"] = lambda gate, up: library.swiglu_forward(gate, up)[2]
    yield Case("swiglu", size, random_sets(device, shape, shape), forward, "add", right)
    yield Case("swiglu_backward", size, random_sets(device, shape, shape, shape), backward, "traffic", gradients)
