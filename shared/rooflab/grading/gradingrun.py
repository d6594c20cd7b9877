"""What is asked of a run over an assignment, and what comes of it?

>>> StudentResult("ada", {}, {}).points
0
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .lab import LabNotebook
from .outcome import Outcome
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

    @property
    def score(self) -> float:
        """The points that checks gave."""
        return sum(outcome.score for outcome in self.outcomes.values())

    @property
    def points(self) -> float:
        """The points that checks can give."""
        return sum(check.points for lab in self.labs.values() for check in lab.checks)

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
