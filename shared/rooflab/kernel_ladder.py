"""The command `rooflab ladder`: from a first attempt at a kernel to the roof, step by step.

>>> import argparse
>>> parser = argparse.ArgumentParser(); add_ladder_options(parser)
>>> parser.parse_args(["softmax", "--diff", "2", "3"]).diff
[2, 3]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .device import find_device
from .files import output_folder
from .plaintext import filled, terminal_width
from .progress import Progress
from .records import reference, save_record, short_name
from .specs import Chip, chip, find_chip
from .tables import render_text
from .units import format_si

if TYPE_CHECKING:
    from .kernels.ladder import Step

__all__ = ["add_ladder_options", "draw_ladder", "show_ladder"]

_UNIT = "ladder_"  # a record for each ladder, under this name and the kernel's
_PREDICTED = "H200"  # of which all predictions are
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
    parser.add_argument("kernel", help="softmax, matmul or attention")
    code = parser.add_mutually_exclusive_group()
    code.add_argument("--step", type=int, metavar="STEP", help="show the code of one step")
    code.add_argument("--diff", type=int, nargs=2, metavar="STEP", help="show what changes from one step to another")
    parser.add_argument("--record", action="store_true", help="on a GPU: keep the times among the records")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the steps under their roofs (png)")


def show_ladder(options: argparse.Namespace) -> int:
    """Print the steps of a kernel, what each moves or takes, what changes and why; or the changes between two."""
    from .kernels.ladder import code_of, difference, find_ladder
    from .kernels.ladder.predictions import SIZES, predicted
    from .kernels.launching import ready

    ready()
    import torch

    steps = find_ladder(options.kernel)
    if options.step is not None:
        print(code_of(_numbered(steps, options.step)))
        return 0
    if options.diff:
        print(difference(*(_numbered(steps, number) for number in options.diff)) or "Nothing changes.")
        return 0
    record = reference(f"{_UNIT}{options.kernel}")
    seconds: Mapping[str, float] = {} if record is None else record["values"]["seconds"]
    on_gpu = torch.cuda.is_available()
    _refuse(options, on_gpu)
    size = (SIZES if on_gpu else _COUNTED)[options.kernel]
    told = f"{' x '.join(map(str, size))} in bf16"
    where, then = _recorded(record, steps)
    device = find_device().name if on_gpu else record["device"]["name"] if record else _PREDICTED
    if on_gpu:
        seconds = _times(steps, size)
        head, cells = ["time", "of the ceiling"], _cells(steps, seconds)
        told = f"Timed at {told}, each beside {_CEILINGS[options.kernel]}, by graph replay."
    else:
        head, cells = ["reads", "moved / used"], _counts(steps, size)
        told = f"Counted at {told}: how often the inputs are read; bytes moved, in whole sectors, per byte used."
    expected = [format_si(predicted(step.ladder, step.name), "s") for step in steps]
    table = [
        [f"{step.number} {step.name}", *cell, taken, *once, step.reason]
        for step, cell, taken, once in zip(steps, cells, expected, then, strict=True)
    ]
    names = ["step", *head, f"predicted, {_PREDICTED}", *where, "what changes, and why"]
    print(render_text(names, table, width=terminal_width(), wrap=True))
    told += f"\nPredicted from counts, of an H200 at {' x '.join(map(str, SIZES[options.kernel]))}"
    lines = ["", f"{told}{f', and recorded on an {where[0]}.' if where else '.'}"]
    if not on_gpu and len(set(expected)) < len(expected):
        lines.append(
            "Steps with the same prediction ask memory for the same bytes; what else they differ in is not predicted. "
            "On a GPU they are timed."
        )
    command = f"rooflab ladder {options.kernel}"
    lines.append(f"The code of a step: {command} --step 1. Of a change: {command} --diff 1 2")
    print(filled("\n".join(lines)))
    _keep(options, seconds, device)
    return 0


def _refuse(options: argparse.Namespace, measured: bool) -> None:
    """Say what cannot be kept before anything is counted or timed, which takes a while."""
    if options.record and not measured:
        raise ValueError("There is no GPU here, so there are no times to record.")
    if options.figure:
        if not options.figure.resolve().parent.is_dir():
            raise ValueError(f"There is no folder {options.figure.parent} for the figure.")
        if options.figure.is_dir():
            raise ValueError(f"{options.figure} is a folder: name a file in it for the figure.")
        output_folder(options.figure.parent)


def _keep(options: argparse.Namespace, seconds: Mapping[str, float], device: str) -> None:
    """Write the record and the figure that were asked for."""
    if options.record:
        print(f"Recorded in {save_record(f'{_UNIT}{options.kernel}', {'seconds': dict(seconds)})}.")
    if options.figure:
        options.figure.write_bytes(draw_ladder(options.kernel, seconds, device))
        print(f"The figure is {options.figure}.")
        if seconds and not find_chip(device):
            print(filled(f"There are no roofs in it: no data sheet of {device} is known (rooflab.specs)."))


def _recorded(record: Mapping[str, Any] | None, steps: Sequence[Step]) -> tuple[list[str], list[list[str]]]:
    """A column of the times on the reference device, and its heading; nothing where it is not another device's."""
    if record is None:
        return [], [[] for _ in steps]
    seconds = record["values"]["seconds"]
    told = [[format_si(seconds[step.name], "s") if step.name in seconds else "–"] for step in steps]
    return [short_name(record)], told


def draw_ladder(ladder: str, seconds: Mapping[str, float], device: str = "") -> bytes:
    """Return a picture (PNG): each step at the FLOPs for a byte that its threads ask for, and the rate it reached.

    Args:
        ladder: such as "matmul".
        seconds: of each step, and of the "ceiling"; without any, the predictions are drawn.
        device: on which they were measured (default: an H200). Its roofs are drawn, if its data sheet is known.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from .kernels.ladder.predictions import COUNTS, SIZES, flops_of, predicted, units
    from .plots.style import house_style, png, series_style, set_axis

    flops, many = flops_of(ladder), units(ladder, SIZES[ladder])
    at = {name: flops / (many * one.asked) for name, one in COUNTS[ladder].items()}
    rates = {name: flops / (seconds[name] if seconds else predicted(ladder, name)) for name in at}
    where = find_chip(device) if seconds and device else chip("h200")
    title = f"The steps of {ladder} " + (f"under the roofs of an {_PREDICTED}" if where == chip("h200")
                                         else f"on {device}, without roofs" if where is None
                                         else f"under the roofs of {where.name}'s data sheet")  # fmt: skip
    with matplotlib.rc_context(house_style):
        fig = Figure(figsize=(7.2, 4.4), layout="constrained")
        ax = fig.subplots()
        ax.margins(y=0.09)  # numbers stand below their points
        if where is not None:
            _draw_roofs(ax, ladder, where, min(at.values()) / 3, max(at.values()) * 5)
        style = series_style(0) | {"linewidth": 1.0}
        ax.plot(list(at.values()), list(rates.values()), label="measured" if seconds else "predicted", **style)
        if seconds:
            ceiling = _CEILINGS[ladder].partition(", by")[0]
            ax.axhline(flops / seconds["ceiling"], label=ceiling, color="#009E73", linewidth=1.2, zorder=1)
        set_axis(ax.xaxis, label="FLOPs for a byte asked of the nearest cache", unit="", log=True)
        set_axis(ax.yaxis, label="rate", unit="FLOP/s", log=True)
        _draw_numbers(ax, at, rates)
        fig.legend(loc="outside lower center", ncols=2)
        names = [Line2D([], [], linestyle="none", label=f"{number} {name}") for number, name in enumerate(at, 1)]
        fig.legend(handles=names, loc="outside right center", handlelength=0, handletextpad=0)
        fig.suptitle(title, x=0.01, ha="left")
        return png(fig)


def _draw_roofs(ax: Any, ladder: str, where: Chip, first: float, last: float) -> None:
    """Draw the roof of cache and matrix units over what is asked of the cache; that of the memory, if any, is level.

    No data sheet has the cache's rate: of another chip than an H200 the matrix units' roof is level, too.

    A byte that the cache answers for does not come from the memory: the memory's bytes have no place on this axis.
    """
    import numpy as np

    from .kernels.ladder.predictions import COUNTS, SIZES, flops_of, roofs, units
    from .plots.style import BOUND

    top, grid = roofs(where), np.geomspace(first, last, 300)
    named = {"cache": ("cache", "B/s"), "matrix": ("matrix units", "FLOP/s")}
    label = ", ".join(f"{name} {format_si(top[key], unit)}" for key, (name, unit) in named.items() if key in top)
    if label:
        line = np.minimum(grid * top.get("cache", np.inf), top.get("matrix", np.inf))
        ax.plot(grid, line, linestyle="--", label=label, **BOUND)
    least = min(one.memory for one in COUNTS[ladder].values()) * units(ladder, SIZES[ladder])
    if least:
        label = f"memory {format_si(top['memory'], 'B/s')}, each byte moved once"
        ax.axhline(flops_of(ladder) * top["memory"] / least, linestyle=":", label=label, **BOUND)


def _draw_numbers(ax: Any, at: Mapping[str, float], rates: Mapping[str, float]) -> None:
    """Write the steps' numbers beside their points; those at one place share a label."""
    import math

    from matplotlib.patheffects import withStroke

    groups: list[list[str]] = []
    for name in at:
        near = [each for each in groups if abs(math.log(at[each[0]] / at[name])) < 0.1
                and abs(math.log(rates[each[0]] / rates[name])) < 0.2]  # fmt: skip
        if near:
            near[0].append(name)
        else:
            groups.append([name])
    numbers = {name: str(number) for number, name in enumerate(at, 1)}
    for group in groups:
        x = at[group[-1]]
        right = not any(1.01 < at[name] / x < 1.6 for name in at)  # where the next point is not
        ax.annotate(
            ", ".join(numbers[name] for name in group), (x, min(rates[name] for name in group)),
            xytext=(5 if right else -5, -4), textcoords="offset points", fontsize=9, va="top",
            ha="left" if right else "right", path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip


def _numbered(steps: Sequence[Step], number: int) -> Step:
    if not 1 <= number <= len(steps):
        raise ValueError(f"There is no step {number}; expected one of 1 to {len(steps)}.")
    return steps[number - 1]


def _counts(steps: Sequence[Step], size: tuple[int, ...]) -> list[list[str]]:
    from .counters import count

    arrays, _ = _arrays(steps[0].ladder, size, "cpu")
    bar, found = Progress(f"ladder: {steps[0].ladder}", len(steps), unit="step"), []
    for step in steps:
        bar.step(step.number)
        found.append(count(lambda step=step: step.function()(*arrays), world="triton"))
    bar.close("counted")
    once = sum(each.numel() * each.element_size() for each in arrays[1:])
    return [[f"{one.bytes_read / once:.3g}", f"{one.moved_per_used:.3g}"] for one in found]


def _times(steps: Sequence[Step], size: tuple[int, ...]) -> dict[str, float]:
    """Seconds of each step, and of the ceiling."""
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
    return {name: one.median_s for name, one in measured.items()}


def _cells(steps: Sequence[Step], seconds: Mapping[str, float]) -> list[list[str]]:
    found = [seconds[step.name] for step in steps]
    return [[format_si(taken, "s"), f"{seconds['ceiling'] / taken:.2g}"] for taken in found]


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
