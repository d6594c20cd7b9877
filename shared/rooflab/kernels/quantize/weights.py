"""Weights in 8 or 4 bits, as weight-only quantization commonly stores them, and the numbers that they stand for.

    int8    w = s q, q from -127 to 127; s of each row, or of each group of a row
    fp8     w = s q, q in e4m3; s of each row
    int4    w = s (q - z), q from 0 to 15, two in a byte, the first one in the low half; s of each group; z of each
            group, or 8

Sources: Frantar et al. 2023 (GPTQ); Lin et al. 2024 (AWQ); Micikevicius et al. 2022 (fp8).

>>> import torch
>>> codes, scales = quantize_weights(torch.tensor([[-7.0, 14.0, 0.0, 2.0] * 8]), "int4", 32)
>>> codes[0, :2].tolist(), scales.tolist(), numbers(codes, scales)[0, :4].tolist()
([244, 152], [[2.0]], [-8.0, 14.0, 0.0, 2.0])
"""

from __future__ import annotations

from typing import Any

from ..demands import flag, floats, refuse, together, whole

__all__ = ["BY_GROUPS", "FORMS", "form_of", "numbers", "quantize_weights"]

FORMS = ("int4", "int8", "fp8")
BY_GROUPS = 64  # weights in a group, from which on scales lie in memory by groups
_NAME = "quantize_weights"
_LARGEST = {"int4": 7, "int8": 127, "fp8": 448}


def quantize_weights(w: Any, form: str = "int4", group: int = 128, *, zeros: bool = False) -> tuple[Any, ...]:
    """Return codes, scales and with `zeros` zero points; see :func:`rooflab.kernels.quantize_weights`."""
    import torch

    floats(_NAME, w=w)
    if not w.is_meta:
        together(_NAME, w=w)
    zeros = flag(_NAME, "zeros", zeros)
    if form not in FORMS:
        refuse(_NAME, f"expected a form of {', '.join(FORMS)}; found {form!r}.")
    if w.ndim != 2:
        refuse(_NAME, f"expected a matrix of weights [N, K]; found {w.ndim} dimensions.")
    group = whole(_NAME, "group", group or w.shape[1])
    if group <= 0 or w.shape[1] % group or (form == "int4" and group % 2):
        refuse(_NAME, f"expected groups, even ones of int4, that divide a row of {w.shape[1]} weights; found {group}.")
    if zeros and form != "int4":
        refuse(_NAME, f"only int4 has zero points; found {form}.")
    groups = w.detach().float().unflatten(1, (-1, group))
    if zeros:
        low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
        scales = _stored(high, low, 15, w.dtype)
        points = (-low / scales.float()).round().clamp(0, 15).nan_to_num(0.0)
        codes = (_steps(groups, scales) + points[..., None]).clamp(0, 15)
        return _packed(codes.flatten(1)), _by_groups(scales, group), _by_groups(points.to(torch.uint8), group)
    largest = _LARGEST[form]
    scales = _stored(groups.abs().amax(-1), 0.0, largest, w.dtype)
    if form == "fp8":
        codes = (groups / scales.float()[..., None]).clamp(-largest, largest).flatten(1).to(torch.float8_e4m3fn)
        return codes, _by_groups(scales, group)
    codes = _steps(groups, scales).clamp(-largest, largest).flatten(1)
    return (_packed(codes + 8) if form == "int4" else codes.to(torch.int8)), _by_groups(scales, group)


def form_of(codes: Any) -> str:
    """Return the form of weights, by the format of their codes; "plain" for floating-point numbers."""
    import torch

    forms = {torch.uint8: "int4", torch.int8: "int8", torch.float8_e4m3fn: "fp8"}
    return forms.get(codes.dtype, "plain")


def numbers(codes: Any, scales: Any = None, zeros: Any = None, dtype: Any = None) -> Any:
    """Return the numbers [N, K] that codes stand for.

    Args:
        codes: as `quantize_weights` returns them; numbers without scales stay as they are.
        scales: of each row [N], or of each group [N, K / group].
        zeros: zero points, of the shape of scales (default: 8).
        dtype: in which they are computed and returned (default: float32).
    """
    import torch

    dtype = dtype or torch.float32
    if form_of(codes) == "int4":
        q = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2).to(dtype)
    else:
        q = codes.to(dtype)
    if scales is None or not q.numel():
        return q
    scales = scales.reshape(q.shape[0], -1)
    q = q.unflatten(1, (scales.shape[1], -1))
    if form_of(codes) == "int4":
        q = q - (8 if zeros is None else zeros.reshape(scales.shape).to(dtype)[..., None])
    return (q * scales.to(dtype)[..., None]).flatten(1)


def _stored(high: Any, low: Any, steps: int, dtype: Any) -> Any:
    """Scales, in the format in which they are stored, of which so many steps reach from low to high.

    Subnormal ones have few bits. They are rounded up: rounded down, to 0 at worst, they would not reach so far. A group
    of zeros has the scale 1.
    """
    import torch

    of = torch.finfo(dtype)
    scales = (high / steps - low / steps).to(dtype)  # high - low may be infinite
    short = (scales < of.smallest_normal) & (scales.float() * steps < high - low)
    scales = torch.where(short, scales + of.smallest_normal * of.eps, scales)
    return scales.masked_fill(scales == 0, 1.0)


def _steps(groups: Any, scales: Any) -> Any:
    """Weights in whole steps; 0 in a group whose scale is infinite or NaN: all its weights become NaN."""
    return (groups / scales.float()[..., None]).round().nan_to_num(0.0)


def _by_groups(values: Any, group: int) -> Any:
    """The same [N, K / group], those of one group side by side in memory: a warp has many rows, and few groups.

    Of smaller groups it has so many that they are better loaded by rows, some in one go.
    """
    return values.t().contiguous().t() if group >= BY_GROUPS else values


def _packed(codes: Any) -> Any:
    """Two codes in a byte."""
    import torch

    whole = codes.to(torch.uint8)
    return whole[:, 0::2] | whole[:, 1::2] << 4
