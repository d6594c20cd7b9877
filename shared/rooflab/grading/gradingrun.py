"""What is asked of a run over an assignment, and what comes of it?

>>> StudentResult("ada", {}, {}).points
0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .lab import LabNotebook
from .outcome import STOPPED, Outcome
from .sandbox import Limits

__all__ = ["GradingRun", "Options", "StudentResult"]


@dataclass(frozen=True)
class Options:
    """How to grade; the defaults are those of the command."""

    jobs: int = 2
    executor: str = "local"
    limits: Limits = field(default_factory=Limits)
    level: str = "auto"
    seed: str | None = None
    fresh_seed: bool = False
    again: bool = False
    students: tuple[str, ...] = ()
    feedback: bool = True
    refresh: bool = False  # write what was graded before once more, with the points that a person gave
    accelerator: bool = False


@dataclass(frozen=True)
class StudentResult:
    """What one student got; `done_before` when it was graded in an earlier run and nothing has changed."""

    student: str
    outcomes: dict[str, Outcome]
    labs: dict[str, LabNotebook]
    done_before: bool = False
    error: str = ""
    late_s: float = 0.0
    penalty: float = 0.0
    by_hand: Mapping[tuple[str, str], float] = field(default_factory=dict)  # points of a person, by notebook and cell

    @property
    def failed(self) -> bool:
        """Whether a notebook could not be graded."""
        return any(outcome.failure for outcome in self.outcomes.values())

    @property
    def waiting(self) -> float:
        """The points that wait for a person: answers in words, checks that could not decide."""
        found = 0.0
        for name, outcome in self.outcomes.items():
            for cell in self.labs[name].cells:
                check = outcome.checks.get(cell.name)
                undecided = cell.kind == "check" and check is not None and check.score is None
                written = cell.kind == "written" and not cell.untouched(outcome.answers.get(cell.name))
                lost = bool(outcome.failure) and cell.kind in ("check", "written")
                if (undecided or written or lost or cell.kind == "task") and (name, cell.name) not in self.by_hand:
                    found += cell.points
        return found

    @property
    def remarks(self) -> list[str]:
        """What the instructor should know of this student beside the points, each in a few words."""
        told = [self.error] if self.error else []
        for name, outcome in self.outcomes.items():
            if outcome.failure:
                told.append(outcome.failure)
                continue
            told += outcome.remarks
            stopped = {
                f"stopped in {self.labs[name].answer_of(at) or at}: {check.note.removeprefix(STOPPED)}": None
                for at, check in outcome.checks.items()
                if check.stopped
            }
            told += stopped
            asked = [cell for cell in self.labs[name].cells if cell.kind in ("solution", "written")]
            blank = sum(cell.untouched(outcome.answers.get(cell.name)) for cell in asked)
            told += [f"{blank} of {len(asked)} answers not written"] if blank else []
            undecided = sum(check.score is None for check in outcome.checks.values())
            told += [f"{undecided} checks for a person to look at"] if undecided else []
        if self.penalty:
            told.append(f"{self.penalty:g} points off for being late")
        elif self.late_s:
            told.append("late")
        return told

    @property
    def remark(self) -> str:
        """All of them in a row; some are sentences, whose full stop does not stand before a semicolon."""
        return "; ".join(told.rstrip(".") for told in self.remarks)

    @property
    def score(self) -> float:
        """The points that checks gave, and persons."""
        checked = sum(
            check.score or 0.0
            for name, outcome in self.outcomes.items()
            for at, check in outcome.checks.items()
            if (name, at) not in self.by_hand
        )
        return checked + sum(self.by_hand.values())

    @property
    def points(self) -> float:
        """The points that checks can give, and those of answers that a person has looked at."""
        return sum(
            cell.points
            for name, lab in self.labs.items()
            for cell in lab.cells
            if cell.kind == "check" or (name, cell.name) in self.by_hand
        )

    @property
    def seconds(self) -> float:
        """How long it took."""
        return sum(outcome.seconds for outcome in self.outcomes.values())


@dataclass
class GradingRun:
    """A run over one assignment."""

    assignment: str
    results: list[StudentResult]
    seconds: float
    level: str = ""
    options: Options = field(default_factory=Options)

    @property
    def fresh(self) -> list[StudentResult]:
        """Those that were graded in this run, and not before."""
        return [result for result in self.results if not result.done_before]

    @property
    def per_minute(self) -> float:
        """How many submissions were graded in a minute."""
        return 60 * len(self.fresh) / self.seconds if self.seconds else 0.0
