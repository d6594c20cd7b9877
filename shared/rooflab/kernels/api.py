"""The kernels as functions of PyTorch's tensors or JAX's arrays: which framework is it, and where is its kernel?

>>> import torch
>>> rms_norm(torch.full((1, 4), 3.0), torch.ones(4)).round(decimals=3)
tensor([[1., 1., 1., 1.]])
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from .launching import ready

__all__ = ["add_layer_norm", "add_rms_norm", "gelu", "layer_norm", "load", "rms_norm", "softmax", "swiglu"]

# Where the functions of each framework are. They are looked up in plain dicts, which torch.compile can follow.
_MODULES = {
    "softmax": "rows.torch_softmax",
    "rms_norm": "rows.torch_norm",
    "layer_norm": "rows.torch_norm",
    "add_rms_norm": "rows.torch_norm",
    "add_layer_norm": "rows.torch_norm",
    "gelu": "pointwise.torch_pointwise",
    "swiglu": "pointwise.torch_pointwise",
}
_torch: dict[str, Callable[..., Any]] = {}
_tensors: tuple[type, ...] = ()


def softmax(x: Any) -> Any:
    """Softmax over the last dimension, in one pass over memory.

    Args:
        x: of shape [..., n], float32, bfloat16 or float16; n at most 65,536.

    Returns:
        the same shape and format. As in torch, a row with NaN or plus infinity in it, or nothing but minus infinity, is
        NaN.
    """
    return _of(x, "softmax")(x)


def rms_norm(x: Any, weight: Any, eps: float = 1e-6) -> Any:
    """Divide each row by its root mean square and multiply by a weight: x / sqrt(mean(x^2) + eps) * weight.

    Args:
        x: of shape [..., n], float32, bfloat16 or float16; n at most 65,536.
        weight: of shape [n].
        eps: added to the mean square.

    Returns:
        the shape and format of `x`. Source: Zhang and Sennrich 2019.
    """
    return _of(x, "rms_norm")(x, weight, eps)


def layer_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    """Subtract each row's mean, divide by its standard deviation, multiply by a weight and add a bias.

    Args:
        x: of shape [..., n], float32, bfloat16 or float16; n at most 65,536.
        weight: of shape [n].
        bias: of shape [n].
        eps: added to the variance.

    Returns:
        the shape and format of `x`. Source: Ba et al. 2016.
    """
    return _of(x, "layer_norm")(x, weight, bias, eps)


def add_rms_norm(x: Any, residual: Any, weight: Any, eps: float = 1e-6) -> tuple[Any, Any]:
    """Add a residual and take RMS norm of the sum, in one pass over memory.

    Args:
        x: of shape [..., n], float32, bfloat16 or float16; n at most 65,536.
        residual: of the same shape and format.
        weight: of shape [n].
        eps: added to the mean square.

    Returns:
        the normalized sum, and the sum itself, for the next residual; both of the shape and format of `x`.
    """
    return _of(x, "add_rms_norm")(x, residual, weight, eps)


def add_layer_norm(x: Any, residual: Any, weight: Any, bias: Any, eps: float = 1e-5) -> tuple[Any, Any]:
    """Add a residual and take layer norm of the sum, in one pass over memory.

    Args:
        x: of shape [..., n], float32, bfloat16 or float16; n at most 65,536.
        residual: of the same shape and format.
        weight: of shape [n].
        bias: of shape [n], or None.
        eps: added to the variance.

    Returns:
        the normalized sum, and the sum itself, for the next residual; both of the shape and format of `x`.
    """
    return _of(x, "add_layer_norm")(x, residual, weight, bias, eps)


def gelu(x: Any, form: str = "erf") -> Any:
    """Gaussian error linear unit of each element: x times the normal distribution function of x.

    Args:
        x: of any shape, float32, bfloat16 or float16.
        form: "erf", or "tanh" for the approximation of GPT-2.

    Returns:
        the same shape and format. Source: Hendrycks and Gimpel 2016.
    """
    return _of(x, "gelu")(x, form)


def swiglu(gate: Any, up: Any) -> Any:
    """Let `up` through a gate, element by element: gate / (1 + exp(-gate)) * up.

    Args:
        gate: of any shape, float32, bfloat16 or float16; both may be halves of one tensor's last dimension.
        up: of the same shape.

    Returns:
        the shape and format of `gate`. Source: Shazeer 2020.
    """
    return _of(gate, "swiglu")(gate, up)


def load() -> None:
    """Load the kernels of the frameworks that this process uses.

    Raises:
        MissingExtra: Triton is not installed.
    """
    global _tensors
    if not _torch and (torch := sys.modules.get("torch")) is not None:
        ready()
        for name, module in _MODULES.items():
            _torch[name] = getattr(importlib.import_module(f"{__package__}.{module}"), name)
        _tensors = (torch.Tensor,)


def _of(x: Any, name: str) -> Callable[..., Any]:
    """The kernel's function for the framework of an array."""
    if isinstance(x, _tensors):
        return _torch[name]
    if not _torch and "torch" in sys.modules:
        load()
        return _of(x, name)
    raise TypeError(f"{name} takes a tensor of PyTorch; found a {type(x).__name__}.")
