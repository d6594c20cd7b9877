"""How the kernels of losses are compiled for a chip that is not there: for a vocabulary of some tens of thousands.

>>> 2**15 < WORDS < 2**16
True
"""

from __future__ import annotations

from rooflab.kernels.compiled import Build

__all__ = ["WORDS", "builds"]

WORDS = 50_304


def builds() -> dict[str, Build]:
    """Return each kernel with the types and block sizes of a typical call, by name."""
    from . import triton_linear_cross_entropy as kernels
    from .chunks import softmax_blocks

    types = {"losses": "*fp32", "z": "*bf16", "targets": "*i64"} | dict.fromkeys(("V", "z_step", "ignored"), "i32")
    block, warps, stages = softmax_blocks(WORDS)
    constants = {"BLOCK": block, "GRADIENT": True, "STAGES": stages}
    given = Build(kernels.softmax_gradient_kernel, types, constants, warps, stages, unaligned=("ignored",))
    types = {"y": "*bf16", "x": "*fp32", "factor": "*fp32", "numel": "i32"}
    return {"softmax_gradient": given, "scale": Build(kernels.scale_kernel, types, {"BLOCK": 4096}, 8)}
