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

_SLOW_S = 2e-3  # a step from here on is timed with fewer calls
# Of each ladder: the shape where it is counted, and the ceiling.
_COUNTED = {"softmax": (64, 256), "matmul": (128, 128, 16), "attention": (1, 128, 16)}
_CEILINGS = {
    "softmax": "a copy of the same size",
    "matmul": "the product of torch, by the vendor's library",
    "attention": "the attention of torch, by the vendor's library where it is there",
}


def add_ladder_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab ladder`."""
    parser.add_argument("kernel", help="such as softmax")
    parser.add_argument("--diff", type=int, nargs=2, metavar="STEP", help="show what changes from one step to another")


def show_ladder(options: argparse.Namespace) -> int:
    """Print the steps of a kernel, what each moves or takes, and why it is faster; or the changes between two."""
    from .kernels.ladder import difference, find_ladder
    from .kernels.ladder.predictions import SIZES, predicted
    from .kernels.launching import ready

    ready()
    import torch

    steps = find_ladder(options.kernel)
    if options.diff:
        print(difference(*(_numbered(steps, number) for number in options.diff)))
        return 0
    on_gpu = torch.cuda.is_available()
    size = (SIZES if on_gpu else _COUNTED)[options.kernel]
    told = f"{' x '.join(map(str, size))} in bf16"
    head, cells = (["time", "of the ceiling"], _times) if on_gpu else (["reads", "moved / used"], _counts)
    if on_gpu:
        told = f"Timed at {told}, each beside {_CEILINGS[options.kernel]}, by graph replay."
    else:
        told = f"Counted at {told}: how often the inputs are read; bytes moved, in whole sectors, per byte used."
    expected = [format_si(predicted(step.ladder, step.name), "s") for step in steps]
    table = [
        [f"{step.number} {step.name}", *cell, taken, step.reason]
        for step, cell, taken in zip(steps, cells(steps, size), expected, strict=True)
    ]
    print(render_text(["step", *head, "predicted", "why it is faster"], table, width=terminal_width()))
    print(f"\n{told}\nPredicted from counts, of an H200 at {' x '.join(map(str, SIZES[options.kernel]))}.")
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
    from .clocks import GraphClock
    from .kernels.ladder.predictions import predicted
    from .measurement import measure_all

    ladder = steps[0].ladder
    arrays, ceiling = _arrays(ladder, size, "cuda")
    candidates: dict[str, Any] = {step.name: lambda step=step: step.function()(*arrays) for step in steps}
    slow = {name: call for name, call in candidates.items() if predicted(ladder, name) > _SLOW_S}
    fast = {name: call for name, call in candidates.items() if name not in slow}
    measured = measure_all({"ceiling": ceiling, **fast}, clock="graph")
    if slow:  # a graph of twenty calls would take seconds
        measured |= measure_all(slow, clock=GraphClock(2), min_samples=3, budget_s=0.2)
    times = [measured[step.name].median_s for step in steps]
    return [[format_si(taken, "s"), f"{measured['ceiling'].median_s / taken:.2g}"] for taken in times]


def _arrays(ladder: str, size: tuple[int, ...], device: str) -> tuple[tuple[Any, ...], Callable[[], Any]]:
    """Result and inputs of a ladder's functions, and its ceiling."""
    import torch

    def made(*shape: int) -> Any:
        return torch.randn(shape, device=device).to(torch.bfloat16)

    if ladder == "softmax":
        y, x = made(*size), made(*size)
        return (y, x), lambda: y.copy_(x)
    if ladder == "attention":
        o, q, k, v = (made(*size) for _ in range(4))
        return (o, q, k, v), lambda: _attention(q, k, v)
    m, n, k = size
    c, a, b = made(m, n), made(m, k), made(k, n)
    return (c, a, b), lambda: torch.matmul(a, b, out=c)


def _attention(q: Any, k: Any, v: Any) -> Any:
    """torch's attention of one sequence; by cuDNN, if it is there and takes it."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backends = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    with sdpa_kernel(backends, set_priority=True):
        return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])
