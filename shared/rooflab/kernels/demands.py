"""What may be handed to a kernel? Each refusal is one sentence that says what to do.

>>> import torch
>>> floats("softmax", x=torch.zeros(2, 3))
>>> floats("softmax", x=torch.zeros(2, 3, dtype=torch.int64))
Traceback (most recent call last):
TypeError: softmax takes tensors of float32, bfloat16 or float16; x is int64: convert it first.
"""

from __future__ import annotations

import math
import sys
from typing import Any

__all__ = ["as_rows", "flag", "floats", "framework", "never", "number", "once", "positive", "refuse",
           "refuse_second_derivative", "together", "whole"]  # fmt: skip

_FLOATS = ("float32", "bfloat16", "float16")
_LARGEST = (2 - 2.0**-23) * 2.0**127  # in float32
_ARRAYS = {"torch": "Tensor", "jax": "Array"}


def refuse(kernel: str, what: str) -> None:
    """Raise ValueError with the kernel's name in front."""
    raise ValueError(f"{kernel}: {what}")


def refuse_second_derivative(kernel: str) -> None:
    """Raise RuntimeError, for who asks for a gradient of a kernel's gradient."""
    raise RuntimeError(f"{kernel}: there is no second derivative (create_graph): use torch's own functions for one.")


def once(kernel: str, gradient: Any) -> None:
    """Have an operator that computes a gradient refuse a gradient of its own, which costs nothing until one is wanted.

    Args:
        kernel: whose gradient it is.
        gradient: made by `torch.library.custom_op`. What it computes has to follow from its differentiable arguments
            alone: where it does not, a second derivative would be left out, and its caller has to refuse it.
    """
    gradient.register_autograd(lambda ctx, *_: refuse_second_derivative(kernel))


def never(kernel: str, operator: Any, instead: str) -> None:
    """Have an operator without a gradient refuse to be differentiated.

    Args:
        kernel: its name.
        operator: made by `torch.library.custom_op`.
        instead: what to do, as the end of a sentence.
    """

    def refuse_gradient(ctx: Any, *_: Any) -> None:
        raise RuntimeError(f"{kernel}: it has no gradient: {instead}.")

    operator.register_autograd(refuse_gradient)


def floats(kernel: str, **arrays: Any) -> None:
    """Check that tensors of PyTorch, or arrays of JAX, are of a format in which the kernels compute.

    Raises:
        TypeError: one is of another format, or is neither, or they are of both.
    """
    frameworks = {name: framework(each) for name, each in arrays.items()}
    first = next(iter(frameworks.values()))
    for name, each in arrays.items():
        if not frameworks[name]:
            raise TypeError(f"{kernel} takes tensors; {name} is a {type(each).__name__}.")
        if frameworks[name] != first:
            told = ", ".join(f"{one} of {where}" for one, where in frameworks.items())
            raise TypeError(f"{kernel} got arrays of two frameworks ({told}): convert them to one.")
        found = str(each.dtype).removeprefix("torch.")
        if found not in _FLOATS:
            raise TypeError(
                f"{kernel} takes tensors of {', '.join(_FLOATS[:-1])} or {_FLOATS[-1]}; {name} is {found}: "
                "convert it first."
            )


def number(kernel: str, what: str, value: Any, *, least: float = -math.inf) -> Any:
    """Return a number that a kernel takes as a constant: Python's own of an array of one, a symbol as it is.

    Raises:
        TypeError: it is none, or JAX traces it and does not know it yet.
        ValueError: there is a least one, and it is less, NaN or infinite, in float32 too; or it wants a gradient.
    """
    if not isinstance(value, (float, int)) or isinstance(value, bool):
        _refuse_traced(kernel, what, value)
        several = getattr(value, "ndim", None)
        kind = "bool" if isinstance(value, bool) else str(getattr(value, "dtype", ""))
        if several or "bool" in kind or "complex" in kind or not hasattr(value, "__float__"):
            raise TypeError(f"{kernel}: expected a number for {what}; found {_told(value)}.")
        if getattr(value, "requires_grad", False) and sys.modules["torch"].is_grad_enabled():
            refuse(kernel, f"it has no gradient with regard to {what}: give it {what}.detach().")
        if not hasattr(value, "dtype") or _compiling():
            return value  # a symbol has no value yet
        value = float(value)
    if least > -math.inf and not least <= value <= _LARGEST:
        refuse(kernel, f"expected {what} to be a number of {least:g} or more that float32 can hold; found {value:g}.")
    return value


def positive(kernel: str, what: str, value: float) -> None:
    """Refuse what is not above zero or not finite, also in float32, in which kernels have it.

    Raises:
        ValueError: it is NaN, or not in 2^-126 to 2^126: less may be taken for zero, more has no room for log2(e).
    """
    if not 2.0**-126 <= value <= 2.0**126:
        refuse(kernel, f"expected a positive {what} that float32 can hold, 2^-126 to 2^126; found {value:g}.")


def whole(kernel: str, what: str, value: Any) -> Any:
    """Return a whole number, as it is; raises TypeError for anything else, ValueError for one of more than 64 bits."""
    if not (isinstance(value, int) or hasattr(value, "__index__")):
        raise TypeError(f"{kernel}: expected a whole number for {what}; found {_told(value)}.")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        refuse(kernel, f"expected {what} to be a number of 64 bits; found {value}.")
    return value


def flag(kernel: str, what: str, value: Any) -> bool:
    """Return True or False, of which a number is one or the other; raises TypeError for anything else."""
    if value is None or isinstance(value, int):
        return bool(value)
    _refuse_traced(kernel, what, value)
    several = getattr(value, "ndim", None)
    if several or not hasattr(value, "__bool__") or value != value:
        raise TypeError(f"{kernel}: expected True or False for {what}; found {_told(value)}.")
    return bool(value)


def _compiling() -> bool:
    """Whether torch.compile traces this."""
    return "torch" in sys.modules and sys.modules["torch"].compiler.is_compiling()


def _refuse_traced(kernel: str, what: str, value: Any) -> None:
    if framework(value) == "jax" and isinstance(value, sys.modules["jax"].core.Tracer):
        raise TypeError(
            f"{kernel}: JAX traces {what}, which is a constant of the kernel: hand it over as Python's own "
            "(static_argnames of jax.jit)."
        )


def _told(value: Any) -> str:
    """What was handed over: itself, if it is short, else its kind."""
    return repr(value) if isinstance(value, (str, int, float, type(None))) else f"a {type(value).__name__}"


def framework(array: Any) -> str:
    """Return "torch" for a tensor of PyTorch, "jax" for an array or a tracer of JAX, "" for anything else.

    Neither framework is imported: who has an array of it has done so.
    """
    for name, kind in _ARRAYS.items():
        # A module that is being imported may not have its arrays yet.
        found = getattr(sys.modules.get(name), kind, None)
        if found is not None and isinstance(array, found):
            return name
    return ""


def together(kernel: str, *, metal: bool = False, **tensors: Any) -> None:
    """Check that tensors of PyTorch lie on one device, which is a GPU or the CPU.

    Args:
        kernel: its name.
        metal: whether it is there for Apple's GPUs, too.
        tensors: by the names of the arguments.

    Raises:
        ValueError: they do not, or one is sparse.
    """
    if len({tensor.device for tensor in tensors.values()}) > 1:  # this is called at every launch: no texts yet
        told = ", ".join(f"{name} on {tensor.device}" for name, tensor in tensors.items())
        refuse(kernel, f"its tensors lie on several devices ({told}): move them to one.")
    for name, tensor in tensors.items():
        if str(tensor.layout) != "torch.strided":
            refuse(kernel, f"expected dense tensors; {name} is {tensor.layout}: convert it with to_dense().")
    kind = next(iter(tensors.values())).device.type
    if kind not in ("cuda", "cpu", *(["mps"] if metal else [])):
        refuse(kernel, f"a Triton kernel runs on CUDA and ROCm, and interpreted on a CPU; its tensors lie on {kind}.")


def as_rows(kernel: str, x: Any, *, longest: int) -> Any:
    """Return a tensor as a matrix of its last dimension's rows, whose elements lie side by side.

    A view where the strides allow it; else a copy is made, which costs as much as the kernel itself.

    Raises:
        ValueError: it has no dimension, or its rows are longer than `longest`.
    """
    if x.ndim == 0:
        refuse(kernel, "expected at least one dimension; found a number: give it one with x[None].")
    if x.shape[-1] > longest:
        refuse(
            kernel,
            f"a row has to fit into the registers of one program: at most {longest:,} elements; found {x.shape[-1]:,}.",
        )
    if framework(x) == "jax":
        return x.reshape(-1, x.shape[-1]) if x.size else x.reshape(0, x.shape[-1])  # always side by side
    rows = x.reshape(-1, x.shape[-1]) if x.numel() else x.new_empty(0, x.shape[-1])
    return rows if rows.stride(-1) == 1 or rows.shape[-1] <= 1 else rows.contiguous()
