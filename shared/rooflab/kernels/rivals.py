"""The same work by others: torch's own kernels, its compiler, JAX, and Liger and torchao where they are installed.

>>> liger("no_such_module") is None
True
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

__all__ = ["compiled", "has_jax", "jax_array", "liger", "torchao"]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function compiled by torch for the very shapes that it gets; as it is where there is no GPU."""
    import torch

    return torch.compile(function, dynamic=False) if torch.cuda.is_available() else function


def liger(module: str) -> Any:
    """Return a module of Liger's kernels, such as "rms_norm", or None where Liger is not installed."""
    return _module(f"liger_kernel.ops.{module}")


def torchao(module: str) -> Any:
    """Return a module of torchao, such as "quantization.quant_primitives", or None where it is not installed."""
    return _module(f"torchao.{module}")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def has_jax(device: str = "cuda") -> bool:
    """Return whether JAX is installed and computes on such a device; a GPU's memory it then shares with torch."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # before JAX takes three quarters of the memory
    try:
        import jax
    except ImportError:
        return False
    return jax.default_backend() == {"cuda": "gpu"}.get(device, device)


def jax_array(tensor: Any) -> Any:
    """Return a copy of a torch tensor as an array of JAX, on the same device."""
    import jax

    return jax.dlpack.from_dlpack(tensor.detach().contiguous().clone())
