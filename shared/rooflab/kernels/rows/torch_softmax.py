"""Softmax as an operator of PyTorch, with its gradient.

>>> import torch
>>> x = torch.tensor([[0.0, 0.0]], requires_grad=True)
>>> softmax(x)[0, 0].backward()
>>> x.grad
tensor([[ 0.2500, -0.2500]])
"""

from __future__ import annotations

from typing import Any

import torch

from ..demands import as_rows, floats, once, together
from ..launching import launch, need_triton
from ..tuning import choose
from . import metal_softmax
from .blocks import LONG, LONGEST, chained, forward_blocks, next_power_of_2, processors
from .metal_source import on_apple
from .rings import forward_choices, launch_ring, on_hopper, ring_blocks

__all__ = ["softmax", "softmax_backward"]


@torch.library.custom_op("rooflab::softmax", mutates_args=())
def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return softmax over the last dimension, of the same shape and format; see :func:`rooflab.kernels.softmax`."""
    floats("softmax", x=x)
    together("softmax", metal=True, x=x)
    given = as_rows("softmax", x, longest=LONGEST)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _over_rows("softmax", given, (y, given))
    return y


@torch.library.custom_op("rooflab::softmax_backward", mutates_args=())
def softmax_backward(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    """Return the gradient of softmax with regard to its input.

    Args:
        y: the result, of shape [..., n], contiguous.
        dy: the gradient with regard to it.
    """
    given = as_rows("softmax", dy, longest=LONGEST)
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    _over_rows("softmax_backward", given, (dx, y, given))
    return dx


def _over_rows(name: str, given: torch.Tensor, tensors: tuple[torch.Tensor, ...]) -> None:
    """Run the kernel of this name where the tensors are."""
    rows, cols = given.shape
    if not given.numel():
        return
    if on_apple(given):
        getattr(metal_softmax, name)(*tensors)
        return
    need_triton()
    from .triton_softmax import softmax_backward_kernel, softmax_kernel
    from .triton_softmax_twice import softmax_backward_twice_kernel, softmax_twice_kernel

    width = next_power_of_2(cols)
    forward = name == "softmax"

    def run(choice: Any) -> None:
        if "SLOTS" in choice:
            _with_ring(tensors, choice, forward=forward)
            return
        sizes = {**choice, "COLS": width}
        if forward:
            sizes["AHEAD"] = choice.get("AHEAD", 0) * processors(given.device)
        if "BLOCK" in choice and forward:
            launch(softmax_twice_kernel, (rows,), *tensors, cols, given.stride(0), **sizes)
        elif "BLOCK" in choice:
            launch(softmax_backward_twice_kernel, (rows,), *tensors, cols, given.stride(0), **choice)
        else:
            kernel = softmax_kernel if forward else softmax_backward_kernel
            launch(kernel, (-(-rows // choice["ROWS"]),), *tensors, rows, cols, given.stride(0), **sizes)

    if forward:
        choices = forward_blocks(width, 64, fetches=width >= LONG and chained(given.device))
        name, choices = forward_choices(name, width, choices, given)
    else:
        choices = forward_blocks(width, 32)  # a thread holds two numbers for each element
        rings = ring_blocks(name, width)
        if rings and on_hopper(*tensors[1:]):
            choices = rings + choices
    run(choose(name, (width,), choices, run, given.device))


def _with_ring(tensors: tuple[torch.Tensor, ...], choice: Any, *, forward: bool) -> None:
    """Launch a kernel for Hopper."""
    from .triton_softmax_hopper import softmax_backward_hopper_kernel, softmax_hopper_kernel

    *_, given = tensors
    rows, cols = given.shape
    args = (given, *tensors, rows, cols, given.stride(0))
    if forward:
        launch_ring(softmax_hopper_kernel, choice, *args, FULL=cols % choice["BLOCK"] == 0)
    else:
        launch_ring(softmax_backward_hopper_kernel, choice, *args)


@softmax.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape)


@softmax_backward.register_fake
def _(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    return y.new_empty(y.shape)


def _keep(ctx: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
    ctx.save_for_backward(output)


def _backward(ctx: Any, dy: torch.Tensor) -> torch.Tensor:
    (y,) = ctx.saved_tensors
    return softmax_backward(y, dy)


softmax.register_autograd(_backward, setup_context=_keep)
once("softmax", softmax_backward)
