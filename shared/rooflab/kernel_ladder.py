"""The command `rooflab ladder`: from a first attempt at a kernel to the roof, step by step.

>>> import argparse
>>> parser = argparse.ArgumentParser(); add_ladder_options(parser)
>>> parser.parse_args(["softmax", "--diff", "2", "online"]).diff
['2', 'online']
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .device import find_device
from .files import output_folder, write_atomic
from .kernel_ladder_figure import CEILINGS, PREDICTED, draw_ladder
from .plaintext import filled, terminal_width
from .progress import Progress
from .records import all_records, save_record, short_name
from .specs import find_chip
from .tables import render_text
from .units import format_si

if TYPE_CHECKING:
    from .kernels.ladder import Step

__all__ = ["add_ladder_options", "show_ladder"]

_UNIT = "ladder_"  # a record for each ladder, under this name and the kernel's
_RECORDED = "nvidia-h200"  # the folder of the device of which the predictions are
_SLOW_S = 2e-3  # a step from here on is timed with fewer calls
# Of each ladder: the shape where it is counted.
_COUNTED = {"softmax": (64, 256), "matmul": (128, 128, 16), "attention": (1, 128, 16)}


_ALIKE = (
    "Steps with the same prediction are held by the same thing; what else they differ in is not predicted. On a GPU "
    "they are timed."
)
_PICTURES = (".png", ".svg")


def add_ladder_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab ladder`."""
    parser.add_argument("kernel", help="softmax, matmul or attention")
    code = parser.add_mutually_exclusive_group()
    code.add_argument("--step", metavar="STEP", help="show the code of one step, by its number or name")
    code.add_argument("--diff", nargs=2, metavar="STEP", help="show what changes from one step to another")
    parser.add_argument("--record", action="store_true", help="on a GPU: keep the times among the records")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the steps under their roofs (.png or .svg)")


def show_ladder(options: argparse.Namespace) -> int:
    """Print the steps of a kernel, what each moves or takes, what changes and why; or the changes between two."""
    from .kernels.ladder import find_ladder
    from .kernels.ladder.predictions import SIZES, predicted
    from .kernels.launching import ready

    ready()
    import torch

    steps = find_ladder(options.kernel)
    if options.step is not None or options.diff:
        _show_code(steps, options)
        return 0
    record = _recorded(options.kernel)
    then: Mapping[str, float] = {} if record is None else record["values"]["seconds"]
    seconds = then if {"ceiling", *(step.name for step in steps)} <= set(then) else {}
    on_gpu = torch.cuda.is_available()
    _refuse(options, on_gpu)
    size = (SIZES if on_gpu else _COUNTED)[options.kernel]
    told = f"{' x '.join(map(str, size))} in bf16"
    device = find_device().name if on_gpu else record["device"]["name"] if record else PREDICTED
    if on_gpu:
        seconds = _times(steps, size)
        head, cells = ["time", "share"], _cells(steps, seconds)
        told = f"Timed at {told}, by graph replay. Share: of the speed of {CEILINGS[options.kernel]}."
    else:
        head, cells = ["reads", "moved"], _counts(steps, size)
        told = f"Counted at {told}. Reads: how often each input is read. Moved: bytes in whole sectors, per byte used."
    roofs = [predicted(step.ladder, step.name) for step in steps]
    table = [
        [f"{step.number} {step.name}", *cell, format_si(best, "s"),
         *(_beside(then.get(step.name), best) if then else ()), step.reason]
        for step, cell, best in zip(steps, cells, roofs, strict=True)
    ]  # fmt: skip
    names = ["step", *head, "predicted", *(["recorded", "x roof"] if then else ()), "what changes, and why"]
    print(render_text(names, table, width=terminal_width(), wrap=True))
    at = " x ".join(map(str, SIZES[options.kernel]))
    roof = f"Predicted from counts, of an {PREDICTED} at {at}, by what takes longest: {_limits(steps)}."
    lines = ["", told, roof, _told(options.kernel, record)]
    if not on_gpu and len({row[len(head) + 1] for row in table}) < len(table):
        lines.append(_ALIKE)
    command = f"rooflab ladder {options.kernel}"
    lines.append(f"The code of a step: {command} --step 1. Of a change: {command} --diff 1 2")
    print(filled("\n".join(lines)))
    _keep(options, seconds, device)
    return 0


def _show_code(steps: Sequence[Step], options: argparse.Namespace) -> None:
    """Print the code of a step, or what changes between two."""
    from .kernels.ladder import code_of, difference

    if options.figure or options.record:
        raise ValueError(
            "Code is shown and nothing is measured: expected --figure and --record without --step, --diff."
        )
    if options.step is not None:
        print(code_of(_named(steps, options.step)))
    else:
        print(difference(*(_named(steps, word) for word in options.diff)) or "Nothing changes.")


def _refuse(options: argparse.Namespace, measured: bool) -> None:
    """Say what cannot be kept before anything is counted or timed, which takes a while."""
    if options.record and not measured:
        raise ValueError("There is no GPU here, so there are no times to record.")
    if options.figure:
        if options.figure.suffix not in _PICTURES:
            raise ValueError(f"expected a figure whose name ends in .png or .svg; found {options.figure}")
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
        write_atomic(options.figure, draw_ladder(options.kernel, seconds, device, options.figure.suffix[1:]))
        print(f"The figure is {options.figure}.")
        if seconds and not find_chip(device):
            print(filled(f"There are no roofs in it: no data sheet of {device} is known (rooflab.specs)."))


def _recorded(ladder: str) -> Mapping[str, Any] | None:
    """The record of the device of which the predictions are; one that says no times is left out, which is told."""
    for record in all_records(_RECORDED):
        if record.get("unit") == f"{_UNIT}{ladder}":
            seconds = record["values"].get("seconds")
            if isinstance(seconds, Mapping) and all(isinstance(one, int | float) for one in seconds.values()):
                return record
            told = f"rooflab: the record of {ladder} on {_RECORDED} is damaged: restore it, or record it again."
            print(told, file=sys.stderr)
    return None


def _limits(steps: Sequence[Step]) -> str:
    """What decides the time of each step, with the numbers of those that follow one another together."""
    from .kernels.ladder.predictions import limit_of

    words = {"cache": "the cache", "in turn": "instructions and products, in turn"}
    told = []
    for limit, group in itertools.groupby(steps, lambda step: limit_of(step.ladder, step.name)):
        numbers = [step.number for step in group]
        between = " and " if len(numbers) == 2 else " to "
        told.append(f"{between.join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))} {words.get(limit, limit)}")
    return "; ".join(told)


def _beside(taken: float | None, roof: float) -> list[str]:
    """What was recorded of a step, and how many times what its roof allows."""
    return ["–", "–"] if taken is None else [format_si(taken, "s"), f"{taken / roof:.1f}"]


def _told(ladder: str, record: Mapping[str, Any] | None) -> str:
    """Where and when the recorded times were taken."""
    if record is None:
        return f"Recorded: nothing yet; `rooflab ladder {ladder} --record` on an {PREDICTED} keeps its times."
    day = str(record.get("date", ""))[:10]
    return f"Recorded on an {short_name(record)} on {day}. x roof: as many times the prediction."


def _named(steps: Sequence[Step], word: str) -> Step:
    """The step of this number or name."""
    found = [step for step in steps if word in (str(step.number), step.name)]
    if not found:
        names = ", ".join(step.name for step in steps)
        raise ValueError(f"There is no step {word}; expected one of 1 to {len(steps)}, or of {names}.")
    return found[0]


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
