"""Which formats and classes cross the pipe by their name, as in `cast(x, np.float16)`?

>>> name_of(int), name_of(np.float32), name_of(np.dtype(">f8"))
(['class', 'int'], ['numpy', 'float32'], ['dtype', '>f8'])
>>> named("numpy", "float32") is np.float32, name_of(object), name_of(7)
(True, None, None)

Only names of a fixed set are looked up: an answer may name a format, never a function of the grader's. No class is
among them that a check could be made to fill the memory with, as `bytes(2**40)` would.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any

import numpy as np

from .parts import Refused

__all__ = ["dtype_name", "dtype_of", "is_array_dtype", "name_of", "named"]

_PLAIN = (bool, int, float, complex, str, list, tuple, dict, set, frozenset)
_ERRORS = tuple(kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, Exception))
_CLASSES: dict[str, type] = {kind.__name__: kind for kind in (*_PLAIN, *_ERRORS)}
_KINDS = frozenset("biufcmMSU")
_SMALL_FLOATS = ("bfloat16", "float8", "float6", "float4")  # the names that ml_dtypes gives to its formats


def is_array_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of this format are plain data: numbers, times or strings."""
    return dtype.kind in _KINDS or dtype.name.startswith(_SMALL_FLOATS)


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name by which :func:`dtype_of` knows a format."""
    return dtype.name if dtype.kind == "V" or dtype.num >= 256 else dtype.str


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the format of this name, from an untrusted process; raises Refused where it is none of plain data."""
    if name.startswith(_SMALL_FLOATS):
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    dtype = np.dtype(name)
    if dtype.kind not in _KINDS or dtype.hasobject or dtype.subdtype is not None:
        raise Refused(f"an answer holds an array of the format {name!r}; expected numbers or strings")
    return dtype


def name_of(thing: object) -> list[str] | None:
    """Return how a format, device or plain class is called, as a kind and a name; None for anything else."""
    if isinstance(thing, type):
        name = thing.__name__
        if _CLASSES.get(name) is thing:
            return ["class", name]
        for package in ("numpy", "ml_dtypes", "jax.numpy"):
            if _format_class(package, name) is thing:
                return [package, name]
        return None
    if isinstance(thing, np.dtype):
        return ["dtype", dtype_name(thing)] if is_array_dtype(thing) else None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(thing, getattr(torch, "dtype", ())):
        return ["torch", str(thing).removeprefix("torch.")]
    if torch is not None and isinstance(thing, getattr(torch, "device", ())):
        return ["device", str(thing)]
    return None


def named(kind: str, name: str) -> Any:
    """Return what :func:`name_of` named, in an untrusted process; raises Refused where it names nothing."""
    found: Any = None
    torch = sys.modules.get("torch")
    if kind == "class":
        found = _CLASSES.get(name)
    elif kind in ("numpy", "ml_dtypes", "jax.numpy"):
        found = _format_class(kind, name)
    elif kind == "dtype":
        found = dtype_of(name[:40])
    elif kind == "torch" and torch is not None:
        found = getattr(torch, name, None)
        found = found if isinstance(found, torch.dtype) else None
    elif kind == "device" and torch is not None:
        found = torch.device(name[:40])
    if found is None:
        raise Refused(f"an answer names {name[:40]!r}, which is no format that is known here")
    return found


def _format_class(package: str, name: str) -> type | None:
    """The class of a number format, as `numpy.float32`, in a package that is loaded."""
    found = vars(sys.modules[package]).get(name) if package in sys.modules else None  # getattr warns of old names
    if not isinstance(found, type):
        return None
    if package == "jax.numpy":
        return found if type(found).__name__ == "_ScalarMeta" else None
    if package == "numpy":
        return found if issubclass(found, np.generic) and not issubclass(found, np.flexible | np.object_) else None
    return found if name.startswith((*_SMALL_FLOATS, "int2", "int4", "uint2", "uint4")) else None
