"""The command `rooflab ladder`: from a first attempt at a kernel to the roof, step by step.

>>> import argparse
>>> parser = argparse.ArgumentParser(); add_ladder_options(parser)
>>> parser.parse_args(["softmax", "--diff", "2", "3"]).diff
[2, 3]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .plaintext import terminal_width
from .tables import render_text
from .units import format_si

if TYPE_CHECKING:
    from .kernels.ladder import Step

__all__ = ["add_ladder_options", "show_ladder"]

# Of each ladder: the shape where it is counted and where it is timed, what the numbers are called, and the ceiling.
_SIZES = {"softmax": ((64, 256), (16384, 4096)), "matmul": ((128, 128, 16), (4096, 4096, 4096))}
_CEILINGS = {"softmax": "a copy of the same size", "matmul": "the product of torch, by the vendor's library"}


def add_ladder_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab ladder`."""
    parser.add_argument("kernel", help="such as softmax")
    parser.add_argument("--diff", type=int, nargs=2, metavar="STEP", help="show what changes from one step to another")


def show_ladder(options: argparse.Namespace) -> int:
    """Print the steps of a kernel, what each moves or takes, and why it is faster; or the changes between two."""
    from .kernels.ladder import difference, find_ladder
    from .kernels.launching import ready

    ready()
    import torch

    steps = find_ladder(options.kernel)
    if options.diff:
        print(difference(*(_numbered(steps, number) for number in options.diff)))
        return 0
    on_gpu = torch.cuda.is_available()
    size = _SIZES[options.kernel][on_gpu]
    told = f"{' x '.join(map(str, size))} in bf16"
    if on_gpu:
        head, cells = ["step", "time", "of the ceiling", "why it is faster"], _times(steps, size)
        told = f"{told}, each beside {_CEILINGS[options.kernel]}, by graph replay."
    else:
        head, cells = ["step", "reads", "moved / used", "why it is faster"], _counts(steps, size)
        told = f"Counted at {told}: how often the inputs are read; bytes moved, in whole sectors, per byte used."
    table = [[f"{step.number} {step.name}", *cell, step.reason] for step, cell in zip(steps, cells, strict=True)]
    print(f"{render_text(head, table, width=terminal_width())}\n\n{told}")
    print(f"The code of a change: rooflab ladder {options.kernel} --diff 1 2")
    return 0


def _numbered(steps: Sequence[Step], number: int) -> Step:
    if not 1 <= number <= len(steps):
        raise ValueError(f"There is no step {number}; expected one of 1 to {len(steps)}.")
    return steps[number - 1]


def _counts(steps: Sequence[Step], size: tuple[int, ...]) -> list[list[str]]:
    from .counters import count

    arrays, _ = _arrays(steps[0].ladder, size, "cpu")
    found = [count(lambda step=step: step.function()(*arrays), world="triton") for step in steps]
    once = sum(each.numel() * each.element_size() for each in arrays[1:])
    return [[f"{one.bytes_read / once:.3g}", f"{one.moved_per_used:.3g}"] for one in found]


def _times(steps: Sequence[Step], size: tuple[int, ...]) -> list[list[str]]:
    from .measurement import measure_all

    arrays, ceiling = _arrays(steps[0].ladder, size, "cuda")
    candidates: dict[str, Any] = {step.name: lambda step=step: step.function()(*arrays) for step in steps}
    measured = measure_all({"ceiling": ceiling, **candidates}, clock="graph")
    times = [measured[step.name].median_s for step in steps]
    return [[format_si(taken, "s"), f"{measured['ceiling'].median_s / taken:.2f}"] for taken in times]


def _arrays(ladder: str, size: tuple[int, ...], device: str) -> tuple[tuple[Any, ...], Callable[[], Any]]:
    """Result and inputs of a ladder's functions, and its ceiling."""
    import torch

    def made(*shape: int) -> Any:
        return torch.randn(shape, device=device).to(torch.bfloat16)

    if ladder == "softmax":
        y, x = made(*size), made(*size)
        return (y, x), lambda: y.copy_(x)
    m, n, k = size
    c, a, b = made(m, n), made(m, k), made(k, n)
    return (c, a, b), lambda: torch.matmul(a, b, out=c)
