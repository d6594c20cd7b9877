"""How the kernels of losses are compiled for a chip that is not there: for a vocabulary of some tens of thousands.

>>> 2**15 < WORDS < 2**16
True
"""

from __future__ import annotations

from rooflab.kernels.compiled import Build
from rooflab.kernels.products.builds import ENGINE
from rooflab.kernels.products.tiles import TILINGS, launch_options
from rooflab.kernels.targets import TARGETS

__all__ = ["WORDS", "builds"]

WORDS = 50_304


def builds() -> dict[str, Build]:
    """Return each kernel with the types and block sizes of a typical call, by name."""
    from . import triton_linear_cross_entropy as kernels
    from .chunks import softmax_blocks

    block, warps = softmax_blocks(WORDS)
    exact = dict.fromkeys(("losses", "largest", "sums"), "*fp32")
    types = exact | {"z": "*bf16", "targets": "*i64"} | dict.fromkeys(("V", "z_step", "tiles", "ignored"), "i32")
    constants = {"BLOCK": block, "TILES": 512, "GRADIENT": True}
    given = Build(kernels.softmax_gradient_kernel, types, constants, warps, unaligned=("tiles", "ignored"))
    types = {"y": "*bf16", "x": "*fp32", "factor": "*fp32", "numel": "i32"}
    made = {"softmax_gradient": given, "scale": Build(kernels.scale_kernel, types, {"BLOCK": 4096}, 8)}
    made["cross_entropy"], made["cross_entropy_capped"] = _rows(False), _rows(True)
    # In pairs on Hopper; on newer chips larger tiles, whose sums are not in registers, leave more room.
    for name, place, chips in (("logits", 5, ENGINE[:1]), ("logits_wide", 1, ENGINE)):
        made[name] = _logits(place, chips)
    return made


def _rows(capped: bool) -> Build:
    """The kernel over rows of logits as every chip can launch it; tanh is an instruction of NVIDIA's, and not in it."""
    from .chunks import row_blocks
    from .triton_cross_entropy import cross_entropy_kernel

    choice = row_blocks(WORDS, "cuda", max(each.warp_size for each in TARGETS.values()))[0]
    types = {"losses": "*fp32", "targets": "*i64", "cap": "fp32"} | dict.fromkeys(("dz", "z"), "*bf16")
    types |= dict.fromkeys(("V", "z_step", "dz_step", "ignored"), "i32")
    constants = {"CAPPED": capped, "INSTRUCTION": False, "GRADIENT": True, "BLOCK": choice["BLOCK"], "EACH": 8}
    return Build(cross_entropy_kernel, types, constants, choice["num_warps"], unaligned=("ignored",))


def _logits(place: int, chips: tuple[str, ...]) -> Build:
    from .triton_linear_cross_entropy import logits_kernel

    tiling = TILINGS["16"][place][0]
    options = launch_options(tiling)
    warps, stages = options.pop("num_warps"), options.pop("num_stages")
    m, n, k = (tiling[f"TILE_{axis}"] for axis in "MNK")
    types = {"largest": "*fp32", "sums": "*fp32"} | dict.fromkeys("TVD", "i32")
    for name, rows, cols in (("z", m, n // tiling["PARTS"]), ("x", m, k), ("w", n, k)):
        types[name] = f"tensordesc<bf16[{rows},{cols}]>"
    flags = {"X_TRANSPOSED": False, "W_TRANSPOSED": False, "PRECISION": "ieee", "PAIRS": True}
    return Build(logits_kernel, types, {**options, **flags}, warps, stages, chips=chips)
