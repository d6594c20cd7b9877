"""How did the class do in each exercise, and why did answers lose points?

An exercise is an answer that students write, with the checks between it and the next one; nbgrader's marks say no more.

>>> [same("off by 3.5 at [2]"), same("off by 17 at [1]")]
['off by # at [#]', 'off by # at [#]']
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .gradingrun import StudentResult
from .lab import LabNotebook

__all__ = ["Exercise", "Reason", "exercises_in", "exercises_of", "gist", "same"]

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def gist(note: str) -> str:
    """What a note says first, and its hint, without the numbers that the check has drawn.

    >>> gist("the median\\nexpected: 3\\nfound: 4\\nhint: Sort first: {'seed': 7}")
    'the median: Sort first.'
    """
    lines = [line.strip() for line in note.strip().partition("\n\n")[0].splitlines()] or [""]
    hint = next((line.removeprefix("hint: ").strip() for line in lines if line.startswith("hint: ")), "")
    hint = re.split(r": [{\[]", hint)[0].rstrip(".")  # without the settings and numbers that belong to it
    return f"{lines[0]}: {hint}{'' if hint[-1] in '?!' else '.'}" if hint else lines[0]


def same(note: str) -> str:
    """What is the same in notes that differ in their numbers only."""
    return _NUMBER.sub("#", gist(note))


@dataclass
class Reason:
    """Why checks failed: the note as the first of these students got it, and who they are."""

    note: str
    students: list[str] = field(default_factory=list)


@dataclass
class Exercise:
    """One exercise: its scores by student, and the reasons for points that were lost, the most frequent first."""

    notebook: str
    name: str
    title: str
    points: float = 0.0
    checks: list[str] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)  # students whose answer a person has to look at
    reasons: list[Reason] = field(default_factory=list)

    @property
    def full(self) -> int:
        """How many got all points."""
        return sum(score >= self.points for score in self.scores.values())

    @property
    def mean(self) -> float:
        """The mean of the scores."""
        return sum(self.scores.values()) / len(self.scores) if self.scores else 0.0

    @property
    def lost(self) -> float:
        """The share of students who did not get all points."""
        return 1 - self.full / len(self.scores) if self.scores else 0.0


def exercises_of(labs: Mapping[str, LabNotebook], results: Sequence[StudentResult]) -> list[Exercise]:
    """Return the exercises of all notebooks of an assignment, in their order, with what the class got.

    Students whose file could not be graded are not counted.
    """
    made = [exercise for lab in labs.values() for exercise in exercises_in(lab)]
    for exercise in made:
        told: dict[str, Reason] = {}
        for result in results:
            _count(exercise, result, labs[exercise.notebook], told)
        exercise.reasons = sorted(told.values(), key=lambda reason: -len(reason.students))
    return made


def exercises_in(lab: LabNotebook) -> list[Exercise]:
    """Return the exercises of one notebook, without anybody's points."""
    made: list[Exercise] = []
    title = ""
    for cell in lab.cells:
        if not cell.is_code and (heading := re.search(r"^#+\s+(.+)$", cell.released, re.MULTILINE)):
            title = heading[1].strip()
        if cell.kind in ("solution", "written", "task"):
            points = cell.points if cell.kind != "solution" else 0.0
            made.append(Exercise(lab.name, cell.name, title or cell.name, points))
        elif cell.kind == "check":
            if not made or (made[-1].points and not made[-1].checks):  # without an answer, or behind one in words
                made.append(Exercise(lab.name, cell.name, title or cell.name))
            made[-1].checks.append(cell.name)
            made[-1].points += cell.points
    found = [exercise for exercise in made if exercise.points]
    titles = Counter(exercise.title for exercise in found)
    for exercise in found:
        if titles[exercise.title] > 1:  # several under one heading
            exercise.title = f"{exercise.title}: {exercise.name}"
    return found


def _count(exercise: Exercise, result: StudentResult, lab: LabNotebook, told: dict[str, Reason]) -> None:
    outcome = result.outcomes.get(exercise.notebook)
    if outcome is None or outcome.failure:
        return
    cell, answer = lab.cell(exercise.name), outcome.answers.get(exercise.name)
    if not exercise.checks:  # in words
        looked_at = (exercise.notebook, exercise.name) in result.by_hand
        if (cell.kind == "task" or not cell.untouched(answer)) and not looked_at:
            exercise.waiting.append(result.student)
        return
    found = [outcome.checks[name] for name in exercise.checks if name in outcome.checks]
    exercise.scores[result.student] = sum(check.score or 0.0 for check in found)
    undecided = [at for at in exercise.checks if at in outcome.checks and outcome.checks[at].score is None]
    if any((exercise.notebook, at) not in result.by_hand for at in undecided):
        exercise.waiting.append(result.student)
    notes = dict.fromkeys(check.note for check in found if check.note)
    if notes and cell.kind == "solution" and cell.untouched(answer):
        notes = dict.fromkeys(["There is no answer yet."])
    for note in notes:
        students = told.setdefault(same(note), Reason(note)).students
        if result.student not in students:
            students.append(result.student)
