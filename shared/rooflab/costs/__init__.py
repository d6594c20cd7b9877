"""How much must an operation do: FLOPs, bytes, kernels, steps of communication?

>>> from rooflab import costs
>>> print(costs.matmul(1024, 1024, 1024, "bf16"))
matmul: 2.15 GFLOP, 6.29 MB, 1 kernel
"""

from .attention import attended_pairs, attention
from .collectives import (
    Collective,
    Link,
    all_gather,
    all_to_all,
    allreduce,
    broadcast,
    crossover_bytes,
    reduce_scatter,
)
from .mlp import mlp, mlp_params, mlp_parts
from .operators import (
    axpy,
    copy,
    elementwise,
    gelu,
    layer_norm,
    linear,
    matmul,
    matvec,
    quantized_linear,
    reduction,
    rms_norm,
    softmax,
)
from .optimizer import OPTIMIZERS, newton_schulz, optimizer_step, state_bytes
from .transformer import MODELS, RECOMPUTE, Transformer, flops_per_token, transformer_params
from .transformer_step import PART_CLASS, transformer_forward, transformer_parts, transformer_step
from .work import Work

__all__ = [
    "MODELS",
    "OPTIMIZERS",
    "PART_CLASS",
    "RECOMPUTE",
    "Collective",
    "Link",
    "Transformer",
    "Work",
    "all_gather",
    "all_to_all",
    "allreduce",
    "attended_pairs",
    "attention",
    "axpy",
    "broadcast",
    "copy",
    "crossover_bytes",
    "elementwise",
    "flops_per_token",
    "gelu",
    "layer_norm",
    "linear",
    "matmul",
    "matvec",
    "mlp",
    "mlp_params",
    "mlp_parts",
    "newton_schulz",
    "optimizer_step",
    "quantized_linear",
    "reduce_scatter",
    "reduction",
    "rms_norm",
    "softmax",
    "state_bytes",
    "transformer_forward",
    "transformer_params",
    "transformer_parts",
    "transformer_step",
]
