"""What does the gradebook of a course hold: assignments with their cells, students, and points?

>>> Mark("ada", 20.0, penalty=2.5).score, Mark("ada", 1.0, penalty=2.5).score
(17.5, 0.0)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

__all__ = ["Assignment", "Mark", "Student", "read_assignments", "read_students", "set_due"]


@dataclass(frozen=True)
class Mark:
    """What one submission got; `waiting` tells that a person has yet to look at it."""

    student: str
    raw: float
    penalty: float = 0.0
    waiting: bool = False

    @property
    def score(self) -> float:
        """The points less the penalty for being late, as nbgrader's own export has it."""
        return max(0.0, self.raw - self.penalty)


@dataclass(frozen=True)
class Assignment:
    """One assignment: `cells` are its marked cells, "notebook/cell" to points (None: not graded)."""

    name: str
    due: datetime | None = None
    points: float = 0.0
    cells: Mapping[str, float | None] = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Student:
    """One student as the gradebook knows them."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""


@contextmanager
def _open(folder: Path) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SQLAlchemy's remarks on how nbgrader uses it
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
            yield gradebook


def read_assignments(folder: Path) -> dict[str, Assignment]:
    """Read all assignments of a course by name; none where there is no gradebook yet."""
    if not (folder / "gradebook.db").is_file():
        return {}
    with _open(folder) as gradebook:
        return {each.name: _assignment(each) for each in gradebook.assignments}


def read_students(folder: Path) -> dict[str, Student]:
    """Read all students of a course by id; none where there is no gradebook yet."""
    if not (folder / "gradebook.db").is_file():
        return {}
    with _open(folder) as gradebook:
        return {
            each.id: Student(each.id, each.first_name or "", each.last_name or "", each.email or "")
            for each in gradebook.students
        }


def set_due(folder: Path, name: str, due: datetime | None) -> None:
    """Set the due date, in UTC, of an assignment that is in the gradebook."""
    with _open(folder) as gradebook:
        gradebook.find_assignment(name).duedate = due
        gradebook.db.commit()


def _assignment(found: Any) -> Assignment:
    cells: dict[str, float | None] = {}
    for notebook in found.notebooks:
        cells |= {f"{notebook.name}/{cell.name}": None for cell in [*notebook.source_cells, *notebook.solution_cells]}
        graded = [*notebook.grade_cells, *notebook.task_cells]
        cells |= {f"{notebook.name}/{cell.name}": float(cell.max_score) for cell in graded}
    marks = [
        Mark(each.student.id, float(each.score), float(each.late_submission_penalty or 0), each.needs_manual_grade)
        for each in found.submissions
    ]
    return Assignment(found.name, found.duedate, float(found.max_score), cells, tuple(marks))
