"""How can the Triton interpreter be made right in bf16 and fp8, where it silently is not?

The interpreter keeps bf16 values as their 16 bits in integers, and NumPy then adds the bits. While a count runs,
bf16 values are kept in fp32 and rounded to the nearest bf16 (ties to even) after each operation instead.

>>> float(round_bf16(np.float32([1.00390625]))[0]), float(round_bf16(np.float32([1.01171875]))[0])  # two ties
(1.0, 1.015625)
>>> float(from_bits(to_bits(np.float32([-2.5])))[0])
-2.5
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["from_bits", "is_bf16", "patches", "round_bf16", "rounded", "to_bits"]


def round_bf16(values: np.ndarray) -> np.ndarray:
    """Round fp32 values to the nearest bf16, ties to even, and keep them in fp32; NaN stays NaN."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    bits = values.view(np.uint32)
    with np.errstate(over="ignore"):
        up = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    nearest = np.where(np.isnan(values), bits | np.uint32(0x00400000), up) & np.uint32(0xFFFF0000)
    return nearest.view(np.float32)


def to_bits(values: np.ndarray) -> np.ndarray:
    """Return the 16 bits of the nearest bf16 of each value."""
    return (round_bf16(values).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def from_bits(bits: np.ndarray) -> np.ndarray:
    """Return bf16 values, given by their 16 bits, in fp32."""
    return (np.ascontiguousarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


# Triton's names of the fp8 formats of NVIDIA GPUs -> torch's.
_FP8 = {"fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2"}

# What the interpreter keeps values in, and how it passes on their bits.
_UNSIGNED = {"fp16": (np.float16, np.uint16), "fp32": (np.float32, np.uint32), "bf16": (np.float32, np.uint32)}


def _to_fp8(values: np.ndarray, name: str) -> np.ndarray:
    """Bits of the nearest fp8 of each value, ties to even, beyond the range the largest (PTX: cvt.rn.satfinite).

    The interpreter by itself loses the carry of a significand that is rounded up to the next power of two.
    """
    import torch

    dtype = getattr(torch, name)
    limit = torch.finfo(dtype).max
    clipped = torch.from_numpy(np.array(values, dtype=np.float32)).clamp(-limit, limit)  # NaN stays NaN
    return clipped.to(dtype).view(torch.uint8).numpy()


def _from_fp8(bits: np.ndarray, name: str) -> np.ndarray:
    """Return fp8 values, given by their 8 bits, in fp32.

    The interpreter by itself takes NaN of e4m3 for 480, and in fp32 infinity and NaN of e5m2 for large numbers.
    """
    import torch

    held = torch.from_numpy(np.array(bits, dtype=np.uint8, order="C"))
    return held.view(getattr(torch, name)).to(torch.float32).numpy()


def is_bf16(dtype: Any) -> bool:
    """Whether a Triton dtype is bf16 or a block of it (by name: comparing dtypes is slow, and this is asked often)."""
    return dtype.scalar.name == "bf16"


def rounded(handle: Any) -> Any:
    """Round what a handle of the interpreter holds if it stands for bf16."""
    if getattr(handle, "dtype", None) is not None and is_bf16(handle.dtype):
        handle.data = round_bf16(handle.data)
    return handle


def patches(interpreter: ModuleType) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Return what to put where in `triton.runtime.interpreter`: (owner, attribute, replacement)."""
    import triton.language as tl

    builder = interpreter.InterpreterBuilder
    np_dtype, fits = interpreter._get_np_dtype, interpreter._validate_np_data_size
    cast, bitcast, absolute = builder.cast_impl, builder.create_bitcast, builder.create_fabs

    def get_np_dtype(dtype: Any) -> Any:
        return np.dtype(np.float32) if is_bf16(dtype) else np_dtype(dtype)

    def validate(data: Any, dtype: Any) -> bool:
        if is_bf16(dtype):
            return data.dtype == np.float32
        return fits(data, dtype)

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        return rounded(cast(self, source, target))

    def create_bitcast(self: Any, source: Any, target: Any) -> Any:
        if source.dtype.scalar == target.scalar or tl.bfloat16 not in (source.dtype.scalar, target.scalar):
            return bitcast(self, source, target)
        if target.scalar == tl.bfloat16:
            return interpreter.TensorHandle(from_bits(source.data.view(np.uint16)), target.scalar)
        return interpreter.TensorHandle(to_bits(source.data).view(np_dtype(target)), target.scalar)

    def create_fabs(self: Any, value: Any) -> Any:
        if is_bf16(value.dtype):
            return interpreter.TensorHandle(np.abs(value.data), value.dtype.scalar)
        return absolute(self, value)

    return [
        (interpreter, "_get_np_dtype", get_np_dtype),
        (interpreter, "_validate_np_data_size", validate),
        (interpreter, "_convert_float", _converter(interpreter._convert_float)),
        (builder, "cast_impl", cast_impl),
        (builder, "create_bitcast", create_bitcast),
        (builder, "create_fabs", create_fabs),
    ]


def _converter(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Return `_convert_float` for values of bf16 that are kept in fp32, and with fp8 rounded as hardware does."""
    import triton.language as tl
    from triton._C.libtriton import ir

    def convert_float(data: Any, source: Any, target: Any, mode: Any) -> Any:
        if target.name in _FP8 and data.dtype.kind == "f" and mode != ir.ROUNDING_MODE.RTZ:
            return _to_fp8(data, _FP8[target.name])
        if source.name in _FP8 and target.name in _UNSIGNED:
            values = _from_fp8(data, _FP8[source.name])
            if target == tl.bfloat16:
                return values  # each of them is a bf16 too
            number, whole = _UNSIGNED[target.name]
            return values.astype(number).view(whole)
        if source == tl.bfloat16:
            if target in (tl.bfloat16, tl.float32):
                return np.ascontiguousarray(data, dtype=np.float32)
            return convert(np.ascontiguousarray(data, dtype=np.float32), tl.float32, target, mode)
        if target == tl.bfloat16:
            if data.dtype.kind != "f":  # fp8, kept as bits
                data = convert(data, source, tl.float32, mode).view(np.float32)
            return round_bf16(data)
        return convert(data, source, target, mode)

    return convert_float
