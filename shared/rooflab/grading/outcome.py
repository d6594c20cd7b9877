"""What came of grading one submission, as plain data that can be kept and compared.

>>> Outcome.from_json(Outcome("lab", {"f-1": CheckResult(2.0, 2.0)}).to_json()).checks["f-1"].score
2.0
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

__all__ = ["STOPPED", "CheckResult", "Outcome"]

STOPPED = "Your code was stopped: "  # begins the note of a check whose process ended or hung


@dataclass(frozen=True)
class CheckResult:
    """What one check came to; `score` is None where a person has to look, and `note` says why in a sentence."""

    score: float | None
    points: float
    note: str = ""
    seconds: float = 0.0
    outputs: tuple[dict[str, Any], ...] = ()  # of the notebook's format

    @property
    def stopped(self) -> bool:
        """Whether the student's code was stopped in it."""
        return self.note.startswith(STOPPED)


@dataclass(frozen=True)
class Outcome:
    """What one notebook of one submission came to."""

    notebook: str
    checks: dict[str, CheckResult] = field(default_factory=dict)
    outputs: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)  # of the student's cells, by index
    answers: dict[str, str] = field(default_factory=dict)  # the source of each answer, by name
    remarks: tuple[str, ...] = ()  # what student and instructor should know
    failure: str = ""  # why nothing could be graded, in a sentence
    lost: bool = False  # the grader failed, and not the student: the next run tries again
    level: str = ""  # of the sandbox
    seconds: float = 0.0

    @property
    def score(self) -> float:
        """The points that checks gave."""
        return sum(check.score or 0.0 for check in self.checks.values())

    @property
    def points(self) -> float:
        """The points that checks can give."""
        return sum(check.points for check in self.checks.values())

    @property
    def brief(self) -> Outcome:
        """It without what cells have shown, for those who keep the outcomes of a whole class."""
        checks = {name: replace(check, outputs=()) for name, check in self.checks.items()}
        return replace(self, outputs={}, checks=checks)

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """Return what `to_json` wrote."""
        told = json.loads(text)
        told["checks"] = {
            name: CheckResult(**{**check, "outputs": tuple(check["outputs"])}) for name, check in told["checks"].items()
        }
        told["outputs"] = {index: tuple(outputs) for index, outputs in told["outputs"].items()}
        return cls(**{**told, "remarks": tuple(told["remarks"])})
