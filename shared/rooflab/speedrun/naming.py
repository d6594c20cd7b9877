"""What is a choice of rungs called? By the last of them, where most of those before it are there.

>>> title(["tf32", "bf16", "padded-vocabulary", "fused-attention"], {})
('up to fused-attention', [])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .rungs import RUNGS

__all__ = ["counted", "short", "title"]

_SHORT = 60  # letters: with the loss and the time, what two lines of a figure's title hold


def title(rungs: Sequence[str], deviations: Mapping[str, Any]) -> tuple[str, list[str]]:
    """A name for these rungs, and what else was set: "up to muon, without graph"."""
    names = [rung.name for rung in RUNGS if rung.change]
    changes = [f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
               for name, value in deviations.items()]  # fmt: skip
    if not rungs:
        return "baseline", changes
    known = [name for name in names if name in rungs]
    if len(known) == len(rungs):
        before = names[: names.index(known[-1]) + 1]
        left_out = [name for name in before if name not in rungs]
        if len(left_out) < len(rungs) and len(left_out) <= 4 and len(rungs) > 1:
            return f"up to {known[-1]}" + (f", without {', '.join(left_out)}" if left_out else ""), changes
    return ", ".join(rungs), changes


def short(rungs: Sequence[str]) -> str:
    """The same in a line: where the name is long, how many rungs there are, and up to which.

    >>> short(["rotary", "muon"])
    'rotary, muon'
    """
    name, _ = title(rungs, {})
    return name if len(name) <= _SHORT else f"{len(rungs)} rungs up to {rungs[-1]}"


def counted(number: int, noun: str) -> str:
    """A number and what it counts.

    >>> counted(1, "step"), counted(1200, "step")
    ('1 step', '1,200 steps')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
