"""The kernels as functions of PyTorch's tensors or JAX's arrays: which framework is it, and where is its kernel?

>>> import torch
>>> rms_norm(torch.full((1, 4), 3.0), torch.ones(4))
tensor([[1., 1., 1., 1.]])
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from typing import Any

from rooflab.extras import MissingExtra

from .demands import framework
from .launching import ready

__all__ = ["layer_norm", "load", "rms_norm", "softmax"]

# Where the functions of each framework are. They are looked up in plain dicts, which torch.compile can follow.
_MODULES = {"softmax": "rows.torch_softmax", "rms_norm": "rows.torch_norm", "layer_norm": "rows.torch_norm"}
_JAX_MODULES = {"softmax": "rows.pallas_softmax", "rms_norm": "rows.pallas_norm", "layer_norm": "rows.pallas_norm"}
_torch: dict[str, Callable[..., Any]] = {}
_jax: dict[str, Callable[..., Any]] = {}
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


def load() -> None:
    """Load the kernels of PyTorch, if this process uses it and its kernels can run; those of JAX wait for an array.

    Nothing is said here of what is missing: perhaps the other framework is the one that is used.
    """
    if "torch" in sys.modules:
        with contextlib.suppress(MissingExtra):
            _load_torch()


def _load_torch() -> None:
    global _tensors
    if not _torch:
        import torch

        ready()
        for name, module in _MODULES.items():
            _torch[name] = getattr(importlib.import_module(f"{__package__}.{module}"), name)
        _tensors = (torch.Tensor,)


def _of(x: Any, name: str) -> Callable[..., Any]:
    """The kernel's function for the framework of an array."""
    if isinstance(x, _tensors):
        return _torch[name]
    return _elsewhere(x, name)


def _elsewhere(x: Any, name: str) -> Callable[..., Any]:
    """The kernel's function for an array of JAX, or for the first tensor of PyTorch."""
    found = framework(x)
    if found == "torch":
        _load_torch()
        return _torch[name]
    if found != "jax":
        raise TypeError(f"{name} takes a tensor of PyTorch or an array of JAX; found a {type(x).__name__}.")
    if name not in _jax:
        _jax[name] = getattr(importlib.import_module(f"{__package__}.{_JAX_MODULES[name]}"), name)
    return _jax[name]
