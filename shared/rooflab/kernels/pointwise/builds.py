"""How the kernels over elements are compiled for a chip that is not there: in bf16, with the most likely blocks.

>>> from rooflab.kernels.pointwise.tiles import tile_blocks
>>> tile_blocks()[0]["BLOCK"] // (32 * tile_blocks()[0]["num_warps"])        # elements of a thread
16
"""

from __future__ import annotations

from rooflab.kernels.compiled import Build, types_of

from .tiles import tile_blocks

__all__ = ["builds"]


def builds() -> dict[str, Build]:
    """Return each kernel with the types and block sizes of a typical call, by name."""
    from . import triton_pointwise as kernels

    sizes = dict(tile_blocks()[0])
    warps = sizes.pop("num_warps")
    made = {}
    for form in ("erf", "tanh"):
        more = {**sizes, "TANH": form == "tanh"}
        name = "gelu" if form == "erf" else "gelu_tanh"
        made[name] = Build(kernels.gelu_kernel, types_of("y x", "cols x_step"), more, warps)
        types = types_of("dx x dy", "cols x_step dy_step")
        made[f"{name}_backward"] = Build(kernels.gelu_backward_kernel, types, more, warps)
    types = types_of("y gate up", "cols gate_step up_step")
    made["swiglu"] = Build(kernels.swiglu_kernel, types, sizes, warps)
    types = types_of("dgate dup gate up dy", "cols gate_step up_step dy_step")
    made["swiglu_backward"] = Build(kernels.swiglu_backward_kernel, types, sizes, warps)
    return made
