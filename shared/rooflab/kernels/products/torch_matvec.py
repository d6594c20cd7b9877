"""Few rows times a matrix of weights as a PyTorch operator, `rooflab::matvec`, with a gradient with regard to x.

    y = x W^T          dx = dy W

Weights in 8 or 4 bits are not trained; dx takes them apart and multiplies with torch's product, which is no faster than
if they were not quantized.

>>> import torch
>>> matvec(torch.ones(1, 64).bfloat16(), torch.full((2, 64), 3, dtype=torch.int8), torch.tensor([1.0, 0.5]))
tensor([[192.,  96.]], dtype=torch.bfloat16)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..demands import floats, refuse, together
from ..launching import launch
from ..quantize.weights import form_of, numbers
from ..tuning import choose
from .torch_matvec_hopper import hopper_blocks, on_hopper, run_on_hopper, step_of
from .torch_operands import processors
from .triton_matmul import add_splits_kernel
from .triton_matvec import matvec_kernel

__all__ = ["GROUPS", "MOST_ROWS", "blocks", "matvec", "splits", "thin_product"]

_NAME = "matvec"
MOST_ROWS = 8
GROUPS = (32, 64, 128)
_COLUMNS = 8  # the least that the matrix units take: more of them cost as much again
# Rows of W and bytes of each at a time, warps (one for 16 rows), stages, and programs a multiprocessor that a call
# should have.
_BLOCKS = (
    (64, 128, 4, 4, 4), (64, 128, 4, 4, 8), (32, 128, 2, 4, 8), (16, 128, 1, 4, 16), (128, 64, 4, 5, 4),
    (64, 128, 4, 5, 4), (64, 64, 4, 6, 8), (128, 128, 8, 4, 2), (64, 128, 4, 3, 16), (32, 128, 2, 5, 16),
    (64, 256, 4, 3, 4), (32, 256, 2, 3, 8),
)  # fmt: skip
_PACKED = {"int4": 2, "int8": 1, "fp8": 1, "plain": 0.5}  # weights in a byte


def matvec(
    x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor | None = None, zero: torch.Tensor | None = None
) -> torch.Tensor:
    """Return x times W transposed; see :func:`rooflab.kernels.matvec`."""
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in (w, scale, zero)):
        refuse(_NAME, "it has no gradient with regard to weights or their scales: use matmul, or freeze them.")
    if not x.ndim:
        refuse(_NAME, "expected x of one dimension or more; found a number.")
    rows = x.reshape(x.shape[:-1].numel(), x.shape[-1])
    return thin_product(rows, w, scale, zero).reshape(*x.shape[:-1], w.shape[0])


@torch.library.custom_op("rooflab::matvec", mutates_args=())
def thin_product(
    x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor | None, zero: torch.Tensor | None
) -> torch.Tensor:
    """Return x W^T, contiguous, in the format of x.

    Args:
        x: of shape [rows, K].
        w: of shape [N, K], or [N, K / 2] in uint8.
        scale: of shape [N] or [N, K / group], or None for plain weights.
        zero: zero points of int4, of the shape of scale, or None: they are 8.
    """
    given = {"x": x, "w": w, "scale": scale, "zero": zero}
    together(_NAME, **{name: each for name, each in given.items() if each is not None})
    group = _check(x, w, scale, zero)
    y = x.new_empty(x.shape[0], w.shape[0])
    if not y.numel() or not x.shape[1]:
        return y.zero_()
    x, w = (each if each.stride(1) == 1 else each.contiguous() for each in (x, w))
    _run(y, x, w, scale, zero, group)
    return y


@thin_product.register_fake
def _(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor | None, zero: torch.Tensor | None) -> torch.Tensor:
    _check(x, w, scale, zero)
    return x.new_empty(x.shape[0], w.shape[0])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _gradient(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    w, scale, zero = ctx.saved_tensors
    return dy @ numbers(w, scale, zero, dy.dtype), None, None, None


thin_product.register_autograd(_gradient, setup_context=_keep)


def blocks(form: str, rows: int, group: int) -> list[dict[str, int]]:
    """Return what the kernel can be launched with: R rows of W, KB weights of each at a time.

    Args:
        form: of the weights: "plain", "int8", "fp8" or "int4".
        rows: of x.
        group: of weights that share a scale; 0: a row.

    >>> blocks("int4", 1, 128)[0]
    {'R': 64, 'KB': 256, 'STAGES': 4, 'PER_SM': 4, 'num_warps': 4}
    """
    found = []
    for r, wide, warps, stages, per_sm in _BLOCKS:
        kb = int(wide * _PACKED[form])
        while group and kb > max(group, 64) and _padded(rows) * kb > _COLUMNS * group:
            kb //= 2
        one = {"R": r, "KB": max(kb, group), "STAGES": stages, "PER_SM": per_sm, "num_warps": warps}
        # With groups a wide block has more sums, scales and numbers under way than there are registers.
        if one not in found and not (group and wide > 128):
            found.append(one)
    return found


def splits(n: int, k: int, choice: Mapping[str, int], many: int) -> tuple[int, int]:
    """Return the steps of a range of K, and the number of ranges, for about PER_SM programs a multiprocessor.

    >>> splits(4096, 8192, {"R": 64, "KB": 256, "PER_SM": 4}, 132)  # 64 blocks of rows: 8 ranges
    (4, 8)
    """
    every = -(-k // choice["KB"])
    wanted = max(1, round(choice["PER_SM"] * many / -(-n // choice["R"])))
    steps = -(-every // min(wanted, every))
    return steps, -(-every // steps)


def _padded(rows: int) -> int:
    return 1 << (rows - 1).bit_length()


def _run(
    y: torch.Tensor, x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor | None, zero: torch.Tensor | None, group: int
) -> None:
    (rows, k), n, form = x.shape, w.shape[0], form_of(w)
    many, _ = processors(x.device)
    codes = w.view(torch.uint8) if form == "fp8" else w
    if scale is not None and (not group or (zero is not None and zero.stride() != scale.stride())):
        scale, zero = (None if each is None else each.contiguous() for each in (scale, zero))
    direct = form == "int4" and on_hopper(x, w)

    def run(choice: Mapping[str, Any]) -> None:
        wide = step_of(choice, group) if direct else choice["KB"]
        steps, parts = splits(n, k, {**choice, "KB": wide}, many)
        into = y if parts == 1 else torch.empty(parts, rows, n, dtype=torch.float32, device=x.device)
        if direct:
            assert scale is not None
            run_on_hopper(into, x, w, scale, zero, group, choice, steps)
        else:
            options = {name: value for name, value in choice.items() if name != "PER_SM"}
            steps_of = scale.stride() if scale is not None and group else (1, 1)
            launch(
                matvec_kernel, (-(-n // choice["R"]), parts), into, x, codes, scale, zero, n, k, w.shape[1],
                w.stride(0), x.stride(0), *steps_of, rows, steps, FORM=form, GROUP=group, ZERO=zero is not None,
                P=_padded(rows), PTX=_has_ptx(x), **options,
            )  # fmt: skip
        if parts > 1:
            _add_up(y, into)

    if x.device.type == "cpu" and not direct:
        return run({"R": 32, "KB": max(64, group), "STAGES": 1, "PER_SM": 1, "num_warps": 4})
    candidates = hopper_blocks(k // group, group) if direct else blocks(form, rows, group)
    name = f"{_NAME}_{form}" + ("_hopper" if direct else "")
    return run(choose(name, (rows, n, k, group or k), candidates, run, x.device))


def _add_up(y: torch.Tensor, parts: torch.Tensor) -> None:
    """The sums over ranges of K [parts, rows, N], in one order."""
    many, rows, n = parts.shape
    block = 256
    launch(
        add_splits_kernel, (rows, -(-n // block)), y, parts, n, n, n, rows * n, SPLITS=many, ADD=False, BLOCK=block,
        num_warps=2,
    )  # fmt: skip


def _has_ptx(x: torch.Tensor) -> bool:
    """Whether the chip takes the instructions of the short way from codes to numbers."""
    if x.device.type != "cuda" or torch.version.hip:
        return False
    return torch.cuda.get_device_capability(x.device) >= (8, 9)


def _check(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor | None, zero: torch.Tensor | None) -> int:
    """The weights that share a scale; 0: those of a row."""
    floats(_NAME, x=x)
    if x.dtype == torch.float32:
        raise TypeError(f"{_NAME} takes x in bfloat16 or float16; found float32: convert it first.")
    form = form_of(w)
    if form == "plain" and (w.dtype != x.dtype or scale is not None):
        refuse(_NAME, f"expected w in int8, float8_e4m3fn, uint8, or without scales in {x.dtype}; found {w.dtype}.")
    if x.ndim != 2 or w.ndim != 2 or w.shape[1] * (2 if form == "int4" else 1) != x.shape[1]:
        half = " / 2" if form == "int4" else ""
        refuse(_NAME, f"expected x [..., K] and w [N, K{half}]; found {list(x.shape)} and {list(w.shape)}.")
    if x.shape[0] > MOST_ROWS:
        refuse(_NAME, f"expected at most {MOST_ROWS} rows of x; found {x.shape[0]}: use matmul, on numbers for codes.")
    if zero is not None and (form != "int4" or scale is None or zero.shape != scale.shape or zero.is_floating_point()):
        refuse(_NAME, "expected zero points as whole numbers, with int4 alone, of the shape of its scales.")
    return 0 if form == "plain" else _group(x, w, scale, form)


def _group(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor | None, form: str) -> int:
    n, k = w.shape[0], x.shape[1]
    if scale is None:
        refuse(_NAME, f"weights in {form} have scales; found none.")
    assert scale is not None
    floats(_NAME, scale=scale)
    if form != "int4" and tuple(scale.shape) in ((n,), (n, 1)):
        return 0
    groups = [each for each in GROUPS if form != "fp8" and k % each == 0 and tuple(scale.shape) == (n, k // each)]
    if not groups and n * k:
        rows = "" if form == "int4" else f"[{n}]" + ("" if form == "fp8" else " or ")
        more = "" if form == "fp8" else f"[{n}, {k} / group] with groups of {', '.join(map(str, GROUPS))}"
        refuse(_NAME, f"expected scales of {form} of shape {rows}{more}; found {list(scale.shape)}.")
    return groups[-1] if groups else GROUPS[-1]
