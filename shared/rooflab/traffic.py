"""How many bytes does a Triton kernel move, for a check that gives points for it?

On a student's own machine the kernel is interpreted and counted right here. When a class is graded, its text is looked
through, and it runs in a fresh process that has run no other code of the student's (see
:mod:`rooflab.grading.puretriton`): what the student's own process says of itself is worth no points.

A check calls the same function in both cases:

    moved = traffic(softmax_kernel, grid=(rows,), args=[y, x, columns], constants={"BLOCK": 1024})
    check.close(moved.args[0], expected)
    check.that(moved.bytes_moved <= 1.1 * least.bytes, "at most a tenth more than the least")

>>> Traffic(bytes_moved=96, bytes=64, flops=16, launches=1, programs=1).moved_per_used
1.5
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Traffic", "measure_traffic", "set_counter", "traffic"]


@dataclass(frozen=True)
class Traffic:
    """What one launch did.

    Attributes:
        bytes_moved: in whole sectors of 32 bytes.
        bytes: that its loads and stores asked for.
        flops: floating-point operations.
        launches: of kernels; 1.
        programs: of the grid.
        faults: accesses out of bounds, of what was never written, and races, each in a sentence.
        args: the arguments after the launch, arrays as numpy arrays.
    """

    bytes_moved: int
    bytes: float
    flops: float
    launches: int
    programs: int
    faults: tuple[str, ...] = ()
    args: tuple[Any, ...] = ()

    @property
    def moved_per_used(self) -> float:
        """Bytes moved per byte used."""
        return self.bytes_moved / self.bytes if self.bytes else 0.0


Counter = Callable[[Any, tuple[int, ...], Sequence[Any], Mapping[str, Any]], Traffic]


class _Grader:
    counter: Counter | None = None


def set_counter(counter: Counter | None) -> None:
    """Let the grader count in a process of its own; None: count here."""
    _Grader.counter = counter


def traffic(
    kernel: Any, *, grid: tuple[int, ...], args: Sequence[Any], constants: Mapping[str, Any] | None = None
) -> Traffic:
    """Launch a kernel once and count what it moves.

    Args:
        kernel: a function with the decorator ``@triton.jit``.
        grid: numbers of programs along one to three axes.
        args: numpy arrays (as pointers) and numbers.
        constants: the arguments that are ``tl.constexpr``.

    Raises:
        ValueError: the grid or an argument is none.
        RuntimeError: Triton compiles its kernels in this process, so that they cannot be counted.
    """
    if not 1 <= len(grid) <= 3 or not all(isinstance(n, int) and n > 0 for n in grid):
        raise ValueError(f"expected a grid of one to three whole numbers above zero; found {grid!r}")
    for arg in args:
        if not isinstance(arg, np.ndarray | bool | int | float | np.number):
            raise ValueError(f"expected numpy arrays and numbers as arguments; found a {type(arg).__name__}")
    count = _Grader.counter or measure_traffic
    return count(kernel, tuple(grid), list(args), dict(constants or {}))


def measure_traffic(kernel: Any, grid: tuple[int, ...], args: Sequence[Any], constants: Mapping[str, Any]) -> Traffic:
    """Launch a kernel in this process, interpreted, and count."""
    import torch

    from .counters import count

    given = [torch.from_numpy(arg.copy()) if isinstance(arg, np.ndarray) else arg for arg in args]
    found = count(lambda: kernel[grid](*given, **constants), world="triton")
    after = tuple(arg.numpy() if isinstance(arg, torch.Tensor) else arg for arg in given)
    faults = tuple(str(fault) for fault in found.faults)
    return Traffic(
        int(found.bytes_moved or 0), found.bytes, found.flops, found.launches, int(found.programs or 0), faults, after
    )
