"""How much must an operation do: FLOPs, bytes, kernels, steps of communication?

>>> from rooflab import costs
>>> print(costs.matmul(1024, 1024, 1024, "bf16"))
matmul: 2.15 GFLOP, 6.29 MB, 1 kernel
"""

from .attention import attended_pairs, attention
from .mlp import mlp, mlp_params, mlp_parts
from .operators import axpy, copy, elementwise, gelu, layer_norm, matmul, matvec, reduction, rms_norm, softmax
from .optimizer import OPTIMIZERS, newton_schulz, optimizer_step, state_bytes
from .work import Work

__all__ = [
    "OPTIMIZERS",
    "Work",
    "attended_pairs",
    "attention",
    "axpy",
    "copy",
    "elementwise",
    "gelu",
    "layer_norm",
    "matmul",
    "matvec",
    "mlp",
    "mlp_params",
    "mlp_parts",
    "newton_schulz",
    "optimizer_step",
    "reduction",
    "rms_norm",
    "softmax",
    "state_bytes",
]
