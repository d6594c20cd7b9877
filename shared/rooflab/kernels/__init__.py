"""Kernels that are worth using: as fast as the memory or the arithmetic of a chip allows, and short enough to read.

Each of them takes PyTorch's tensors or JAX's arrays, has a gradient, and works under `torch.compile` and in JAX's
transformations. Without a GPU Triton's interpreter runs them.

>>> import torch
>>> from rooflab import kernels
>>> kernels.softmax(torch.zeros(2, 4))
tensor([[0.2500, 0.2500, 0.2500, 0.2500],
        [0.2500, 0.2500, 0.2500, 0.2500]])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .launching import prefer_interpreter

if TYPE_CHECKING:
    from .api import (
        add_layer_norm,
        add_rms_norm,
        gelu,
        layer_norm,
        matmul,
        rms_norm,
        scaled_matmul,
        softmax,
        swiglu,
    )
    from .attend.api import attention, attention_decode, rotary_heads
    from .loss.api import cross_entropy_with_gradient, linear_cross_entropy
    from .products.api import matvec, squared_relu_mlp
    from .quantize.api import quantize_fp8, quantize_mx, quantize_nvfp4, quantize_weights

__all__ = [
    "add_layer_norm", "add_rms_norm", "attention", "attention_decode", "cross_entropy_with_gradient", "gelu",
    "layer_norm", "linear_cross_entropy", "matmul", "matvec", "quantize_fp8", "quantize_mx", "quantize_nvfp4",
    "quantize_weights", "rms_norm", "rotary_heads", "scaled_matmul", "softmax", "squared_relu_mlp", "swiglu",
]  # fmt: skip

# The families whose functions have their own module, by the first word of a name.
_ELSEWHERE = {
    "attention": "attend", "rotary": "attend", "matvec": "products", "quantize": "quantize", "linear": "loss",
    "cross": "loss", "squared": "products",
}  # fmt: skip

prefer_interpreter()


def __getattr__(name: str) -> Any:
    """Load the kernels when the first of them is asked for: Triton takes a second."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import api

    api.load()
    family = _ELSEWHERE.get(name.partition("_")[0])
    return getattr(import_module(f"{__name__}.{family}.api") if family else api, name)
