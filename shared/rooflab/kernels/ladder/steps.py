"""From a first attempt to the roof: versions of a kernel, each with the one thing that changes, and why.

Each step is a module of its own, with a kernel and a function that launches it, so that a reader goes from one to the
next with a diff.

>>> [step.name for step in LADDERS["softmax"]][:3]
['naive', 'coalesced', 'online']
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from rooflab.kernels.catalogue import unknown
from rooflab.kernels.launching import ready

__all__ = ["LADDERS", "Step", "code_of", "difference", "find_ladder"]


@dataclass(frozen=True)
class Step:
    """One version of a kernel.

    Attributes:
        ladder: of which it is a step, such as "softmax".
        number: 1 is the first.
        name: what is new in it.
        reason: what changes from the step before, and why.
    """

    ladder: str
    number: int
    name: str
    reason: str

    def module(self) -> ModuleType:
        """Return the step's module; Triton is loaded."""
        ready()
        return importlib.import_module(f"{__package__}.triton_{self.ladder}_{self.number}_{self.name}")

    def function(self) -> Callable[..., Any]:
        """Return the function that launches it, with the result first and then the inputs."""
        found: Callable[..., Any] = getattr(self.module(), self.ladder)
        return found


def _ladder(kernel: str, **reasons: str) -> tuple[Step, ...]:
    return tuple(Step(kernel, number, name, reason) for number, (name, reason) in enumerate(reasons.items(), 1))


LADDERS = {
    "softmax": _ladder(
        "softmax",
        naive="a row for each thread: of each sector of 32 bytes one number is used",
        coalesced="threads in step read neighbouring numbers: whole sectors are used",
        online="maximum and sum in one pass: a row is read twice, not three times",
        registers="the row stays in registers: it is read once",
        persistent="a program is started once, and takes rows in turn",
        pipelined="the next rows are on their way while this one is computed",
    ),
    "matmul": _ladder(
        "matmul",
        naive="a number of C for each thread; threads in step read A a row apart",
        coalesced="threads in step read neighbouring numbers of B, and share the one of A",
        tiled="a block of A serves all columns of a tile, a block of B all rows; matrix units multiply",
        pipelined="the copy engine brings the next blocks while this one is multiplied",
        persistent="the start and the end of a tile are hidden behind another tile",
        specialized="warps that only multiply have room for a tile twice as wide; others load",
    ),
    "attention": _ladder(
        "attention",
        naive="a query for each thread: of each sector of 32 bytes one number is used; scores go to memory",
        coalesced="threads in step read neighbouring numbers, and a score is read once for all columns",
        online="scores stay in registers: sums are scaled down where a larger maximum turns up (shows at longer L)",
        tiled="a block of keys and values serves all queries of a tile; matrix units multiply",
        pipelined="the copy engine brings the next keys and values while these are multiplied",
        persistent="a program is started once; its output leaves while the next queries come",
        specialized="two groups of warps: while one computes exponentials, the other one's products run",
    ),
}


def find_ladder(kernel: str) -> tuple[Step, ...]:
    """Return the steps of a kernel.

    Raises:
        ValueError: it has none; the message names the nearest that has one, or all of them.
    """
    if kernel not in LADDERS:
        raise unknown(f"There is no ladder of {kernel!r}", kernel, LADDERS)
    return LADDERS[kernel]


def difference(one: Step, other: Step) -> str:
    """Return what changes from one step's code to another's, as a unified diff; docstrings of modules are left out."""
    old, new = (code_of(step).splitlines() for step in (one, other))
    names = [f"{step.number} {step.name}" for step in (one, other)]
    return "\n".join(difflib.unified_diff(old, new, names[0], names[1], lineterm="", n=2))


def code_of(step: Step) -> str:
    """Return the code of a step, from the kernel on: without the module's docstring and imports."""
    return inspect.getsource(step.module()).partition("\n\n\n")[2].rstrip()
