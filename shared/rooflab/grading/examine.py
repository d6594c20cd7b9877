"""How is a submission examined: which cells run where, and what is each check worth?

This runs in the grader's own process, where the instructor's cells and the checks are. The names that the student
defines are bound to functions of the student's process before each check.

>>> seed_of("secret", "lab", "f-1") == seed_of("secret", "lab", "f-1") != seed_of("another", "lab", "f-1")
True
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rooflab.speed import Unsteady, set_runners
from rooflab.traffic import Traffic, set_counter

from .clock import Clock
from .lab import LabCell, LabNotebook
from .outcome import CheckResult, Outcome
from .outputs import error_output, failure_note, of_student, stream_output
from .provider import Ran
from .puretriton import NotPure, pure_kernel
from .rebuild import Plan, Step
from .remote import RemoteObject, StudentError, Unsupported, identity
from .session import Session

__all__ = ["examine", "seed_of"]

_NO_MEMORY = "This check needed more memory than there is: return smaller results."


def seed_of(secret: str, lab: str, cell: str) -> int:
    """Return the seed of a check: the same whenever a submission is graded with the same secret, which nobody has."""
    return int.from_bytes(hashlib.sha256(f"{secret}/{lab}/{cell}".encode()).digest()[:8], "big")


@dataclass
class _Examiner:
    lab: LabNotebook
    session: Session
    shell: Any
    secret: str
    started: float = field(default_factory=time.monotonic)
    checks: dict[str, CheckResult] = field(default_factory=dict)
    outputs: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)
    failed: dict[str, Ran] = field(default_factory=dict)  # answers that raised when they were run
    known: set[str] = field(default_factory=set)
    answers: Mapping[str, str] = field(default_factory=dict)
    named: dict[tuple[int, int], str] = field(default_factory=dict)  # names of the student's functions
    place: int = 0  # of the instructor's cells that have run
    room: int = 16 * 2**20  # for outputs of the student's cells

    def step(self, step: Step) -> None:
        if step.kind == "check":
            self.session.renew()
            self.check(self.lab.cell(step.name))
            return
        ran = self.session.run(step)
        if ran.error is not None and step.kind == "solution" and not self.lab.cell(step.name).untouched(step.source):
            self.failed[step.name] = ran
        if step.index >= 0:
            self.outputs[str(step.index)] = tuple(self.kept(of_student(ran)))

    def kept(self, outputs: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Outputs as long as there is room for them."""
        for output in outputs:
            size = len(json.dumps(output))
            if size > self.room:
                yield stream_output("[This notebook shows more than is kept: the rest is left out.]\n")
                return
            self.room -= size
            yield output

    def check(self, cell: LabCell) -> None:
        until = self.lab.cells.index(cell)
        for own in self.lab.cells[:until]:  # also of answers that stand in a cell of the student's own
            self.known.update(self.lab.asked.intersection(own.binds))  # and no helper of the model answers
        stopped = self.bind()
        for own in self.lab.cells[self.place : until]:
            if own.kind in ("setup", "locked"):
                self.run(own.source)
            elif own.imports:
                self.run(own.imports)
        self.place = max(self.place, until)
        seed = seed_of(self.secret, self.lab.name, cell.name)
        _sow(seed)
        begun = time.monotonic()
        self.session.changed = False
        value, error, printed = (None, stopped, "") if stopped is not None else self.value(cell.source)
        score, note = (None, "") if error is not None else self.worth(cell, seed, value)
        outputs = [stream_output(printed)] if printed else []
        if error is not None:
            hidden = cell.source != cell.released
            score, note = _failed(error)
            broken = self.failed.get(self.lab.answer_of(cell.name)) if isinstance(error, NameError) else None
            note = note or (_cell_failed(broken) if broken else failure_note(error, cell, hidden=hidden))
            outputs.append(error_output(error, cell))
        self.checks[cell.name] = CheckResult(score, cell.points, note, time.monotonic() - begun, tuple(outputs))

    def bind(self) -> StudentError | None:
        """Let the names of the answers so far stand for what they are in the student's process.

        A process that has ended meanwhile, as by a thread of its own, is replaced. Returned is why the fresh one ended
        too, if it did.
        """
        space = self.shell.user_ns
        for name in self.known:
            space.pop(name, None)
        stopped = None
        for _ in range(2):
            try:
                values = self.session.values(sorted(self.known))
            except StudentError as error:
                stopped = error
                continue
            space.update(values)
            self.named = {identity(thing): name for name, thing in values.items() if isinstance(thing, RemoteObject)}
            return None
        return stopped

    def traffic(self, kernel: Any, grid: tuple[int, ...], args: Sequence[Any], constants: Mapping[str, Any]) -> Traffic:
        """Count a student's kernel by its text, in a process that runs nothing else."""
        if not isinstance(kernel, RemoteObject):
            raise AssertionError(f"expected a kernel, a function with @triton.jit; found a {type(kernel).__name__}")
        name = self.named.get(identity(kernel))
        if name is None:
            raise Unsupported("this check counts a kernel that has no name of its own")
        cell = next(cell for cell in self.lab.cells if name in cell.binds and cell.name in self.answers)
        try:
            source = pure_kernel(self.answers[cell.name], name)
        except NotPure as error:
            raise AssertionError(f"The kernel cannot be counted: {error}.") from None
        told = self.session.traffic(source, name, grid, (list(args), dict(constants)))
        return Traffic(**told)

    def worth(self, cell: LabCell, seed: int, value: object) -> tuple[float | None, str]:
        """The points of a check that ended.

        A check may compute what is right from the values that it has handed over, as `f(x) == right(x)` does. Where a
        function has changed these, the check has to hold as well without the changes or, if nothing but None was
        returned, without looking at that: the right answer for values that were all taken away may be None.
        """
        score = _worth(value, cell.points)
        if not self.session.changed:
            return score
        self.session.withhold = True
        try:
            _sow(seed)
            value, error, _ = self.value(cell.source)
        finally:
            self.session.withhold = False
        if error is None and _worth(value, cell.points) == score:
            return score
        return None, (
            "The check holds only with what your function does to its arguments, beside what it returns; a person has "
            "to look. Return a new value, and leave the arguments as they are."
        )

    def value(self, source: str) -> tuple[Any, BaseException | None, str]:
        """What a check ends in, what it raises, and what it prints."""
        result, printed = self.run(source)
        return result.result, result.error_before_exec or result.error_in_exec, printed

    def run(self, source: str) -> tuple[Any, str]:
        from IPython.utils.capture import capture_output

        with capture_output(display=False) as seen:
            result = self.shell.run_cell(source, store_history=False, silent=False)
        return result, seen.stdout


def examine(lab: LabNotebook, plan: Plan, session: Session, shell: Any, secret: str, level: str = "") -> Outcome:
    """Run a submission's steps and score its checks.

    Args:
        lab: the instructor's notebook.
        plan: what to run.
        session: the student's process.
        shell: an IPython shell of the grader's own, with an empty namespace.
        secret: from which the seeds of the checks follow.
        level: of the sandbox, to be kept with the result.
    """
    examiner = _Examiner(lab, session, shell, secret, answers=plan.answers)
    session.show = lambda text: print(text, end="")
    # IPython would print lines of every module that an error came through, and where it lies: see error_output.
    shell.showtraceback = shell.showsyntaxerror = lambda *args, **kwargs: None
    clock = Clock(session)
    set_counter(examiner.traffic)
    set_runners(clock.open)
    try:
        for step in plan.steps:
            try:
                examiner.step(step)
            except MemoryError:
                if step.kind == "check":
                    points = lab.cell(step.name).points
                    examiner.checks[step.name] = CheckResult(0.0, points, _NO_MEMORY)
    finally:
        set_counter(None)
        set_runners(None)
        clock.close()
        session.close()
    return Outcome(
        lab.name, examiner.checks, examiner.outputs, plan.answers, (*plan.remarks, *_remarks(examiner.failed)),
        level=level, seconds=time.monotonic() - examiner.started,
    )  # fmt: skip


def _remarks(failed: Mapping[str, Ran]) -> Sequence[str]:
    return [f"The cell of {name!r} could not be run: {_why(ran)}" for name, ran in failed.items()]


def _cell_failed(ran: Ran) -> str:
    """What is told of a check that asks for a name which an answer's cell did not get to define."""
    return f"The cell of this answer could not be run: {_why(ran)}"


def _why(ran: Ran) -> str:
    error = ran.error or {}
    kind, message = str(error.get("type", ""))[:60], str(error.get("message", ""))[:200]
    return message if kind == "StudentError" else f"{kind}: {message}"


def _sow(seed: int) -> None:
    from rooflab import check

    check.sow(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed % 2**63)


def _worth(value: object, points: float) -> tuple[float | None, str]:
    """The points of a check that ended: all, or what its last expression says if that is a number."""
    if isinstance(value, bool | np.bool_):
        return (points, "") if value else (None, "The check ended in False; a person has to say what that is worth.")
    if isinstance(value, int | float | np.integer | np.floating):
        number = float(value)
        if math.isfinite(number) and 0 <= number <= points:
            return number, "" if number == points else f"This check gave {number:g} of {points:g} points."
        return None, f"The check gave {number:g} of {points:g} points; a person has to look."
    if not (value is None or isinstance(value, str | bytes | list | tuple | dict)):
        # Points that are added up from comparisons are no number where an answer is an array, and are not all points.
        return None, f"The check ended in a {type(value).__name__} and in no number; a person has to look."
    return points, ""


def _failed(error: BaseException) -> tuple[float | None, str]:
    if isinstance(error, Unsupported | Unsteady):
        return None, f"A person has to look: {str(error).rstrip('.')}."
    return 0.0, ""
