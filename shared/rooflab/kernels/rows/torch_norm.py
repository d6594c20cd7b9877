"""RMS norm and layer norm as operators of PyTorch, with their gradients.

>>> import torch
>>> x = torch.tensor([[3.0, 4.0]], requires_grad=True)
>>> y = rms_norm(x, torch.ones(2), 0.0)
>>> round(float(y.detach().square().mean()), 4)
1.0
"""

from __future__ import annotations

from typing import Any

import torch

from ..demands import as_rows, floats, refuse, together
from ..launching import launch, need_triton
from ..tuning import choose
from . import metal_norm
from .blocks import LONGEST, loop_blocks, next_power_of_2, processors, row_blocks
from .metal_source import on_apple

__all__ = ["layer_norm", "norm", "norm_backward", "rms_norm"]

_SUMS = {"PARTS": 32, "COLS": 32, "num_warps": 4}


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Return RMS norm over the last dimension; see :func:`rooflab.kernels.rms_norm`."""
    return norm(x, weight, None, eps, False)[0]


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float = 1e-5) -> torch.Tensor:
    """Return layer norm over the last dimension; see :func:`rooflab.kernels.layer_norm`."""
    return norm(x, weight, bias, eps, True)[0]


@torch.library.custom_op("rooflab::norm", mutates_args=())
def norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float, centred: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the normalized rows, and of each row its mean (nothing without `centred`) and 1 / its deviation.

    Args:
        x: of shape [..., n].
        weight: of shape [n].
        bias: of shape [n], or None.
        eps: added under the root.
        centred: subtract the mean, as layer norm does.
    """
    name = "layer_norm" if centred else "rms_norm"
    given = _checked(name, x, weight, bias)
    rows, cols = given.shape
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    mean, rstd = (torch.empty(size, dtype=torch.float32, device=x.device) for size in (rows if centred else 0, rows))
    width = next_power_of_2(cols)
    if given.numel() and on_apple(x):
        metal_norm.norm(y, given, weight, bias, mean, rstd, eps)
        return y, mean, rstd

    def run(choice: Any) -> None:
        need_triton()
        from .triton_norm import norm_kernel

        launch(
            norm_kernel, (-(-rows // choice["ROWS"]),), y, given, weight, _or(bias, weight), _or(mean, rstd, centred),
            rstd, rows, cols, given.stride(0), eps, CENTRED=centred, BIAS=bias is not None, COLS=width, **choice,
        )  # fmt: skip

    if given.numel():
        run(choose(name, (width,), row_blocks(width, 32), run, x.device))
    return y, mean, rstd


@torch.library.custom_op("rooflab::norm_backward", mutates_args=())
def norm_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor, biased: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients with regard to x, weight and bias (nothing where it is not `biased`); deterministic.

    Args:
        dy: the gradient with regard to the result.
        x: of shape [..., n], as forward.
        weight: as forward.
        mean: of each row, as `norm` returned it: with nothing in it, it was RMS norm.
        rstd: of each row.
        biased: whether there was a bias.
    """
    centred = mean.numel() > 0
    name = f"{'layer' if centred else 'rms'}_norm_backward"
    given, gradient = (as_rows(name, each, longest=LONGEST) for each in (x, dy))
    rows, cols = given.shape
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    dw, db = (torch.zeros(cols if there else 0, dtype=weight.dtype, device=x.device) for there in (True, biased))
    if not given.numel():
        return dx, dw, db
    if on_apple(x):
        sums = metal_norm.norm_backward(dx, gradient, given, weight, mean, rstd)
        return dx, *(
            one.to(weight.dtype) if other.numel() else other for one, other in zip(sums, (dw, db), strict=True)
        )
    width = next_power_of_2(cols)

    def run(choice: Any) -> None:
        need_triton()
        from .triton_norm import add_partial_sums_kernel, norm_backward_kernel

        sizes = {key: value for key, value in choice.items() if key != "PER_SM"}
        programs = min(processors(x.device) * choice["PER_SM"], -(-rows // choice["ROWS"]))
        dw_parts, db_parts = (
            torch.empty(programs, cols if there else 0, dtype=torch.float32, device=x.device)
            for there in (True, biased)
        )
        launch(
            norm_backward_kernel, (programs,), dx, dw_parts, _or(db_parts, dw_parts, biased), gradient, given, weight,
            _or(mean, rstd, centred), rstd, rows, cols, gradient.stride(0), given.stride(0), CENTRED=centred,
            BIAS=biased, COLS=width, **sizes,
        )  # fmt: skip
        for parts, out in ((dw_parts, dw), (db_parts, db)):
            if out.numel():
                grid = (-(-cols // _SUMS["COLS"]),)
                launch(add_partial_sums_kernel, grid, out, parts, programs, cols, **_SUMS)

    run(choose(name, (width,), loop_blocks(width), run, x.device))
    return dx, dw, db


def _checked(name: str, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The rows of x, if everything fits together."""
    parameters = {"weight": weight, **({} if bias is None else {"bias": bias})}
    floats(name, x=x, **parameters)
    together(name, metal=True, x=x, **parameters)
    given = as_rows(name, x, longest=LONGEST)
    for what, each in parameters.items():
        if tuple(each.shape) != (given.shape[1],) or not each.is_contiguous():
            found = f"{what} of shape {tuple(each.shape)}"
            refuse(
                name,
                f"expected {what} of shape ({given.shape[1]},), contiguous, for rows of that length; found {found}.",
            )
    return given


def _or(tensor: torch.Tensor | None, other: torch.Tensor, there: bool = True) -> torch.Tensor:
    """A tensor, or in its place another one, which the kernel then does not touch: it takes no None."""
    return other if tensor is None or not there else tensor


@norm.register_fake
def _(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float, centred: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows = x.numel() // x.shape[-1] if x.shape[-1] else 0
    float32 = torch.float32
    return (
        x.new_empty(x.shape), x.new_empty(rows if centred else 0, dtype=float32), x.new_empty(rows, dtype=float32),
    )  # fmt: skip


@norm_backward.register_fake
def _(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor, biased: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    cols = x.shape[-1]
    return x.new_empty(x.shape), weight.new_empty(cols), weight.new_empty(cols if biased else 0)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    x, weight, bias, _, _ = inputs
    _, mean, rstd = output
    ctx.mark_non_differentiable(mean, rstd)
    ctx.save_for_backward(x, weight, mean, rstd)
    ctx.biased = bias is not None


def _backward(ctx: Any, dy: torch.Tensor, *_: Any) -> tuple[torch.Tensor | None, ...]:
    dx, dw, db = norm_backward(dy, *ctx.saved_tensors, ctx.biased)
    return dx, dw, db if ctx.biased else None, None, None


norm.register_autograd(_backward, setup_context=_keep)
