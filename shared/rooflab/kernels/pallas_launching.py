"""How does one Pallas kernel run on a GPU, on a TPU and on a CPU, under all of JAX's transformations?

Where a computation runs is known when it is lowered, and not before: the array at hand may be a tracer. So a kernel is
built for each kind of device, and JAX takes the one that is needed. On a GPU it goes through Triton, whose blocks are
powers of two and reach beyond an array's end, so loads and stores are masked. On a TPU blocks lie in VMEM, the on-chip
memory, and what reaches beyond the end is cut off. On a CPU Pallas interprets.

The kernels have been lowered for TPUs, but not run on one: unverified on real hardware.

>>> import jax.numpy as jnp
>>> KINDS, int(on_each(lambda kind, x: x + len(kind), jnp.zeros((), int)))
(('cpu', 'gpu', 'tpu'), 3)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .tuning import known_choices, nearest

__all__ = [
    "KINDS", "array", "choice_of", "flipped", "hopper", "load", "on_each", "parameters", "processors", "quotient",
    "store",
]  # fmt: skip

KINDS = ("cpu", "gpu", "tpu")
_PROCESSORS = 132  # of an H200: for what is lowered where no GPU is


def on_each(call: Callable[..., Any], *arrays: Any) -> Any:
    """Call `call(kind, *arrays)` with the kind of device on which the arrays will be: "cpu", "gpu" or "tpu".

    Raises:
        TypeError: in place of a derivative, which kernels have by rules of their own, and only the first one.
    """
    cpu, gpu, tpu = (functools.partial(call, kind) for kind in KINDS)

    @jax.custom_jvp
    def choose(*arrays: Any) -> Any:
        return jax.lax.platform_dependent(*arrays, cpu=cpu, cuda=gpu, rocm=gpu, tpu=tpu)

    @choose.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        raise TypeError("Rooflab's kernels have no second derivative: use jax.numpy's functions for one.")

    return choose(*arrays)


def parameters(kind: str, *, num_warps: int = 4, num_stages: int = 3, order: Sequence[str] = ()) -> dict[str, Any]:
    """Return what `pallas_call` needs besides its blocks for a kind of device.

    Args:
        kind: of device.
        num_warps: of a program on a GPU.
        num_stages: of the pipeline of a loop with products on a GPU.
        order: of each axis of the grid on a TPU, "parallel" or "arbitrary" (one after the other).
    """
    if kind == "cpu":
        return {"interpret": True}
    if kind == "gpu":
        from jax.experimental.pallas import triton

        return {"compiler_params": triton.CompilerParams(num_warps=num_warps, num_stages=num_stages)}
    from jax.experimental.pallas import tpu

    return {"compiler_params": tpu.CompilerParams(dimension_semantics=tuple(order))}


def load(kind: str, ref: Any, inside: Any, other: float = 0.0, *, dtype: Any = jnp.float32) -> Any:
    """Load a block with `other` in place of what is not inside of the array.

    Args:
        kind: of device.
        ref: the block.
        inside: a mask of the block's shape; None where everything is.
        other: a number.
        dtype: into which it is converted at once.
    """
    if inside is None:
        return ref[...].astype(dtype)
    if kind == "gpu":
        from jax.experimental.pallas import triton

        if hasattr(triton, "load"):
            return triton.load(ref, mask=inside, other=other).astype(dtype)
        from jax.experimental import pallas  # JAX 0.7.0

        return pallas.load(*_place(ref), mask=inside, other=other).astype(dtype)
    return jnp.where(inside, ref[...].astype(jnp.float32), other).astype(dtype)


def store(kind: str, ref: Any, inside: Any, value: Any) -> None:
    """Store a block in the format of the array, as far as it is inside of it; `inside` is None where all of it is."""
    value = value.astype(ref.dtype)
    if kind == "gpu" and inside is not None:
        from jax.experimental.pallas import triton

        value = jnp.broadcast_to(value, inside.shape)
        if hasattr(triton, "store"):
            triton.store(ref, value, mask=inside)
            return
        from jax.experimental import pallas  # JAX 0.7.0

        pallas.store(*_place(ref), value, mask=inside)
    else:
        ref[...] = jnp.broadcast_to(value, ref.shape)  # what is outside is cut off


def _place(ref: Any) -> tuple[Any, tuple[Any, ...]]:
    """A block, or the one of which it is a part, and which part: the loads of JAX 0.7.0 know no part of a part."""
    if hasattr(ref, "transforms"):
        return ref.ref, tuple(ref.transforms[0].indices)
    return ref, (slice(None),) * len(ref.shape)


def flipped(ref: Any) -> Any:
    """Return a matrix in shared memory with rows and columns exchanged, for the matrix units of a Hopper."""
    if hasattr(ref, "transpose"):
        return ref.transpose((1, 0))
    from jax.experimental.pallas import mosaic_gpu

    return mosaic_gpu.transpose_ref(ref, (1, 0))  # before JAX 0.12


def quotient(a: Any, b: int) -> Any:
    """Divide whole numbers that are not negative, which takes one instruction where the sign of `//` takes ten."""
    return jax.lax.div(jnp.asarray(a, jnp.int32), jnp.int32(b))


def array(like: Any, *, shape: Sequence[int] | None = None, dtype: Any = None) -> jax.ShapeDtypeStruct:
    """Describe a result: of the shape and format of another array, if nothing else is said."""
    return jax.ShapeDtypeStruct(tuple(like.shape if shape is None else shape), dtype or like.dtype)


def choice_of(kernel: str, key: tuple[int, ...], candidates: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the block sizes known to be best for these sizes on this GPU, or else the first candidate.

    Nothing is measured here: a kernel is built while JAX traces.
    """
    gpus = _gpus()
    known = known_choices(gpus[0].device_kind, kernel) if gpus else {}
    usable = {sizes: choice for sizes, choice in known.items() if choice in candidates}
    return usable[nearest(key, usable)] if usable else candidates[0]


def hopper() -> bool:
    """Whether the GPU is a Hopper, whose matrix units want to be fed by kernels of their own."""
    return any(str(getattr(gpu, "compute_capability", "")) == "9.0" for gpu in _gpus())


def processors() -> int:
    """Return the number of multiprocessors of the GPU."""
    gpus = _gpus()
    return int(getattr(gpus[0], "core_count", _PROCESSORS)) if gpus else _PROCESSORS


@functools.cache
def _gpus() -> list[Any]:
    return [device for device in jax.devices() if device.platform == "gpu"]
