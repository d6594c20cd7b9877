"""The command `rooflab ladder`: from a first attempt at a kernel to the roof, step by step.

>>> import argparse
>>> parser = argparse.ArgumentParser(); add_ladder_options(parser)
>>> parser.parse_args(["softmax", "--diff", "2", "3"]).diff
[2, 3]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .extras import require
from .plaintext import terminal_width
from .tables import render_text
from .units import format_si

if TYPE_CHECKING:
    from .kernels.ladder import Step

__all__ = ["add_ladder_options", "show_ladder"]

_COUNTED, _TIMED = (64, 256), (16384, 4096)


def add_ladder_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab ladder`."""
    parser.add_argument("kernel", help="such as softmax")
    parser.add_argument("--diff", type=int, nargs=2, metavar="STEP", help="show what changes from one step to another")


def show_ladder(options: argparse.Namespace) -> int:
    """Print the steps of a kernel, what each moves or takes, and why it is faster; or the changes between two."""
    require("torch", "torch")
    require("triton", "triton")
    import torch

    from .kernels.ladder import difference, find_ladder

    steps = find_ladder(options.kernel)
    if options.diff:
        print(difference(*(_numbered(steps, number) for number in options.diff)))
        return 0
    if torch.cuda.is_available():
        rows, cols = _TIMED
        head, cells = ["step", "time", "of the copy", "why it is faster"], _times(steps)
        told = f"{rows} x {cols} in bf16, each beside a copy of the same size, by graph replay."
    else:
        rows, cols = _COUNTED
        head, cells = ["step", "reads", "moved / used", "why it is faster"], _counts(steps)
        told = (
            f"Counted at {rows} x {cols} in bf16: how often x is read, and bytes moved in whole sectors per byte used."
        )
    table = [[f"{step.number} {step.name}", *cell, step.reason] for step, cell in zip(steps, cells, strict=True)]
    print(f"{render_text(head, table, width=terminal_width())}\n\n{told}")
    print(f"The code of a change: rooflab ladder {options.kernel} --diff 1 2")
    return 0


def _numbered(steps: Sequence[Step], number: int) -> Step:
    if not 1 <= number <= len(steps):
        raise ValueError(f"There is no step {number}; expected one of 1 to {len(steps)}.")
    return steps[number - 1]


def _counts(steps: Sequence[Step]) -> list[list[str]]:
    from .counters import count

    y, x = _arrays(_COUNTED, "cpu")
    found = [count(lambda step=step: step.function()(y, x), world="triton") for step in steps]
    once = x.numel() * x.element_size()
    return [[f"{one.bytes_read / once:g}", f"{one.moved_per_used:g}"] for one in found]


def _times(steps: Sequence[Step]) -> list[list[str]]:
    from .measurement import measure_all

    y, x = _arrays(_TIMED, "cuda")
    candidates: dict[str, Any] = {step.name: lambda step=step: step.function()(y, x) for step in steps}
    measured = measure_all({"copy": lambda: y.copy_(x), **candidates}, clock="graph")
    copy_s = measured["copy"].median_s
    return [
        [format_si(measured[step.name].median_s, "s"), f"{copy_s / measured[step.name].median_s:.2f}"] for step in steps
    ]


def _arrays(shape: tuple[int, int], device: str) -> tuple[Any, Any]:
    import torch

    x = torch.randn(shape, device=device).to(torch.bfloat16)
    return torch.zeros_like(x), x
