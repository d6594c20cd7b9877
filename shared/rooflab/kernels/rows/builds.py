"""How the kernels over rows are compiled for a chip that is not there: rows of 4,096 in bf16, as of a transformer, and
rows of 16,384 that are read twice.

>>> from rooflab.kernels.targets import target
>>> target("sm90").warp_size * max(_WARPS.values())
512
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooflab.kernels.compiled import Build, types_of

from .blocks import warp_blocks
from .rings import exchange_blocks, ring_blocks

__all__ = ["builds", "exchange_build", "hopper_build"]

_SHORT_COLS, _COLS, _LONG_COLS = 1024, 4096, 16_384
_ONCE = {"ROWS": 1, "COLS": _COLS}
_TWICE = {"BLOCK": _COLS, "COLS": 16_384, "AHEAD": 0}
_LOOP = {"ROWS": 2, "COLS": _COLS, "STAGES": 3}
_LONG = {"BLOCK": _COLS, "AHEAD": False}
_ALONE = {"CHAINED": False}  # what only some chips can do
_WARPS = {"forward": 8, "backward": 8, "loop": 16}


def builds() -> dict[str, Build]:
    """Return each kernel with the types and block sizes of a typical call, by name."""
    from . import triton_norm as norm
    from . import triton_norm_long as long
    from . import triton_norm_twice as twice
    from . import triton_softmax as softmax
    from .triton_softmax_twice import softmax_backward_twice_kernel, softmax_twice_kernel

    types = types_of("y x", "rows cols x_step")
    made = {"softmax": Build(softmax.softmax_kernel, types, {**_ONCE, "AHEAD": 0}, _WARPS["forward"])}
    types = types_of("y x", "cols x_step")
    made["softmax_long"] = Build(softmax_twice_kernel, types, _TWICE, _WARPS["loop"])
    types = types_of("dx y dy", "rows cols dy_step")
    made["softmax_backward"] = Build(softmax.softmax_backward_kernel, types, _ONCE, _WARPS["backward"])
    types = types_of("dx y dy", "cols dy_step")
    made["softmax_backward_long"] = Build(softmax_backward_twice_kernel, types, {"BLOCK": _COLS}, _WARPS["loop"])
    for name, centred, fused in (
        ("rms_norm", False, False), ("layer_norm", True, False), ("add_rms_norm", False, True),
        ("add_layer_norm", True, True),
    ):  # fmt: skip
        kind = {"RESIDUAL": fused, "CENTRED": centred, "BIAS": centred}
        types = types_of("y h x r w b", "rows cols x_step r_step", "mean rstd") | {"eps": "fp32"}
        constants = {**_ONCE, **kind, "ONE_PASS": centred, "FULL": True, "AHEAD": 0}
        made[name] = Build(norm.norm_kernel, types, constants, _WARPS["forward"])
        made[f"{name}_long"] = Build(twice.norm_twice_kernel, types, {"ROWS": 1, **_TWICE, **kind}, _WARPS["loop"])
        types = types_of("dx dy dh x w", "rows cols dy_step dh_step x_step", "dw_parts db_parts mean rstd")
        made[f"{name}_backward"] = Build(norm.norm_backward_kernel, types, {**_LOOP, **kind, **_ALONE}, _WARPS["loop"])
        shared = {"PARTS": 1 + centred, "BLOCKS": 4 // (1 + centred)}
        constants = {**_LONG, **shared, **kind, **_ALONE}
        made[f"{name}_backward_long"] = Build(long.long_norm_backward_kernel, types, constants, _WARPS["loop"])
    types = {"dw": "*bf16", "db": "*bf16", "parts": "*fp32", "programs": "i32", "cols": "i32"}
    made["add_partial_sums"] = Build(norm.add_partial_sums_kernel, types, {"PARTS": 256, "COLS": 8, **_ALONE})
    return made | _hopper()


def _hopper() -> dict[str, Build]:
    """Those in Gluon, where this Triton has it."""
    try:
        from . import triton_norm_hopper as norm
        from . import triton_norm_warps as warps
        from . import triton_softmax_hopper as softmax
    except ImportError:
        return {}
    made = {}
    for kind in ("rms_norm", "layer_norm", "softmax"):
        wanted = 1 + (kind == "layer_norm")  # programs that share a row, as above
        choice = next(one for one in ring_blocks(f"{kind}_backward", _LONG_COLS) if one["PARTS"] == wanted)
        sizes = {"BLOCK": choice["BLOCK"], "SLOTS": choice["SLOTS"]}
        sizes["BLOCKS"] = _LONG_COLS // choice["PARTS"] // choice["BLOCK"]
        if kind == "softmax":
            types = types_of("dx y dy", "rows cols dy_step")
            kernel: Any = softmax.softmax_backward_hopper_kernel
        else:
            kernel, centred = norm.norm_backward_hopper_kernel, kind == "layer_norm"
            types = types_of("dx dy dh x w", "rows cols dy_step dh_step x_step", "dw_parts db_parts mean rstd")
            sizes |= {"PARTS": choice["PARTS"], "RESIDUAL": False, "CENTRED": centred, "BIAS": centred, **_ALONE}
        made[f"{kind}_backward_hopper"] = _in_gluon(kernel, types, sizes, choice)
        made[f"{kind}_hopper"] = hopper_build(kind, _LONG_COLS, ring_blocks(kind, _LONG_COLS)[0])
        if kind != "softmax":
            modes = {name: sizes[name] for name in ("RESIDUAL", "CENTRED", "BIAS", "CHAINED")}
            for one in exchange_blocks(f"{kind}_backward", _LONG_COLS)[:1]:
                made[f"{kind}_backward_exchange"] = exchange_build(_LONG_COLS, one, **modes)
            types = {**types, **dict.fromkeys(("dy", "dh", "x"), "*i32")}
            made[f"{kind}_backward_short"] = _in_gluon(
                warps.norm_backward_warps_kernel, types, {**modes, "COLS": _SHORT_COLS}, warp_blocks(_SHORT_COLS)[0]
            )
    return made


def hopper_build(kind: str, cols: int, choice: Mapping[str, Any], *, full: bool = True) -> Build:
    """Return how a forward kernel in Gluon is compiled.

    Args:
        kind: "rms_norm", "layer_norm" or "softmax".
        cols: of a row.
        choice: one of :func:`ring_blocks`.
        full: the last block has as many columns as the others.
    """
    from .triton_norm_forward_hopper import norm_hopper_kernel
    from .triton_softmax_hopper import softmax_hopper_kernel

    sizes = {"BLOCK": choice["BLOCK"], "SLOTS": choice["SLOTS"], "BLOCKS": -(-cols // choice["BLOCK"]), "FULL": full}
    if kind == "softmax":
        return _in_gluon(softmax_hopper_kernel, types_of("y x", "rows cols x_step"), sizes, choice)
    types = types_of("y x w b", "rows cols x_step", "mean rstd") | {"eps": "fp32"}
    centred = kind == "layer_norm"
    return _in_gluon(norm_hopper_kernel, types, sizes | {"CENTRED": centred, "BIAS": centred}, choice)


def exchange_build(cols: int, choice: Mapping[str, Any], **modes: bool) -> Build:
    """Return how the gradient whose programs exchange sums is compiled.

    Args:
        cols: of a row, a power of two.
        choice: one of :func:`exchange_blocks`.
        modes: what else is constant.
    """
    from .triton_norm_exchange import norm_backward_exchange_kernel

    types = types_of("dx dy dh x w", "rows cols dy_step dh_step x_step", "dw_parts db_parts mean rstd")
    sizes = {name: choice[name] for name in ("PARTS", "LEAD", "BLOCK", "SLOTS")}
    sizes |= {"BLOCKS": cols // choice["PARTS"] // choice["BLOCK"], **modes}
    return _in_gluon(norm_backward_exchange_kernel, types | {"cells": "*i64"}, sizes, choice)


def _in_gluon(kernel: Any, types: Mapping[str, str], sizes: Mapping[str, Any], choice: Mapping[str, Any]) -> Build:
    return Build(kernel, types, sizes, choice["num_warps"], 1, ("rows",), ("sm90", "sm100"), gluon=True)
