"""GELU and SwiGLU as operators of PyTorch, with their gradients.

>>> import torch
>>> x = torch.zeros(2, requires_grad=True)
>>> gelu(x).sum().backward()
>>> x.grad
tensor([0.5000, 0.5000])
"""

from __future__ import annotations

from typing import Any

import torch

from ..demands import floats, once, together
from ..launching import launch
from ..tuning import choose
from . import triton_pointwise as kernels
from .tiles import as_tiles, tile_blocks, tile_grid

__all__ = ["gelu", "gelu_backward", "gelu_forward", "swiglu", "swiglu_backward"]


def gelu(x: torch.Tensor, form: str = "erf") -> torch.Tensor:
    """Return GELU of each element; see :func:`rooflab.kernels.gelu`."""
    if form not in ("erf", "tanh"):
        raise ValueError(f"gelu: expected form 'erf' or 'tanh'; found {form!r}.")
    return gelu_forward(x, form == "tanh")


@torch.library.custom_op("rooflab::gelu", mutates_args=())
def gelu_forward(x: torch.Tensor, tanh: bool) -> torch.Tensor:
    """Return GELU of each element, exact or by tanh."""
    floats("gelu", x=x)
    together("gelu", x=x)
    (given,) = as_tiles("gelu", x)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _run("gelu", kernels.gelu_kernel, [y], [given], TANH=tanh)
    return y


@torch.library.custom_op("rooflab::gelu_backward", mutates_args=())
def gelu_backward(x: torch.Tensor, dy: torch.Tensor, tanh: bool) -> torch.Tensor:
    """Return the gradient with regard to x."""
    given = as_tiles("gelu_backward", x, dy)
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _run("gelu_backward", kernels.gelu_backward_kernel, [dx], given, TANH=tanh)
    return dx


@torch.library.custom_op("rooflab::swiglu", mutates_args=())
def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return gate / (1 + exp(-gate)) * up of each element; see :func:`rooflab.kernels.swiglu`."""
    floats("swiglu", gate=gate, up=up)
    together("swiglu", gate=gate, up=up)
    given = as_tiles("swiglu", gate, up)
    y = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    _run("swiglu", kernels.swiglu_kernel, [y], given)
    return y


@torch.library.custom_op("rooflab::swiglu_backward", mutates_args=())
def swiglu_backward(gate: torch.Tensor, up: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients with regard to both."""
    given = as_tiles("swiglu_backward", gate, up, dy)
    dgate, dup = (torch.empty(each.shape, dtype=each.dtype, device=each.device) for each in (gate, up))
    _run("swiglu_backward", kernels.swiglu_backward_kernel, [dgate, dup], given)
    return dgate, dup


def _run(name: str, kernel: Any, out: list[torch.Tensor], given: list[torch.Tensor], **constants: Any) -> None:
    """Launch a kernel that takes its results, its inputs, the length of a row, and how far rows are apart."""
    first = given[0]
    if not first.numel():
        return
    steps = [each.stride(0) for each in given]

    def run(choice: Any) -> None:
        grid = tile_grid(first, choice["BLOCK"])
        launch(kernel, grid, *out, *given, first.shape[1], *steps, **constants, **choice)

    run(choose(name, (first.shape[1],), tile_blocks(), run, first.device))


@gelu_forward.register_fake
def _(x: torch.Tensor, tanh: bool) -> torch.Tensor:
    return x.new_empty(x.shape)


@gelu_backward.register_fake
def _(x: torch.Tensor, dy: torch.Tensor, tanh: bool) -> torch.Tensor:
    return x.new_empty(x.shape)


@swiglu.register_fake
def _(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return gate.new_empty(gate.shape)


@swiglu_backward.register_fake
def _(gate: torch.Tensor, up: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return gate.new_empty(gate.shape), up.new_empty(up.shape)


def _keep_gelu(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, ctx.tanh = inputs
    ctx.save_for_backward(x)


def _gelu_gradient(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
    return gelu_backward(*ctx.saved_tensors, dy, ctx.tanh), None


def _keep_swiglu(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _swiglu_gradient(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return swiglu_backward(*ctx.saved_tensors, dy)


gelu_forward.register_autograd(_gelu_gradient, setup_context=_keep_gelu)
swiglu.register_autograd(_swiglu_gradient, setup_context=_keep_swiglu)
once("gelu", gelu_backward)
once("swiglu", swiglu_backward)
