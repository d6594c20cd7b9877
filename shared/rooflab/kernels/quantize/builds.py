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

    codes = {"q": "*u8", "scale": "*u8"}
    rows = types_of("x", "rows cols x_step", "scale") | {"q": "*u8"}
    made = {"rows_to_fp8": Build(kernels.rows_to_fp8_kernel, rows, {"ROWS": 1, "COLS": 4096})}
    whole = types_of("x", "n", "scale") | {"q": "*u8"}
    made["tensor_to_fp8"] = Build(kernels.tensor_to_fp8_kernel, whole, {"BLOCK": 4096}, warps=8)
    for form, four in (("mxfp8", False), ("mxfp4", True)):
        types = types_of("x", "blocks") | codes
        made[form] = Build(kernels.blocks_to_mx_kernel, types, {"FOUR": four, "BLOCKS": 128})
    types = types_of("x", "blocks", "tensor_scale") | codes
    made["nvfp4"] = Build(kernels.blocks_to_nvfp4_kernel, types, {"BLOCKS": 256})
    return made
