"""Where does the tracer hook into Triton's interpreter?

Everything is put into `triton.runtime.interpreter` when a count begins and taken out when it ends.

>>> from contextlib import ExitStack
>>> class Box: lid = "closed"
>>> with ExitStack() as stack:
...     _put(stack, Box, "lid", "open"); Box.lid
'open'
>>> Box.lid
'closed'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from .triton_bf16 import from_bits, is_bf16, patches, rounded, to_bits
from .triton_kernels import ATOMICS_NOTE, AUTOTUNE_NOTE, KernelTracer, Launch, compiled_kernel, kernel_line

__all__ = ["install"]

_RUNNING: list[Launch] = []  # the launch that is being interpreted is the last


def _put(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set an attribute until the stack unwinds."""
    if name in vars(owner):
        stack.callback(setattr, owner, name, vars(owner)[name])
    else:
        stack.callback(delattr, owner, name)
    setattr(owner, name, value)


def install(stack: ExitStack, *, interpreted: bool) -> None:
    """Hook into Triton until the stack unwinds; a kernel that is compiled all the same raises a clear sentence."""
    from triton.runtime import jit

    _put(stack, jit.JITFunction, "run", compiled_kernel)
    if not interpreted:
        return
    from triton.runtime import interpreter

    with ExitStack() as attempt:
        try:
            _hook_all(attempt, interpreter)
        except (AttributeError, KeyError) as error:  # a version whose interpreter is built otherwise
            attempt.close()
            _put(attempt, interpreter.GridExecutor, "__call__", _unknown_version(error))
        stack.push(attempt.pop_all())


def _unknown_version(error: Exception) -> Callable[..., None]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        import triton

        raise RuntimeError(
            f"Triton {triton.__version__} has an interpreter that rooflab does not know, so its kernels cannot be "
            f"counted: use Triton 3.6 to 3.9 (missing: {error})."
        )

    return refuse


def _hook_all(stack: ExitStack, interpreter: Any) -> None:
    from triton.runtime.autotuner import Autotuner

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        KernelTracer.note(AUTOTUNE_NOTE)
        return [1.0, 1.0, 1.0]  # all alike: the first one wins, and nothing runs that would be counted

    _put(stack, Autotuner, "_bench", bench)
    for owner, name, value in [*patches(interpreter), *_repairs(interpreter)]:
        _put(stack, owner, name, value)
    _hook_launches(stack, interpreter)
    _hook_memory(stack, interpreter)
    _hook_atomics(stack, interpreter)
    _hook_arithmetic(stack, interpreter)


def _repairs(interpreter: Any) -> Iterator[tuple[Any, str, Any]]:
    """What the interpreter of Triton 3.6 lacks: loop bounds under NumPy 2.4, and constants in bf16."""
    patch_tensor, builder = interpreter._patch_lang_tensor, interpreter.InterpreterBuilder

    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    def get_bf16(self: Any, value: float) -> Any:
        return self.create_fp_trunc(self.get_fp32(value), self.get_bf16_ty())

    yield interpreter, "_patch_lang_tensor", patch_lang_tensor
    if not hasattr(builder, "get_bf16"):
        yield builder, "get_bf16", get_bf16


def _hook_launches(stack: ExitStack, interpreter: Any) -> None:
    executor, builder = interpreter.GridExecutor, interpreter.InterpreterBuilder
    call, to_host, set_index = executor.__call__, executor._init_args_hst, builder.set_grid_idx
    set_grid, convert = builder.set_grid_dim, interpreter._implicit_cvt

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with KernelTracer.launch(self.fn.__name__) as launch:
            launch.memory.where = kernel_line
            _RUNNING.append(launch)
            try:
                with np.errstate(all="ignore"):  # a GPU does not warn of infinities either
                    return call(self, *args, **kwargs)
            finally:
                _RUNNING.pop()

    def init_args(self: Any, args: Any, kwargs: Any) -> Any:
        host_args, host_kwargs = to_host(self, args, kwargs)
        named = [*zip(self.arg_names, args, host_args, strict=False)]
        named += [(name, kwargs[name], host_kwargs[name]) for name in kwargs]
        for name, device, host in (pair for triple in named for pair in _tensor_pairs(interpreter, *triple)):
            _RUNNING[-1].add_tensor(name, host, KernelTracer.stack[-1].shadow(device))
        return host_args, host_kwargs

    def implicit_cvt(arg: Any) -> Any:
        value = convert(arg)
        if hasattr(arg, "data_ptr") and _RUNNING:
            shift = _RUNNING[-1].shift(interpreter._unwrap_tensor(arg))
            value.handle.data = value.handle.data + np.uint64(shift)
        return value

    def set_grid_dim(self: Any, *sizes: int) -> None:
        _RUNNING[-1].memory.grid = sizes  # type: ignore[assignment]
        set_grid(self, *sizes)

    def set_grid_idx(self: Any, *index: int) -> None:
        _RUNNING[-1].memory.program = index  # type: ignore[assignment]
        _RUNNING[-1].programs += 1
        set_index(self, *index)

    _put(stack, executor, "__call__", run)
    _put(stack, executor, "_init_args_hst", init_args)
    _put(stack, interpreter, "_implicit_cvt", implicit_cvt)
    _put(stack, builder, "set_grid_dim", set_grid_dim)
    _put(stack, builder, "set_grid_idx", set_grid_idx)


def _tensor_pairs(interpreter: Any, name: str, device: Any, host: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(device, tuple):
        for number, pair in enumerate(zip(device, host, strict=True)):
            yield from _tensor_pairs(interpreter, f"{name}[{number}]", *pair)
    elif hasattr(device, "data_ptr"):
        yield name, interpreter._unwrap_tensor(device), interpreter._unwrap_tensor(host)
    elif hasattr(device, "base") and hasattr(device.base, "data_ptr"):  # a tensor descriptor
        yield from _tensor_pairs(interpreter, name, device.base, host.base)


def _access(interpreter: Any, way: str, pointers: Any, mask: Any) -> tuple[Any, Any, np.ndarray]:
    """Account for an access; return handles of real addresses and of the lanes in bounds, and their flat numbers."""
    import triton.language as tl

    element = pointers.get_element_ty()
    shape = pointers.data.shape
    lanes = np.broadcast_to(np.asarray(getattr(mask, "data", mask), dtype=bool), shape).reshape(-1)
    width = max(1, element.primitive_bitwidth // 8)
    real, fine = _RUNNING[-1].memory.access(way, pointers.data.reshape(-1), lanes, width)
    # Bits of bf16 travel as integers: the interpreter has no other way to hold them.
    target = tl.pointer_type(tl.uint16) if is_bf16(element) else pointers.dtype
    handle = interpreter.TensorHandle(real.reshape(shape), target)
    return handle, interpreter.TensorHandle(fine.reshape(shape), tl.int1), np.flatnonzero(lanes)


def _hook_memory(stack: ExitStack, interpreter: Any) -> None:
    import triton.language as tl

    builder = interpreter.InterpreterBuilder
    load, store = builder.create_masked_load, builder.create_masked_store

    def masked_load(self: Any, pointers: Any, mask: Any, other: Any, *rest: Any, **kw: Any) -> Any:
        element = pointers.get_element_ty()
        real, fine, _ = _access(interpreter, "read", pointers, mask)
        if not is_bf16(element):
            return load(self, real, fine, other, *rest, **kw)
        if other is not None:
            other = interpreter.TensorHandle(to_bits(other.data), tl.uint16)
        bits = load(self, real, fine, other, *rest, **kw)
        return interpreter.TensorHandle(from_bits(bits.data), tl.bfloat16)

    def masked_store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **kw: Any) -> Any:
        real, fine, lanes = _access(interpreter, "write", pointers, mask)
        values = np.broadcast_to(value.data, pointers.data.shape)
        width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        memory = _RUNNING[-1].memory
        if memory.judges_races and lanes.size > 1:
            addresses = pointers.data.reshape(-1)[lanes].astype(np.int64)
            memory.race_of_lanes(addresses, values.reshape(-1)[lanes], width)
        if is_bf16(pointers.get_element_ty()):
            value = interpreter.TensorHandle(to_bits(value.data), tl.uint16)
        return store(self, real, value, fine, *rest, **kw)

    _put(stack, builder, "create_masked_load", masked_load)
    _put(stack, builder, "create_masked_store", masked_store)


def _hook_atomics(stack: ExitStack, interpreter: Any) -> None:
    builder = interpreter.InterpreterBuilder
    rmw, cas = builder.create_atomic_rmw, builder.create_atomic_cas

    def refuse_bf16(pointers: Any) -> None:
        if is_bf16(pointers.get_element_ty()):
            raise NotImplementedError("the interpreter has no atomics in bf16: add in fp32, or count another kernel")

    def atomic_rmw(self: Any, op: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        refuse_bf16(pointers)
        real, fine, _ = _access(interpreter, "atomic", pointers, mask)
        if value.dtype.scalar.is_floating():
            _RUNNING[-1].add_flops(int(fine.data.sum()), value.dtype)
        return rmw(self, op, real, value, fine, *rest)

    def atomic_cas(self: Any, pointers: Any, compare: Any, value: Any, *rest: Any) -> Any:
        refuse_bf16(pointers)
        _RUNNING[-1].memory.judges_races = False  # a lock orders accesses in a way that owners do not show
        KernelTracer.note(ATOMICS_NOTE)
        real, fine, _ = _access(interpreter, "atomic", pointers, np.ones(pointers.data.shape, dtype=bool))
        if not fine.data.all():
            raise IndexError("an atomic compare-and-swap is out of bounds, and no lane of it can be left out")
        return cas(self, real, compare, value, *rest)

    _put(stack, builder, "create_atomic_rmw", atomic_rmw)
    _put(stack, builder, "create_atomic_cas", atomic_cas)


def _hook_arithmetic(stack: ExitStack, interpreter: Any) -> None:
    """Count one FLOP a lane of floating-point arithmetic, two an element of a dot's sums."""
    builder = interpreter.InterpreterBuilder

    def counting(name: str, flops: Callable[..., int]) -> None:
        original = builder.__dict__[name]

        def counted(self: Any, first: Any, *rest: Any, **kw: Any) -> Any:
            result = rounded(original(self, first, *rest, **kw))
            if first.dtype.scalar.is_floating() and _RUNNING:
                _RUNNING[-1].add_flops(flops(result, first, *rest), first.dtype)
            return result

        _put(stack, builder, name, counted)

    for name in ("binary_op", "unary_op", "create_erf", "create_rsqrt", "create_fabs"):
        counting(name, lambda result, *operands: result.data.size)
    counting("create_fma", lambda result, *operands: 2 * result.data.size)
    counting("ternary_op", lambda result, first, low, high, op: 2 * result.data.size if op is np.clip else 0)
    for name in ("create_dot", "create_dot_scaled"):
        if name in builder.__dict__:  # the interpreter of Triton 3.6 has no scaled dot
            _put(stack, builder, name, _counting_dot(builder.__dict__[name], interpreter))
    _hook_reductions(stack, interpreter)


def _counting_dot(original: Callable[..., Any], interpreter: Any) -> Callable[..., Any]:
    def dot(self: Any, a: Any, *rest: Any, **kw: Any) -> Any:
        result = rounded(original(self, a, *rest, **kw))
        # create_dot(a, b, d, precision, ...): fp32 operands are multiplied in TF32 unless the kernel asks for more.
        tf32 = len(rest) > 2 and str(a.dtype.scalar) == "fp32" and rest[2] == interpreter._ir.INPUT_PRECISION.TF32
        packed = a.data.dtype == np.uint8 and len(rest) > 5 and rest[1] == interpreter._ir.ScaleDotElemTypeTY.E2M1
        depth = a.data.shape[-1] * (2 if packed else 1)
        form = "fp4" if packed else "tf32" if tf32 else a.dtype
        _RUNNING[-1].add_flops(2 * result.data.size * depth, form)
        return result

    return dot


def _hook_reductions(stack: ExitStack, interpreter: Any) -> None:
    """NumPy does sums, extrema and scans in one call: n elements into m results take n - m operations."""

    def counting(owner: type, name: str) -> None:
        original = owner.__dict__[name]

        def counted(self: Any, data: Any, *rest: Any, **kw: Any) -> Any:
            result = original(self, data, *rest, **kw)
            first = data[0] if isinstance(data, tuple) else data
            one = result[0] if isinstance(result, tuple | list) else result
            rounded(one.handle)
            if first.dtype.scalar.is_floating():
                saved = one.handle.data.size if owner is interpreter.ReduceOps else 0
                _RUNNING[-1].add_flops(first.handle.data.size - saved, first.dtype)
            return result

        _put(stack, owner, name, counted)

    for name in ("sum", "min_max"):
        counting(interpreter.ReduceOps, name)
    for name in ("cumsum", "cumprod"):
        counting(interpreter.ScanOps, name)
