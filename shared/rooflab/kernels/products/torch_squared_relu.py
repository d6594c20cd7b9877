"""An MLP with squared ReLU as PyTorch's operators: two products with the activation in them, the others the library's.

    a = relu(x W^T)^2     y = a V^T        V [d, N]
    dh = 2 sqrt(a) (dy V)    dV = dy^T a    dx = dh W    dW = dh^T x

`rooflab::squared_relu_product` and `rooflab::squared_relu_gradient` are ours. h is never in memory.

>>> import torch
>>> squared_relu_mlp(torch.tensor([[1.0, -1.0]]), torch.tensor([[3.0, 1.0], [1.0, 3.0]]), torch.ones(1, 2))
tensor([[4.]])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..demands import floats, refuse, refuse_second_derivative, together
from ..launching import launch
from ..tuning import choose
from .tiles import INTERPRETED, count_tiles, launch_options, tilings
from .torch_operands import as_stored, described, padded_empty, processors
from .torch_squared_relu_hopper import hopper_tilings, run_on_hopper
from .triton_squared_relu import squared_relu_gradient_kernel, squared_relu_kernel

__all__ = ["gradient", "mlp", "product", "product_in_codes", "squared_relu_mlp"]

_NAME = "squared_relu_mlp"
_FP8 = torch.float8_e4m3fn
_TRIED = 4  # tilings on a chip that is not known


def squared_relu_mlp(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """Return relu(x up^T)^2 down^T; see :func:`rooflab.kernels.squared_relu_mlp`."""
    if x.ndim < 1 or up.ndim != 2 or down.ndim != 2 or x.shape[-1] != up.shape[1] or up.shape[0] != down.shape[1]:
        shapes = ", ".join(str(list(each.shape)) for each in (x, up, down))
        refuse(_NAME, f"expected x [..., K], up [N, K] and down [d, N]; found {shapes}.")
    rows = x.reshape(x.shape[:-1].numel(), x.shape[-1])
    return mlp(rows, up, down)[0].reshape(*x.shape[:-1], down.shape[0])


@torch.library.custom_op("rooflab::squared_relu_mlp", mutates_args=())
def mlp(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y = relu(x up^T)^2 down^T of a matrix x, and its activation, which has no gradient."""
    a = product(x, up)
    return a @ down.t(), a


@mlp.register_fake
def _(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.new_empty(x.shape[0], down.shape[0]), x.new_empty(x.shape[0], up.shape[0])


def _save(ctx: Any, inputs: tuple[torch.Tensor, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    ctx.save_for_backward(*inputs, output[1])
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, dy: torch.Tensor, _: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if torch.is_grad_enabled():  # the activation knows nothing of x and the weights: it would pass for a constant
        refuse_second_derivative(_NAME)
    x, up, down, a = ctx.saved_tensors
    dh = gradient(dy, down, a)
    return dh @ up, dh.t() @ x, dy.t() @ a


mlp.register_autograd(_backward, setup_context=_save)


@torch.library.custom_op("rooflab::squared_relu_product", mutates_args=())
def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return relu(x W^T)^2, contiguous; x is [M, K], w [N, K]."""
    _check(x=x, w=w)
    a = _new(x, w)
    if not a.numel() or not x.shape[1]:
        return torch.zeros_like(a)
    _forward(a, None, x, w, (None, None, None), str(x.itemsize * 8))
    return a.contiguous()


@torch.library.custom_op("rooflab::squared_relu_product_in_codes", mutates_args=())
def product_in_codes(
    x: torch.Tensor, w: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor, a_scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a = relu(x W^T)^2 of operands in e4m3, in bf16, and its codes in e4m3, which saturate.

    Args:
        x: codes [M, K]; N and K are multiples of 16.
        w: codes [N, K].
        x_scale, w_scale: by which codes are multiplied, fp32, one number each.
        a_scale: the same, of the result's codes.
    """
    together(_NAME, x=x, w=w, x_scale=x_scale, w_scale=w_scale, a_scale=a_scale)
    _check_codes(x, w)
    a = x.new_empty(x.shape[0], w.shape[0], dtype=torch.bfloat16)
    codes = torch.empty_like(a, dtype=_FP8)
    if a.numel() and x.shape[1]:
        _forward(a, codes, x, w, (x_scale, w_scale, a_scale), "8 squares")
        return a, codes
    return torch.zeros_like(a), torch.zeros_like(a).to(_FP8)


@torch.library.custom_op("rooflab::squared_relu_gradient", mutates_args=())
def gradient(dy: torch.Tensor, v: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """Return 2 sqrt(a) (dy V), contiguous; dy is [M, K], v [K, N], a [M, N]."""
    _check(dy=dy, v=v.t(), a=a)
    dh = _new(dy, v.t())
    if not dh.numel() or not dy.shape[1]:
        return torch.zeros_like(dh)
    dy, v, a = (as_stored(each, only=False)[0] for each in (dy, v, a))
    (m, k), n = dy.shape, v.shape[1]

    def run(choice: Mapping[str, Any]) -> None:
        if "TILE_M" not in choice:
            run_on_hopper(dh, dy, v, a, choice)
            return
        tile = tuple(choice[f"TILE_{axis}"] for axis in "MNK")
        part = tile[0], tile[1] // choice["PARTS"]
        blocks = (part, (tile[0], tile[2]), (tile[2], tile[1]), part)
        matrices = [described(one, block) for one, block in zip((dh, dy, v, a), blocks, strict=True)]
        constants = {"PRECISION": "ieee", "AHEAD": ahead, **launch_options(dict(choice))}
        launch(squared_relu_gradient_kernel, _grid(dh, choice), *matrices, a, a.stride(0), m, n, k, **constants)

    ahead = dh.is_cuda and torch.version.hip is None
    candidates = _candidates(dh, f"{dy.itemsize * 8} gradient")
    run(choose(f"squared_relu_gradient_{dy.itemsize * 8}", (m, n, k), candidates, run, dh.device))
    return dh.contiguous()


@product.register_fake
def _(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[0], w.shape[0])


@product_in_codes.register_fake
def _(
    x: torch.Tensor, w: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor, a_scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    _check_codes(x, w)
    shape = x.shape[0], w.shape[0]
    return x.new_empty(shape, dtype=torch.bfloat16), x.new_empty(shape)


@gradient.register_fake
def _(dy: torch.Tensor, v: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    return dy.new_empty(a.shape)


def _forward(
    a: torch.Tensor, codes: torch.Tensor | None, x: torch.Tensor, w: torch.Tensor, scales: tuple[Any, ...], kind: str
) -> None:
    x, w = as_stored(x, only=False)[0], as_stored(w, only=False)[0]
    (m, k), n = x.shape, w.shape[0]

    def run(choice: Mapping[str, Any]) -> None:
        if "TILE_M" not in choice:
            run_on_hopper(a, x, w, None, choice)
            return
        tile = tuple(choice[f"TILE_{axis}"] for axis in "MNK")
        part = tile[0], tile[1] // choice["PARTS"]
        results = described(a, part), None if codes is None else described(codes, part)
        operands = described(x, (tile[0], tile[2])), described(w, (tile[1], tile[2]))
        constants = {"PRECISION": "ieee", **launch_options(dict(choice))}
        launch(squared_relu_kernel, _grid(a, choice), *results, *operands, *scales, m, n, k, **constants)

    run(choose(f"squared_relu_{kind.partition(' ')[0]}", (m, n, k), _candidates(a, kind), run, a.device))


def _grid(c: torch.Tensor, tiling: Mapping[str, Any]) -> tuple[int]:
    return (min(count_tiles(c.shape[0], c.shape[1], dict(tiling)), processors(c.device)[0] * tiling["PER_SM"]),)


def _candidates(c: torch.Tensor, kind: str) -> list[Any]:
    if c.device.type == "cpu":
        return [INTERPRETED]
    many, engine = processors(c.device)
    portable = tilings(*c.shape, kind if engine else f"{kind} plain", many)[:_TRIED]
    return [*hopper_tilings(c), *portable] if kind.startswith("16") else portable


def _new(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return padded_empty(x.shape[0], w.shape[0], x.dtype, x.device)


def _check(**tensors: torch.Tensor) -> None:
    floats(_NAME, **tensors)
    together(_NAME, **tensors)
    if len({each.dtype for each in tensors.values()}) > 1:
        told = ", ".join(f"{name} in {each.dtype}" for name, each in tensors.items())
        refuse(_NAME, f"expected matrices of one format; found {told}: convert them to one.")


def _check_codes(x: torch.Tensor, w: torch.Tensor) -> None:
    if x.dtype != _FP8 or w.dtype != _FP8:
        refuse(_NAME, f"expected codes in float8_e4m3fn; found {x.dtype} and {w.dtype}: quantize them first.")
    if x.shape[1] % 16 or w.shape[0] % 16 or x.shape[1] != w.shape[1]:
        refuse(_NAME, f"expected codes [M, K] and [N, K], N and K multiples of 16; found {list(x.shape)} and "
                      f"{list(w.shape)}.")  # fmt: skip
