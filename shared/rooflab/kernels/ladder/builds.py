"""How the steps of the ladders are compiled for a chip that is not there: in bf16, with the blocks that they launch.

>>> CHIPS["specialized"]
('sm90',)
"""

from __future__ import annotations

from typing import Any

from rooflab.kernels.compiled import Build
from rooflab.kernels.targets import TARGETS

from .steps import LADDERS, Step

__all__ = ["CHIPS", "builds"]

# From "pipelined" on, products come through descriptors; what is specialized, Triton's compiler does so for Hopper.
CHIPS = {"pipelined": ("sm90", "sm100"), "persistent": ("sm90", "sm100"), "specialized": ("sm90",)}
_D, _COLS = 128, 4096
_TILES: dict[str, dict[str, Any]] = {
    "softmax": {
        "naive": {"ROWS": 32, "warps": 1}, "coalesced": {"BLOCK": 1024}, "online": {"BLOCK": 1024},
        "registers": {"COLS": _COLS, "warps": 8}, "persistent": {"COLS": _COLS, "warps": 8},
        "pipelined": {"COLS": _COLS, "STAGES": 3, "warps": 8},
    },
    "matmul": {
        "naive": {"ROWS": 128}, "coalesced": {"COLS": 128},
        "tiled": {"TILE": 128, "DEPTH": 64, "warps": 8, "stages": 1},
        "pipelined": {"TILE": 128, "DEPTH": 64, "STAGES": 4, "warps": 8},
        "persistent": {"TILE": 128, "DEPTH": 64, "STAGES": 4, "warps": 8},
        "specialized": {"TILE": 128, "DEPTH": 64, "STAGES": 3},
    },
    "attention": {
        "naive": {"M": 128}, "coalesced": {"D": _D, "N": 32}, "online": {"D": _D, "N": 32},
        "tiled": {"D": _D, "M": 128, "N": 128, "warps": 8, "stages": 1},
        "pipelined": {"D": _D, "M": 128, "N": 128, "STAGES": 2, "warps": 8},
        "persistent": {"D": _D, "M": 128, "N": 128, "STAGES": 2, "warps": 8},
        "specialized": {"D": _D, "M": 128, "N": 128, "STAGES": 2, "stages": 2},
    },
}  # fmt: skip


def builds() -> dict[str, Build]:
    """Return each step with the types and block sizes with which it is timed, by names such as "softmax naive"."""
    return {f"{ladder} {step.name}": _build(step) for ladder, steps in LADDERS.items() for step in steps}


def _build(step: Step) -> Build:
    kernel = getattr(step.module(), f"{step.ladder}_kernel")
    constants = dict(_TILES[step.ladder][step.name])
    warps, stages = constants.pop("warps", 4), constants.pop("stages", 3)
    types = dict.fromkeys((name for name in kernel.arg_names if name not in constants), "i32")
    arrays = {"softmax": "y x", "matmul": "c a b", "attention": "o q k v"}[step.ladder].split()
    types |= dict.fromkeys(arrays, "*bf16")
    types |= {name: kind for name, kind in {"scores": "*fp32", "scale": "fp32"}.items() if name in types}
    if step.ladder != "softmax" and step.name in ("pipelined", "persistent"):
        blocks = {"c": (128, 128), "a": (128, 64), "b": (64, 128)}
        types |= {name: _tile(*blocks.get(name, (128, _D))) for name in arrays}
    chips = tuple(TARGETS) if step.ladder == "softmax" else CHIPS.get(step.name, tuple(TARGETS))
    return Build(kernel, types, constants, warps, stages, chips=chips)


def _tile(rows: int, cols: int) -> str:
    return f"tensordesc<bf16[{rows},{cols}]>"
