"""RMS norm and layer norm as operators of PyTorch, with their gradients, alone or fused with a residual addition.

>>> import torch
>>> y = rms_norm(torch.tensor([[3.0, 4.0]]), torch.ones(2), 0.0)
>>> round(float(y.square().mean()), 4)
1.0
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..demands import as_rows, floats, once, refuse, together
from ..launching import launch, need_triton
from ..tuning import choose
from . import metal_norm
from .blocks import (
    LONG,
    LONGEST,
    MOST,
    chained,
    evenly,
    forward_blocks,
    long_blocks,
    loop_blocks,
    next_power_of_2,
    processors,
    warp_blocks,
)
from .metal_source import on_apple
from .rings import exchange_blocks, forward_choices, launch_ring, on_hopper, ring_blocks
from .torch_norm_backward import backward_kernel

__all__ = ["add_layer_norm", "add_rms_norm", "layer_norm", "norm", "norm_backward", "rms_norm"]

_ONE_PASS = 16_384  # columns, up to which n times fp32's roundoff is below that of fp16
_PARTS = 512  # programs whose partial sums are loaded at a time, of 8 columns: a sector of 32 bytes


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Return RMS norm over the last dimension; see :func:`rooflab.kernels.rms_norm`."""
    return norm(x, None, weight, None, eps, False)[0]


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float = 1e-5) -> Tensor:
    """Return layer norm over the last dimension; see :func:`rooflab.kernels.layer_norm`."""
    return norm(x, None, weight, bias, eps, True)[0]


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    """Return RMS norm of a sum, and the sum; see :func:`rooflab.kernels.add_rms_norm`."""
    return norm(x, residual, weight, None, eps, False)[:2]


def add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor | None, eps: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """Return layer norm of a sum, and the sum; see :func:`rooflab.kernels.add_layer_norm`."""
    return norm(x, residual, weight, bias, eps, True)[:2]


@torch.library.custom_op("rooflab::norm", mutates_args=())
def norm(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    eps: float,
    centred: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the normalized rows of x, or of its sum with a residual; this sum; each row's mean and 1 / deviation.

    Args:
        x: of shape [..., n].
        residual: of the shape and format of x, or None: then the sum is empty.
        weight: of shape [n].
        bias: of shape [n], or None.
        eps: added under the root.
        centred: subtract the mean, as layer norm does; without it the means are empty.
    """
    name = "layer_norm" if centred else "rms_norm"
    name = name if residual is None else f"add_{name}"
    given, added = _checked(name, x, residual, weight, bias)
    rows, cols = given.shape
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    h = torch.empty(0 if residual is None else x.shape, dtype=x.dtype, device=x.device)
    mean, rstd = (torch.empty(size, dtype=torch.float32, device=x.device) for size in (rows if centred else 0, rows))
    width = next_power_of_2(cols)
    if given.numel() and on_apple(x):
        if residual is not None:
            given = torch.add(given, added, out=h.view(given.shape))
        metal_norm.norm(y, given, weight, bias, mean, rstd, eps)
        return y, h, mean, rstd

    half = x.element_size() == 2

    def run(choice: Any) -> None:
        need_triton()
        from .triton_norm import norm_kernel
        from .triton_norm_twice import norm_twice_kernel

        # A kernel takes no None: what it does not touch is replaced by a tensor that is there.
        more = (weight, weight if bias is None else bias, mean if centred else rstd, rstd)
        if "SLOTS" in choice:
            _with_ring(y, given, more, eps, choice, CENTRED=centred, BIAS=bias is not None)
            return
        tensors = (y, y if residual is None else h, given, added, *more)
        numbers = (rows, cols, given.stride(0), added.stride(0), eps)
        modes = {"RESIDUAL": residual is not None, "CENTRED": centred, "BIAS": bias is not None}
        sizes = {"ROWS": 1, **choice, "COLS": width, "AHEAD": choice.get("AHEAD", 0) * processors(x.device)}
        kernel = norm_twice_kernel if "BLOCK" in choice else norm_kernel
        if kernel is norm_kernel:
            modes |= {"ONE_PASS": centred and half and cols <= _ONE_PASS, "FULL": cols == width}
        launch(kernel, (-(-rows // sizes["ROWS"]),), *tensors, *numbers, **modes, **sizes)

    if given.numel():
        fetches = width >= LONG and chained(x.device)
        shared = (2, 4) if residual is None else (2,)  # with a residual four take too many registers
        choices = forward_blocks(width, 32, fetches=fetches, twice=half or not centred, together=shared)
        name, choices = forward_choices(name, width, choices, given, weight, weight if bias is None else bias)
        run(choose(name, (width,), choices, run, x.device))
    return y, h, mean, rstd


def _with_ring(y: Tensor, given: Tensor, more: tuple[Tensor, ...], eps: float, choice: Any, **modes: bool) -> None:
    """Launch the kernel for Hopper."""
    from .triton_norm_forward_hopper import norm_hopper_kernel

    rows, cols = given.shape
    full = cols % choice["BLOCK"] == 0
    launch_ring(
        norm_hopper_kernel, choice, given, y, given, *more, rows, cols, given.stride(0), eps, **modes, FULL=full
    )


@torch.library.custom_op("rooflab::norm_backward", mutates_args=())
def norm_backward(
    dy: torch.Tensor,
    dh: torch.Tensor | None,
    x: torch.Tensor,
    weight: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    biased: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients with regard to x, weight and bias (nothing where it is not `biased`); deterministic.

    Args:
        dy: the gradient with regard to the normalized rows.
        dh: that with regard to what was normalized, from elsewhere, or None.
        x: what was normalized, of shape [..., n].
        weight: as forward.
        mean: of each row, as `norm` returned it: with nothing in it, it was RMS norm.
        rstd: of each row.
        biased: whether there was a bias.
    """
    centred = mean.numel() > 0
    name = f"{'' if dh is None else 'add_'}{'layer' if centred else 'rms'}_norm_backward"
    given, gradient = (as_rows(name, each, longest=LONGEST) for each in (x, dy))
    along = gradient if dh is None else as_rows(name, dh, longest=LONGEST)
    rows, cols = given.shape
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    made = torch.empty if given.numel() else torch.zeros  # zeros are a launch
    dw, db = (made(size, dtype=weight.dtype, device=x.device) for size in (cols, cols if biased else 0))
    if given.numel() and on_apple(x):
        sums = metal_norm.norm_backward(dx, gradient, given, weight, mean, rstd)
        for out, one in zip((dw, db) if biased else (dw,), sums, strict=False):
            out.copy_(one)
        return dx if dh is None else dx.add_(dh), dw, db
    width = next_power_of_2(cols)
    modes = {"RESIDUAL": dh is not None, "CENTRED": centred, "BIAS": biased, "CHAINED": chained(x.device)}

    def run(choice: Any) -> None:
        need_triton()
        sizes = dict(choice)
        most = processors(x.device) * sizes.pop("PER_SM") // sizes.get("PARTS", 1)
        programs = evenly(-(-rows // sizes.get("ROWS", 1)), most)
        parts = torch.empty(1 + biased, programs, cols, dtype=torch.float32, device=x.device)
        kernel, sizes, paired = backward_kernel(sizes, rows, width, x.device, chain=modes["CHAINED"])
        arrays = [each.view(torch.int32) if paired else each for each in (gradient, along, given)]
        launch(
            kernel, (sizes["PARTS"], programs) if "PARTS" in sizes else (programs,), dx, parts[0], parts[-1], *arrays,
            weight, mean if centred else rstd, rstd, rows, cols, *(each.stride(0) for each in arrays), **modes, **sizes,
        )  # fmt: skip
        _add_up(parts, dw, db, chain=modes["CHAINED"])

    if given.numel():
        loads = (given, gradient) if dh is None else (given, gradient, along)
        blocks = _backward_blocks(width, loads, weight, centred=centred, biased=biased)
        run(choose(name, (width,), blocks, run, x.device))
    return dx, dw, db


def _backward_blocks(
    width: int, loads: tuple[Tensor, ...], weight: Tensor, *, centred: bool, biased: bool
) -> list[dict[str, Any]]:
    """What the gradient of rows so wide can be launched with: rings for Hopper first, if rows are long."""
    kind = "layer_norm_backward" if centred else "rms_norm_backward"
    further = ring_blocks(kind, width) + exchange_blocks(kind, width) + warp_blocks(width)
    further = further if further and on_hopper(*loads, weight) else []
    if width <= LONG:
        return loop_blocks(width, width * sum(each.itemsize for each in loads)) + further
    return further + long_blocks(width, biased + len(loads) - 1)[: MOST - len(further)]


def _add_up(parts: Tensor, dw: Tensor, db: Tensor, *, chain: bool) -> None:
    """Add up the programs' sums; `chain`: have the launch begin while the one before still runs."""
    from .triton_norm import add_partial_sums_kernel

    sums, programs, cols = parts.shape
    together = min(_PARTS, next_power_of_2(programs))
    columns = min(1024, 8 * _PARTS // together)
    launch(
        add_partial_sums_kernel, (-(-cols // columns), sums), dw, db if sums > 1 else dw, parts, programs, cols,
        PARTS=together, COLS=columns, CHAINED=chain, **({"launch_pdl": True} if chain else {}),
    )  # fmt: skip


def _checked(
    name: str, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of x, and those that are added to them, if everything fits together."""
    parameters = {"weight": weight, **({} if bias is None else {"bias": bias})}
    more = {} if residual is None else {"residual": residual}
    floats(name, x=x, **more, **parameters)
    together(name, metal=True, x=x, **more, **parameters)
    given = as_rows(name, x, longest=LONGEST)
    for what, each in parameters.items():
        if tuple(each.shape) != (given.shape[1],) or not each.is_contiguous():
            wanted = f"of shape ({given.shape[1]},), contiguous, for rows of that length"
            refuse(name, f"expected {what} {wanted}; found the shape {tuple(each.shape)}, strides {each.stride()}.")
    if residual is None:
        return given, given
    if residual.shape != x.shape or residual.dtype != x.dtype:
        refuse(
            name,
            f"expected a residual of the shape and format of x, {tuple(x.shape)} in {x.dtype}; found "
            f"{tuple(residual.shape)} in {residual.dtype}.",
        )
    return given, as_rows(name, residual, longest=LONGEST)


@norm.register_fake
def _(
    x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor | None, eps: float, centred: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows = x.numel() // x.shape[-1] if x.shape[-1] else 0
    mean, rstd = (x.new_empty(size, dtype=torch.float32) for size in (rows if centred else 0, rows))
    return x.new_empty(x.shape), x.new_empty(0 if residual is None else x.shape), mean, rstd


@norm_backward.register_fake
def _(
    dy: Tensor, dh: Tensor | None, x: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor, biased: bool
) -> tuple[Tensor, Tensor, Tensor]:
    cols = x.shape[-1]
    return x.new_empty(x.shape), weight.new_empty(cols), weight.new_empty(cols if biased else 0)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, residual, weight, bias, _, _ = inputs
    _, h, mean, rstd = output
    ctx.mark_non_differentiable(mean, rstd)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x if residual is None else h, weight, mean, rstd)
    ctx.fused, ctx.biased = residual is not None, bias is not None


def _backward(ctx: Any, dy: Tensor | None, dh: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if dy is None:  # the normalized rows were not used
        return dh, dh, None, None, None, None
    dx, dw, db = norm_backward(dy, dh if ctx.fused else None, *ctx.saved_tensors, ctx.biased)
    return dx, dx if ctx.fused else None, dw, db if ctx.biased else None, None, None


norm.register_autograd(_backward, setup_context=_keep)
once("rms_norm or layer_norm", norm_backward)
