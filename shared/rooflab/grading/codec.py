"""How does plain data cross the pipe between the grader and a student's process?

>>> tree, blobs = pack({"x": (1, 2.5), 3: {4}})
>>> unpack(tree, b"".join(blobs))
{'x': (1, 2.5), 3: {4}}

As JSON, with the bytes of arrays behind it; never as a pickle, which would run code. What is unpacked comes from an
untrusted process: sizes, depth, formats and shapes are checked before anything is built, and only exact built-in
types, numpy arrays and tensors are ever built, so that no object can decide itself whether it is equal to another.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .formats import dtype_name, dtype_of, is_array_dtype, name_of, named
from .parts import MOST_ITEMS, REBUILT, Refused, list_of, pair_of, real_of, spread, text_of, unlike, whole_of

__all__ = ["DEEPEST", "MOST_ITEMS", "NotPlain", "Refused", "pack", "unpack"]

DEEPEST = 100
_MOST_DIGITS = 4_000_000  # of a whole number, hexadecimal


class NotPlain(TypeError):
    """An object that is no plain data; `found` is it."""

    def __init__(self, found: object) -> None:
        kind = type(found)
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")[:200]
        super().__init__(f"a {name} cannot cross between processes; expected numbers, strings, lists, dicts or arrays")
        self.found = found


class _Packer:
    def __init__(self, handle: Callable[[object], dict[str, Any] | None] | None) -> None:
        self.handle, self.blobs, self.place, self.items = handle, list[bytes](), 0, 0

    def pack(self, value: Any, depth: int = 0) -> Any:
        self.items += 1
        if depth > DEEPEST:
            raise ValueError(f"the data is nested more than {DEEPEST} deep")
        if self.items > MOST_ITEMS:
            raise ValueError(f"the data has more than {MOST_ITEMS:,} items")
        found = type(value)
        if value is None or found is bool or found is str:
            return value
        if found is int:
            return value if value.bit_length() < 64 else {"~": "int", "v": f"{value:x}"}
        if found is float:
            return value if math.isfinite(value) else {"~": "float", "v": repr(value)}
        if found is list:
            return [self.pack(item, depth + 1) for item in value]
        if found is dict:
            return {"~": "dict", "v": [[self.pack(k, depth + 1), self.pack(v, depth + 1)] for k, v in value.items()]}
        if found is tuple or found is set or found is frozenset:
            return {"~": found.__name__, "v": [self.pack(item, depth + 1) for item in value]}
        if found is complex:
            return {"~": "complex", "v": [self.pack(value.real), self.pack(value.imag)]}
        if found is bytes or found is bytearray:
            return {"~": found.__name__, "v": self.blob(bytes(value))}
        return self.other(value, found, depth)

    def other(self, value: Any, found: type, depth: int) -> Any:
        for tag, (kind, apart, _) in REBUILT.items():
            if found is kind:
                return {"~": tag, "v": self.pack(apart(value), depth + 1)}
        scalar = isinstance(value, np.generic) and found.__module__ in ("numpy", "ml_dtypes")
        if (scalar or found is np.ndarray) and is_array_dtype(value.dtype):  # others are as any other object
            return self.array(value, "scalar" if scalar else "array")
        torch = sys.modules.get("torch")
        if torch is not None and found in (getattr(torch, "Tensor", None), torch.nn.Parameter):
            with contextlib.suppress(RuntimeError, TypeError):  # sparse, quantized or without memory: any other object
                return self.tensor(value.detach(), torch)
        jax = sys.modules.get("jax")
        if jax is not None and hasattr(jax, "Array") and isinstance(value, jax.Array) and "jax" in found.__module__:
            return self.array(np.asarray(value), "jax")
        if (name := name_of(value)) is not None:
            return {"~": "named", "v": name}
        told = self.handle(value) if self.handle is not None else None
        if told is None:
            raise NotPlain(value)
        return told

    def array(self, value: Any, tag: str) -> dict[str, Any]:
        array = np.asarray(value)
        name, shape = dtype_name(array.dtype), list(array.shape)
        return {"~": tag, "dtype": name, "shape": shape, "v": self.blob(np.ascontiguousarray(array).tobytes())}

    def tensor(self, value: Any, torch: Any) -> dict[str, Any]:
        value = value.cpu().resolve_conj().resolve_neg().contiguous()
        raw = value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
        name = str(value.dtype).removeprefix("torch.")
        return {"~": "tensor", "dtype": name, "shape": list(value.shape), "v": self.blob(raw)}

    def blob(self, raw: bytes) -> list[int]:
        place, self.place = self.place, self.place + len(raw)
        self.blobs.append(raw)
        return [place, len(raw)]


def pack(value: object, handle: Callable[[object], dict[str, Any] | None] | None = None) -> tuple[Any, list[bytes]]:
    """Return plain data as a tree for JSON, and the bytes that go behind it.

    Args:
        value: None, bool, int, float, complex, str, bytes, list, tuple, dict, set, numpy arrays and scalars, tensors,
            JAX arrays, formats (`np.float32`, `torch.bfloat16`), and a few types of the standard library.
        handle: called with anything else; returns what stands for it, a dict whose key "~" is "handle", or None.

    Raises:
        NotPlain: there is something else in it.
        ValueError: it is too deep or has too many items.
    """
    packer = _Packer(handle)
    return packer.pack(value), packer.blobs


class _Unpacker:
    def __init__(self, payload: bytes | memoryview, handle: Callable[[dict[str, Any]], object] | None) -> None:
        self.payload, self.handle, self.items = memoryview(payload), handle, 0

    def unpack(self, tree: Any, depth: int = 0) -> Any:
        self.items += 1
        if depth > 2 * DEEPEST or self.items > 2 * MOST_ITEMS:
            raise Refused("an answer is nested too deep or has too many items")
        found = type(tree)
        if tree is None or found is bool or found is str or found is int or found is float:
            return tree
        if found is list:
            return [self.unpack(item, depth + 1) for item in tree]
        if found is not dict or type(tree.get("~")) is not str:
            raise Refused("an answer holds something that is no plain data")
        tag, value = tree["~"], tree.get("v")
        if tag in ("array", "scalar", "jax", "tensor"):
            return self.array(tag, tree)
        if tag == "handle":
            if self.handle is None:
                raise Refused("an answer holds a function or an object; expected plain data")
            return self.handle(tree)
        return self.tagged(tag, value, depth)

    def tagged(self, tag: str, value: Any, depth: int) -> Any:
        if tag == "dict":
            pairs = [pair_of(item) for item in list_of(value)]
            return dict(spread([(self.unpack(k, depth + 1), self.unpack(v, depth + 1)) for k, v in pairs]))
        if tag in ("tuple", "set", "frozenset"):
            items = [self.unpack(item, depth + 1) for item in list_of(value)]
            if tag != "tuple":
                unlike(items)
            return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](items)
        if tag == "int":
            if len(text_of(value)) > _MOST_DIGITS:
                raise Refused(f"an answer holds a whole number of more than {4 * _MOST_DIGITS:,} bits")
            return int(value, 16)
        if tag == "float" and value in ("nan", "inf", "-inf"):
            return float(value)
        if tag == "complex":
            real, imag = (self.unpack(part) for part in pair_of(value))
            return complex(real_of(real), real_of(imag))
        if tag in ("bytes", "bytearray"):
            return {"bytes": bytes, "bytearray": bytearray}[tag](self.blob(value))
        if tag == "named":
            return named(*map(text_of, pair_of(value)))
        if tag in REBUILT:
            return REBUILT[tag][2](self.unpack(value, depth + 1))
        raise Refused(f"an answer holds something of the unknown kind {tag[:40]!r}")

    def blob(self, place: Any) -> memoryview:
        start, size = (whole_of(part) for part in pair_of(place))
        if start < 0 or size < 0 or start + size > len(self.payload):
            raise Refused("an answer names bytes that it did not send")
        return self.payload[start : start + size]

    def array(self, tag: str, tree: dict[str, Any]) -> Any:
        raw, shape = self.blob(tree.get("v")), tuple(whole_of(n) for n in list_of(tree.get("shape")))
        if len(shape) > 32 or any(n < 0 for n in shape):
            raise Refused("an answer holds an array of an impossible shape")
        name = text_of(tree.get("dtype"))[:40]
        if tag == "tensor":
            return _tensor(name, shape, raw)
        dtype = dtype_of(name)
        if math.prod(shape) * dtype.itemsize != len(raw):
            raise Refused(f"an answer holds an array of shape {shape} and format {name} with {len(raw)} bytes")
        array = np.frombuffer(bytearray(raw), dtype).reshape(shape)
        if tag == "scalar":
            if shape:
                raise Refused("an answer holds a scalar with axes")
            return array[()]
        if tag == "jax":
            return _of_jax(array)
        return array


def unpack(tree: object, payload: bytes | memoryview, handle: Callable[[dict[str, Any]], object] | None = None) -> Any:
    """Build the plain data that a tree and its bytes describe.

    Args:
        tree: parsed JSON, untrusted.
        payload: the bytes behind it, untrusted.
        handle: called with the dict of each handle; without it a handle is refused.

    Raises:
        Refused: it is not what `pack` makes.
    """
    try:
        return _Unpacker(payload, handle).unpack(tree)
    except Refused:
        raise
    except Exception as error:  # also what numpy and torch raise of their own
        raise Refused(f"an answer cannot be read ({type(error).__name__}: {str(error)[:100]})") from None


def _tensor(name: str, shape: tuple[int, ...], raw: memoryview) -> Any:
    torch = sys.modules.get("torch")
    dtype = getattr(torch, name, None)
    if torch is None or not isinstance(dtype, torch.dtype):
        raise Refused(f"an answer holds a tensor of the format {name!r}; expected an array: hand back its .numpy()")
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise Refused(f"an answer holds a tensor of shape {shape} and format {name} with {len(raw)} bytes")
    if not raw:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(dtype).reshape(shape)


def _of_jax(array: np.ndarray[Any, Any]) -> Any:
    jax = sys.modules.get("jax")
    return array if jax is None else jax.numpy.asarray(array)
