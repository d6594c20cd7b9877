"""Which of all block sizes is fastest on the chip that is there?

Most of the time goes into compiling, so that many processes first compile a part of the candidates each, which Triton
keeps on disk; then one process times all of them, by replaying graphs. What is found goes into `choices.toml`.

>>> print(as_toml({"Chip": {"softmax": {(1024,): {"ROWS": 2, "num_warps": 4}}}}).splitlines()[-1])
1024 = { ROWS = 2, num_warps = 4 }
"""

from __future__ import annotations

import json
import math
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rooflab.state import atomic_write

from .precompile import Task, spread
from .tuning import FILE, Choice, seconds_of, set_tuner

__all__ = ["as_toml", "tune_kernels"]

Key = tuple[int, ...]
Found = dict[str, dict[str, dict[Key, Choice]]]

_HEAD = "# The block sizes that were fastest, by chip, kernel and sizes. Written by `rooflab bench kernels --tune`."


def tune_kernels(kernels: Iterable[str], size: str | None = None) -> Path:
    """Try all block sizes of kernels on the GPU of this machine; returns the file in which the best are kept.

    Args:
        kernels: names of the benchmark's cases.
        size: only this one, such as "16384 x 1024".
    """
    import torch

    wanted, chip = sorted(set(kernels)), torch.cuda.get_device_name()
    spread(_compile, wanted, size)
    found: Found = {chip: {}}

    def choose(
        kernel: str, key: tuple[int, ...], candidates: Sequence[Choice], run: Callable[[Choice], None]
    ) -> Choice:
        known = found[chip].setdefault(kernel, {})
        if key not in known:
            known[key] = _fastest(candidates, run)
            print(f"{kernel} {key}: {json.dumps(known[key])} of {len(candidates)}", file=sys.stderr)
            atomic_write(FILE, as_toml(_merged(_read(FILE), found)))  # at once: whoever stops early loses nothing
        return known[key]

    _call_all(wanted, size, choose)
    return FILE


def as_toml(found: Mapping[str, Mapping[str, Mapping[tuple[int, ...], Choice]]]) -> str:
    """Return choices as the text of `choices.toml`."""
    lines = [_HEAD]
    for chip, kernels in sorted(found.items()):
        for kernel, choices in sorted(kernels.items()):
            lines += ["", f"[{json.dumps(chip)}.{kernel}]"]
            for key, choice in sorted(choices.items()):
                told = ", ".join(f"{name} = {json.dumps(value)}" for name, value in choice.items())
                lines.append(f"{'x'.join(map(str, key))} = {{ {told} }}")
    return "\n".join(lines) + "\n"


def _compile(task: Task) -> None:
    """Compile one part of the candidates, in a process of its own."""
    wanted, size, part, parts = task
    able: dict[tuple[str, Key], Choice] = {}

    def choose(
        kernel: str, key: tuple[int, ...], candidates: Sequence[Choice], run: Callable[[Choice], None]
    ) -> Choice:
        if (kernel, key) not in able:
            fine = [choice for choice in candidates[part::parts] if _tried(run, choice)]
            able[kernel, key] = fine[0] if fine else next(each for each in candidates if _tried(run, each))
        return able[kernel, key]

    _call_all(wanted, size, choose)


def _tried(run: Callable[[Choice], None], choice: Choice) -> bool:
    try:
        run(choice)
    except Exception as error:  # Triton's kinds differ between versions
        if "out of resource" not in str(error).lower():
            raise
        return False
    return True


def _call_all(wanted: list[str], size: str | None, choose: Any) -> None:
    """Call our candidate of each case once, while `choose` chooses."""
    import torch

    from .benchmark import OURS
    from .catalogue import every_case

    set_tuner(choose)
    try:
        for case in every_case(wanted):
            if size in (None, case.size):
                case.candidates[OURS](*case.inputs(0))
                torch.cuda.empty_cache()
    finally:
        set_tuner(None)


def _fastest(candidates: Sequence[Choice], run: Callable[[Choice], None]) -> Choice:
    """The candidate with the shortest time; the best few are timed again, in turn."""
    from rooflab.clocks import GraphClock

    clock = GraphClock(10)
    first = sorted(((seconds_of(run, each, clock, 10), place) for place, each in enumerate(candidates)))
    best = [place for taken, place in first[:4] if math.isfinite(taken)]
    again = {place: min(seconds_of(run, candidates[place], clock, 30) for _ in range(2)) for place in best}
    return candidates[min(again, key=again.__getitem__)]


def _read(path: Path) -> Found:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        chip: {
            kernel: {tuple(map(int, sizes.split("x"))): choice for sizes, choice in choices.items()}
            for kernel, choices in kernels.items()
        }
        for chip, kernels in table.items()
    }


def _merged(old: Found, new: Found) -> Found:
    for chip, kernels in new.items():
        for kernel, choices in kernels.items():
            old.setdefault(chip, {}).setdefault(kernel, {}).update(choices)
    return old
