"""Count what a function does on the library that it uses: PyTorch, Triton or JAX.

>>> count(len, [1, 2, 3], world="abacus")
Traceback (most recent call last):
ValueError: expected world to be 'torch', 'triton', 'jax' or None (found out); found 'abacus'
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from ..measurable import refuse_candidates, refuse_promise
from ..shortage import clear_shortage
from .counted import Counted, combine
from .interpreter import interpreting, missing, use_interpreter

__all__ = ["count"]

NOTHING = (
    "count saw no work: the function ran no PyTorch operation, no interpreted Triton kernel and returned no JAX array "
    "(NumPy and plain Python are not counted); pass the function itself, count(f, x) and not count(f(x))."
)


def count(fn: Callable[..., Any], *args: Any, world: str | None = None, name: str = "") -> Counted:
    """Run `fn(*args)` once, or compile it (JAX), and return what it did. Nothing is timed.

    PyTorch: every ATen operation that does work is a launch. Triton: kernels run in the interpreter, which also finds
    faults. JAX: the program is compiled and not run; XLA's cost analysis is read. Conventions: docs/counting.md.

    Args:
        fn: the function to count; its exceptions come through unchanged, but for those that say that memory is short.
        args: its arguments; of a JAX function, arrays are traced and everything else is static.
        world: "torch", "triton" (the kernels alone) or "jax"; by default found out from what `fn` uses and returns.
        name: what it is, for tables and figures (default: the function's name).

    Raises:
        TypeError: if `fn` cannot be called, or only promises its work (a generator, a coroutine, a future).
        ValueError: if nothing was counted, or a compiled PyTorch function would be counted.
        ImportError: if the library is not installed; the message names the extra to install.
        RuntimeError: if a Triton kernel is compiled instead of interpreted; the message says what to do.
        OutOfMemory: if the function's arrays do not fit: counting runs it once.
    """
    if world not in (None, "torch", "triton", "jax"):
        raise ValueError(f"expected world to be 'torch', 'triton', 'jax' or None (found out); found {world!r}")
    if not callable(fn):
        raise TypeError(f"expected a function to count, as in count(f, x); found {type(fn).__name__}")
    if world is not None:
        _require("torch" if world == "triton" else world)
    if world == "triton":
        _require("triton")
        use_interpreter()
    called = name or getattr(fn, "__name__", type(fn).__name__)
    label = called.replace("<lambda>", "")
    refuse_candidates({called: fn}, None)
    with clear_shortage(f"counting {label!r}" if label else "counting"):
        by_jax = world == "jax" or (world is None and _uses_jax(fn, args))
        found = _jax(fn, args) if by_jax else _run(fn, args, world, called)
    return replace(found, name=label)


def _run(fn: Callable[..., Any], args: tuple[Any, ...], world: str | None, called: str) -> Counted:
    """Run with the torch counter and the Triton tracer on; turn to JAX if the result is JAX's."""
    if importlib.util.find_spec("torch") is None:
        raise ImportError(missing("torch"))
    _interpret_without_gpu()
    from .torch_ops import TorchCounter

    torch_counter, tracer = TorchCounter(), None
    with ExitStack() as stack:
        if importlib.util.find_spec("triton") is not None:
            from .triton_kernels import KernelTracer

            tracer = KernelTracer(torch_counter)
            stack.enter_context(tracer.active())
        stack.enter_context(torch_counter.active())
        result = fn(*args)
    refuse_promise(called, result)
    if world is None and any(_is_jax(value) for value in _values(result)):
        return _jax(fn, args)
    parts = [torch_counter.counted()] if world != "triton" else []
    if tracer is not None and world != "torch":
        parts.append(tracer.counted(result))
    seen = [part for part in parts if part is not None]
    if not seen:
        raise ValueError(" ".join([NOTHING, *torch_counter.notes]))
    return combine(seen)


def _interpret_without_gpu() -> None:
    """Choose the interpreter before torch's own helpers import triton, where kernels could not be compiled anyway."""
    import torch

    if "triton" not in sys.modules and not interpreting() and not torch.cuda.is_available():
        use_interpreter()


def _jax(fn: Callable[..., Any], args: tuple[Any, ...]) -> Counted:
    _require("jax")
    from .jax_programs import count_jax

    counted = count_jax(fn, args)
    if not (counted.launches or counted.bytes):
        raise ValueError(NOTHING)
    return counted


def _require(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        raise ImportError(missing(library))


def _uses_jax(fn: Any, args: tuple[Any, ...]) -> bool:
    """Whether arguments, closure and globals of `fn` name JAX and not torch: then it is compiled and not run."""
    if "jax" not in sys.modules:
        return False
    held = [*_values(args), *_held(fn, set(), 3)]
    return any(map(_is_jax, held)) and not any(_is_from(value, "torch") for value in held)


def _is_jax(value: Any) -> bool:
    return _is_from(value, "jax") or _is_from(value, "jaxlib")


def _is_from(value: Any, library: str) -> bool:
    home = value.__name__ if isinstance(value, types.ModuleType) else type(value).__module__
    return home.split(".")[0] == library


def _values(value: Any) -> Iterator[Any]:
    """Leaves of nested tuples, lists and dicts."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        for item in value:
            yield from _values(item)
    else:
        yield value


def _held(fn: Any, seen: set[int], depth: int) -> Iterator[Any]:
    """Values that a function refers to: bound arguments, closure, defaults, globals; functions among them searched."""
    if id(fn) in seen or depth == 0:
        return
    seen.add(id(fn))
    yield fn
    if isinstance(fn, functools.partial):
        inner: list[Any] = [fn.func, *fn.args, *fn.keywords.values()]
    elif isinstance(fn, types.MethodType):
        inner = [fn.__func__, fn.__self__]
    elif isinstance(fn, types.FunctionType):
        inner = [cell.cell_contents for cell in fn.__closure__ or () if cell != types.CellType()]
        inner += [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
        inner += [fn.__globals__[name] for name in fn.__code__.co_names if name in fn.__globals__]
    else:
        return
    for item in (leaf for value in inner for leaf in _values(value)):
        yield item
        if isinstance(item, functools.partial | types.MethodType | types.FunctionType):
            yield from _held(item, seen, depth - 1)
