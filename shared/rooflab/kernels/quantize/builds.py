"""How the kernels that quantize are compiled for a chip that is not there: from bf16, with the most likely blocks.

>>> from rooflab.kernels.quantize.builds import builds
>>> builds.__name__
'builds'
"""

from __future__ import annotations

from rooflab.kernels.compiled import Build, types_of

__all__ = ["builds"]


def builds() -> dict[str, Build]:
    """Return each kernel with the types and block sizes of a typical call, by name."""
    from . import triton_quantize as kernels

    made = {}
    # Chips with an instruction for e4m3 are told apart; that of gfx942 is for another format of 8 bits.
    for more, converts, chips in (("", True, ("sm90", "sm100")), ("_plain", False, ("sm80", "gfx942"))):
        codes, sizes = {"q": "*u8", "scale": "*u8"}, {"CONVERTS": converts}
        rows = types_of("x", "rows cols x_step", "scale") | {"q": "*u8"}
        blocks = {"ROWS": 1, "COLS": 4096, **sizes}
        made[f"rows_to_fp8{more}"] = Build(kernels.rows_to_fp8_kernel, rows, blocks, chips=chips)
        whole = types_of("x", "n", "scale") | {"q": "*u8"}
        blocks = {"BLOCK": 4096, **sizes}
        made[f"tensor_to_fp8{more}"] = Build(kernels.tensor_to_fp8_kernel, whole, blocks, warps=8, chips=chips)
        types = types_of("x", "blocks") | codes
        blocks = {"FOUR": False, "BLOCKS": 128, **sizes}
        made[f"mxfp8{more}"] = Build(kernels.blocks_to_mx_kernel, types, blocks, chips=chips)
        types = types | {"q": "*i32"}
        made[f"mxfp4{more}"] = Build(kernels.blocks_to_mx_kernel, types, blocks | {"FOUR": True}, chips=chips)
        types = types_of("x", "blocks", "tensor_scale") | codes | {"q": "*i32"}
        made[f"nvfp4{more}"] = Build(kernels.blocks_to_nvfp4_kernel, types, {"BLOCKS": 256, **sizes}, chips=chips)
    return made | _of_words()


def _of_words() -> dict[str, Build]:
    """Those of 4 bits from bf16 on NVIDIA's chips from 8.0 on; elsewhere and from other formats the others serve."""
    from . import triton_words as kernels

    types = types_of("x", "blocks") | {"q": "*i32", "scale": "*u8"}
    chips = ("sm80", "sm90", "sm100")
    made = {"mxfp4_words": Build(kernels.blocks_to_mxfp4_words_kernel, types, {"BLOCKS": 128}, chips=chips)}
    types = types | types_of("", "", "tensor_scale")
    for name, converts, where in (("nvfp4_words", True, chips[1:]), ("nvfp4_words_plain", False, chips[:1])):
        blocks = {"CONVERTS": converts, "BLOCKS": 256}
        made[name] = Build(kernels.blocks_to_nvfp4_words_kernel, types, blocks, chips=where)
    return made
