"""How the products are compiled for a chip that is not there: with the tilings that are tried first for large matrices.

>>> [chip for chip in ("sm80", "sm90", "sm100") if chip in ENGINE]
['sm90', 'sm100']
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooflab.kernels.compiled import Build, types_of

from ..quantize.weights import BY_GROUPS
from .tiles import HOPPER, RELU, TILINGS, launch_options

__all__ = ["ENGINE", "builds", "matvec", "matvec_hopper"]

ENGINE = ("sm90", "sm100")  # chips with a copy engine for tiles
_PLAIN = ("sm80", "gfx942")
_SIZES = "M N K"
_CODED = ("codes", "x_scale", "w_scale", "a_scale")  # what products of fp8 have


def builds() -> dict[str, Build]:
    """Return each kernel with the types and block sizes of a typical call, by name."""
    from .triton_matmul import add_splits_kernel

    wide, two = (TILINGS["16"][place][0] for place in (0, 5))
    sums = dict(two, PARTS=2 * two["PARTS"])
    plain, exact = TILINGS["16 plain"][0][0], TILINGS["32"][0][0]
    made = {
        "matmul": _matmul(wide, ENGINE),
        "matmul_transposed": _matmul(wide, ENGINE, A_TRANSPOSED=True),
        "matmul_pairs": _matmul(two, ENGINE),
        "matmul_add": _matmul(sums, ENGINE[:1], result="fp32", A_TRANSPOSED=True, ADD="engine"),
        "matmul_splits": _matmul(sums, ENGINE[:1], result="fp32", SPLITS=5),
        "matmul_plain": _matmul(plain, _PLAIN),
        "matmul_fp32": _matmul(exact, (*ENGINE, *_PLAIN), given="fp32", result="fp32"),
    }
    types = {"c": "*fp32", "parts": "*fp32"} | dict.fromkeys(["N", "c_step", "step", "slab"], "i32")
    made["add_splits"] = Build(add_splits_kernel, types, {"SPLITS": 5, "ADD": False, "BLOCK": 1024})
    # e4m3 came with compute capability 8.9; gfx942 has another one (e4m3fnuz), which is not the same numbers.
    for name, kind, place, chips in (
        ("scaled_matmul", "8", 0, ENGINE[:1]),
        ("scaled_matmul_pairs", "8", 3, ENGINE),
        ("scaled_matmul_exact", "8 exact", 0, ENGINE),
        ("block_scaled_matmul", "blocks", 0, ENGINE),
    ):
        made[name] = _scaled(TILINGS[kind][place][0], kind, chips)
    for form in ("plain", "int8", "fp8", "int4"):
        made[f"matvec_{form}"] = matvec(form, ENGINE, rows=1)
        made[f"matvec_{form}_plain"] = matvec(form, _PLAIN, rows=1)
    return made | _squared_relu() | _hopper()


def _squared_relu() -> dict[str, Build]:
    """The products with an activation in them, with the largest tiles and with two programs a multiprocessor."""
    from .triton_squared_relu import squared_relu_gradient_kernel, squared_relu_kernel

    numbers = dict.fromkeys(_SIZES.split(), "i32")
    made = {}
    for name, place, kind, chips in (
        ("", 0, "", ENGINE), ("_pairs", 5, "", ENGINE[:1]), ("_plain", 0, " plain", _PLAIN),
        ("_gradient", 0, " gradient", ENGINE), ("_gradient_large", 1, " gradient", ENGINE[:1]),
        ("_gradient_plain", 0, " gradient plain", _PLAIN),
    ):  # fmt: skip
        tiling = TILINGS[f"16{kind}"][place][0]
        back, flags = "gradient" in kind, dict[str, Any](PRECISION="ieee")
        found = _matrices(tiling, "bf16", "bf16", False, not back)
        types = dict(zip(("dh", "dy", "v") if back else ("a", "x", "w"), found.values(), strict=True)) | numbers
        kernel, more = squared_relu_kernel, dict[str, Any](dict.fromkeys(_CODED))
        if back:
            kernel, more = squared_relu_gradient_kernel, {"AHEAD": chips != _PLAIN}
            types |= {"a": found["c"], "a_start": "*bf16", "a_step": "i32"}
        made[f"squared_relu{name}"] = _built(kernel, types, tiling, flags | more, chips)
    for name, place in (("", 0), ("_large", 1)):
        tiling = TILINGS["8 squares"][place][0]
        types = _in_codes(tiling) | dict.fromkeys(_CODED[1:], "*fp32") | numbers
        flags = {"PRECISION": "ieee"}
        made[f"squared_relu_codes{name}"] = _built(squared_relu_kernel, types, tiling, flags, ENGINE[: 2 - place])
    return made


def _in_codes(tiling: Mapping[str, Any]) -> dict[str, str]:
    found, part = _matrices(tiling, "fp8e4nv", "bf16", False, True), (tiling["TILE_M"], tiling["TILE_N"])
    codes = _described("fp8e4nv", part[0], part[1] // tiling["PARTS"])
    return {"a": found["c"], "codes": codes, "x": found["a"], "w": found["b"]}


def matvec(
    form: str, chips: tuple[str, ...], *, rows: int, group: int = 0, zeros: bool = False, place: int = 0
) -> Build:
    """Return the build of a product of few rows, in bf16.

    Args:
        form: of the weights: "plain", "int8", "fp8" or "int4".
        chips: for which; those that are not NVIDIA's newer ones get no PTX.
        rows: of x.
        group: of weights that share a scale (default: a row; of int4 128).
        zeros: whether there are zero points.
        place: of the blocks among those that can be chosen.
    """
    from .torch_matvec import blocks
    from .triton_matvec import matvec_kernel

    group = group or (128 if form == "int4" else 0)
    choice = dict(blocks(form, rows, group)[place])
    warps, _ = choice.pop("num_warps"), choice.pop("PER_SM")
    types = {"y": "*bf16", "x": "*bf16", "w": {"plain": "*bf16", "int8": "*i8"}.get(form, "*u8"), "scale": "*bf16"}
    types |= {"zero": "*u8"} | types_of("", "N K cols w_step x_step s_row s_group rows steps")
    flags: dict[str, Any] = {"FORM": form, "GROUP": group, "ZERO": zeros, "PTX": chips == ENGINE}
    flags |= {"P": 1 << (rows - 1).bit_length(), _side_by_side(group): 1}
    flags |= dict.fromkeys(["scale"] * (form == "plain") + ["zero"] * (not zeros))  # which are not there
    return Build(matvec_kernel, types, {**choice, **flags}, warps, unaligned=("rows", "steps"), chips=chips)


def _side_by_side(group: int) -> str:
    """The step that is one, as `quantize_weights` lays scales out: of a group's rows, or of a row's groups."""
    return "s_row" if group >= BY_GROUPS else "s_group"


def matvec_hopper(*, group: int = 128, zeros: bool = False, place: int = 0, dtype: str = "bf16") -> Build:
    """Return the build of the product of few rows and weights in 4 bits that is in Gluon.

    Args:
        group: of weights that share a scale: 128, 64 or 32.
        zeros: whether there are zero points.
        place: of the blocks among those that can be chosen.
        dtype: of x, "bf16" or "fp16".
    """
    from .torch_matvec_hopper import hopper_blocks
    from .triton_matvec_hopper import matvec_hopper_kernel

    choice = dict(hopper_blocks(256, group)[place])
    warps, _ = choice.pop("num_warps"), choice.pop("PER_SM")
    types = dict.fromkeys(("y", "x", "scale"), f"*{dtype}") | {"w": "*i32", "zero": "*u8"}
    types |= types_of("", "N K w_step x_step s_row s_group rows steps")
    flags: dict[str, Any] = {"GROUP": group, "ZERO": zeros, _side_by_side(group): 1} | dict.fromkeys(
        ["zero"] * (not zeros)
    )
    return Build(matvec_hopper_kernel, types, {**choice, **flags}, warps, 1, ("rows", "steps"), ENGINE, gluon=True)


def _described(kind: str, rows: int, cols: int, transposed: bool = False) -> str:
    return f"tensordesc<{kind}[{cols},{rows}]>" if transposed else f"tensordesc<{kind}[{rows},{cols}]>"


def _matrices(tiling: Mapping[str, Any], given: str, result: str, a_transposed: Any, b_transposed: Any) -> Any:
    m, n, k = (tiling[f"TILE_{axis}"] for axis in "MNK")
    return {
        "c": _described(result, m, n // tiling["PARTS"]),
        "a": _described(given, m, k, a_transposed),
        "b": _described(given, k, n, b_transposed),
    }


def _built(kernel: Any, types: Mapping[str, str], tiling: Mapping[str, Any], flags: Any, chips: Any) -> Build:
    options = launch_options(dict(tiling))
    warps, stages = options.pop("num_warps"), options.pop("num_stages")
    return Build(kernel, types, {**options, **flags}, warps, stages, chips=chips)


def _matmul(
    tiling: Mapping[str, Any], chips: tuple[str, ...], *, given: str = "bf16", result: str = "bf16", **more: Any
) -> Build:
    from .triton_matmul import matmul_kernel

    flags: dict[str, Any] = {
        "SPLITS": 1,
        "A_TRANSPOSED": False,
        "B_TRANSPOSED": False,
        "ADD": "no",
        "PRECISION": "ieee",
    } | more
    types = _matrices(tiling, given, result, flags["A_TRANSPOSED"], flags["B_TRANSPOSED"])
    return _built(matmul_kernel, types | dict.fromkeys(_SIZES.split(), "i32"), tiling, flags, chips)


def _scaled(tiling: Mapping[str, Any], kind: str, chips: tuple[str, ...]) -> Build:
    from .triton_scaled_matmul import block_scaled_matmul_kernel, scaled_matmul_kernel

    types = _matrices(tiling, "fp8e4nv", "bf16", False, True) | {"a_scale": "*fp32", "b_scale": "*fp32"}
    types |= dict.fromkeys(_SIZES.split(), "i32")
    if kind != "blocks":
        flags = {"BY_ROW": True, "EXACT": kind == "8 exact"}
        return _built(scaled_matmul_kernel, types, tiling, flags, chips)
    types |= dict.fromkeys(("sa_block", "sb_block"), "i32")
    return _built(block_scaled_matmul_kernel, types, tiling, {"BLOCK": 128, "sa_row": 1, "sb_col": 1}, chips)


def _hopper() -> dict[str, Build]:
    """Those in Gluon, where this Triton has it."""
    from .torch_squared_relu_hopper import blocks_of

    try:
        from .triton_scaled_hopper import scaled_matmul_hopper_kernel as kernel
        from .triton_squared_relu_hopper import squared_relu_hopper_kernel as relu
    except ImportError:
        return {}
    exact = dict.fromkeys(("a_scale", "b_scale"), "*fp32")
    numbers = dict.fromkeys((*_SIZES.split(), "sa_row", "sa_block", "sb_block", "sb_col"), "i32")
    options = dict(HOPPER)
    warps = options.pop("num_warps")
    made = {"matvec_int4_hopper": matvec_hopper()}
    for name, scales, result in (("", "row", "fp32"), ("block_", "block", "bf16")):
        matrices = {"c": _laid_out(result, 64), "a": _laid_out("fp8e4nv", 64), "b": _laid_out("fp8e4nv", 128)}
        made[f"{name}scaled_matmul_hopper"] = Build(
            kernel, matrices | exact | numbers, {"SCALES": scales, **options}, warps, 1, ("M", "N", "K"), ENGINE[:1],
            gluon=True,
        )  # fmt: skip
    for name, back, place in (("", False, 0), ("_gradient", True, 0), ("_wide", False, 2), ("_gradient_wide", True, 2)):
        options = dict(RELU[place])
        warps, blocks = options.pop("num_warps"), blocks_of(options, gradient=back)
        types = dict(zip("cxwa", (_laid_out("bf16", *block) for block in blocks), strict=True))
        made[f"squared_relu{name}_hopper"] = Build(
            relu, types | dict.fromkeys(_SIZES.split(), "i32"), {"GRADIENT": back, **options}, warps, 1,
            ("M", "N", "K"), ENGINE[:1], gluon=True,
        )  # fmt: skip
    return made


def _laid_out(kind: str, rows: int, cols: int = 128) -> str:
    """A descriptor of Gluon, which says how a block lies in shared memory."""
    from triton.experimental.gluon import language as gl

    kinds = {"fp8e4nv": gl.float8e4nv, "bf16": gl.bfloat16, "fp32": gl.float32}
    layout = gl.NVMMASharedLayout.get_default_for([rows, cols], kinds[kind])
    return f"tensordesc<{kind}[{rows}, {cols}],{layout!r}>"
