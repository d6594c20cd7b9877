"""What do the kernels share that reach a Hopper through Mosaic, the other of Pallas' two ways to a GPU?

Products are started and waited for: what stands between a start and the wait for it runs under the product. What
products are added to is an accumulator, which nothing else may touch until they have been waited for.

>>> callable(accumulate), usable() in (True, False)
(True, True)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

__all__ = ["accumulate", "mosaic", "resume", "scratch", "transforms", "usable", "walk"]


def mosaic() -> Any:
    """Return Pallas' module for Mosaic."""
    from jax.experimental.pallas import mosaic_gpu

    return mosaic_gpu


def usable() -> bool:
    """Whether Mosaic is there and new enough."""
    try:
        return "out_type" in inspect.signature(mosaic().kernel).parameters
    except ImportError:  # before JAX 0.11 it needs absl-py, which JAX does not bring along
        return False


def transforms() -> tuple[Any, Any]:
    """The order in which the matrix units want 16-bit numbers: lines of 128 bytes, interleaved."""
    return mosaic().TilingTransform((8, 64)), mosaic().SwizzleTransform(128)


def scratch(shape: Sequence[int], dtype: Any) -> Any:
    """Describe blocks in shared memory in that order."""
    return mosaic().SMEM(tuple(shape), dtype, transforms=transforms())


def accumulate(body: Callable[..., Any], *shapes: Sequence[int]) -> Any:
    """Call `body` with an accumulator of each shape, all of them zero, and return what it returns."""
    return pl.run_scoped(body, *(mosaic().ACC(tuple(shape), jnp.float32) for shape in shapes))


def resume(body: Callable[..., None], total: Any, *values: Any) -> tuple[Any, ...]:
    """Call `body` with an accumulator that holds `total`, and references to `values`; return what they hold then.

    At the end all products have been waited for.
    """
    held = pl.run_state(lambda refs: body(*refs))((mosaic().ACC.init(total), *values))
    return tuple(held)


def walk(first: Any, last: Any, body: Callable[[Any], None], *_: Any) -> None:
    """Call `body` with each number from `first` to before `last`; products onto the accumulators `_` may run on."""
    jax.lax.fori_loop(first, last, lambda i, none: body(i), None)
