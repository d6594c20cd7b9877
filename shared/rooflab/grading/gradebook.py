"""How do results get into nbgrader's gradebook, in its own forms?

One student's results are one transaction. Points that a person gave stay; as nbgrader does, such a grade is flagged for
review when it is graded again, and so is every answer that only a person can grade.

>>> readable("expected: <b>")
'expected: <\\u2060b>'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .coursefolder import CourseFolder
from .graded import without_html
from .lab import LabNotebook
from .outcome import Outcome

__all__ = [
    "PenaltyError",
    "cell_names",
    "found_submission",
    "penalize",
    "penalize_all",
    "readable",
    "record",
    "score_of",
]


class PenaltyError(ValueError):
    """The course's plugin for late submissions does not work."""


def score_of(lab: LabNotebook, name: str, outcome: Outcome) -> float | None:
    """Return the points of a graded cell: of a check, or 0 for an answer in words that was not touched, else None."""
    cell = lab.cell(name)
    if outcome.failure:
        return None
    if cell.kind == "check":
        result = outcome.checks.get(name)
        return 0.0 if result is None else result.score
    if cell.kind == "task":
        return None
    answer = outcome.answers.get(name)
    return 0.0 if cell.untouched(answer) else None


def cell_names(gradebook: Any, assignment: str) -> dict[str, str]:
    """Return the names of all cells of an assignment by the id under which the gradebook keeps them."""
    notebooks = gradebook.find_assignment(assignment).notebooks
    kinds = [(*one.grade_cells, *one.solution_cells, *one.task_cells) for one in notebooks]
    return {cell.id: cell.name for cells in kinds for cell in cells}


def record(
    gradebook: Any,
    assignment: str,
    student: str,
    results: Mapping[str, tuple[LabNotebook, Outcome]],
    timestamp: datetime | None,
    names: Mapping[str, str],
) -> Any:
    """Write one student's results, and return nbgrader's submission.

    Args:
        gradebook: nbgrader's, open.
        assignment: a released assignment.
        student: whose; entered when the gradebook does not know them.
        results: of each notebook the lab and what came of it; a notebook that lacks gets 0.
        timestamp: when it was handed in, in UTC without a zone, if that is known.
        names: of the assignment's cells, by their id (see :func:`cell_names`).
    """
    from nbgrader.api import MissingEntry

    try:
        gradebook.find_student(student)
    except MissingEntry:
        gradebook.add_student(student)
    told = {} if timestamp is None else {"timestamp": timestamp}
    with gradebook.db.no_autoflush:
        submission = gradebook.update_or_create_submission(assignment, student, **told)
        for notebook in submission.notebooks:
            lab, outcome = results.get(notebook.name, (None, None))
            comments = {} if lab is None or outcome is None else _comments(lab, outcome)
            for grade in notebook.grades:
                name = names[grade.cell_id]
                grade.auto_score = 0.0 if lab is None or outcome is None else score_of(lab, name, outcome)
                given = grade.manual_score is not None and lab is not None
                grade.needs_manual_grade = grade.auto_score is None or given
            for comment in notebook.comments:
                comment.auto_comment = comments.get(names[comment.cell_id])
    gradebook.db.commit()
    return submission


def penalize(gradebook: Any, app: Any, db_url: str, submission: Any) -> bool:
    """Set the penalty for a late submission, as the course's plugin says; see nbgrader's AssignLatePenalties.

    Returns:
        whether it is another one now, as after a change of the due date.
    """
    before = [one.late_submission_penalty or 0.0 for one in submission.notebooks]
    if submission.total_seconds_late <= 0 and not any(before):
        return False
    from nbformat.notebooknode import NotebookNode
    from nbgrader.preprocessors import AssignLatePenalties

    penalties = AssignLatePenalties(parent=app)
    for notebook in submission.notebooks:
        names = {"notebook": notebook.name, "assignment": submission.name, "student": submission.student_id}
        try:
            penalties.preprocess(NotebookNode(cells=[]), {"nbgrader": {**names, "db_url": db_url}})
        except Exception as error:  # of the instructor's own plugin
            raise PenaltyError(
                f"the plugin for late submissions failed ({type(error).__name__}: {error}): mend it, and grade again"
            ) from error
    gradebook.db.expire_all()
    return [one.late_submission_penalty or 0.0 for one in submission.notebooks] != before


def penalize_all(course: CourseFolder, assignment: str) -> int:
    """Set the penalties of all submissions of an assignment; returns how many are other ones now."""
    with course.gradebook() as gradebook:
        submissions = gradebook.assignment_submissions(assignment)
        return sum(penalize(gradebook, course.app, course.db_url, one) for one in submissions)


def found_submission(gradebook: Any, assignment: str, student: str) -> Any:
    """Return nbgrader's submission, or None."""
    from nbgrader.api import MissingEntry

    try:
        return gradebook.find_submission(assignment, student)
    except MissingEntry:
        return None


def _comments(lab: LabNotebook, outcome: Outcome) -> dict[str, str | None]:
    """A comment on each answer: why its checks failed, or that there is none."""
    told: dict[str, list[str]] = {}
    answer = ""
    for cell in lab.cells:
        if cell.kind in ("solution", "written", "task"):
            answer = cell.name
            told[answer] = []
        elif cell.kind == "check" and answer and (result := outcome.checks.get(cell.name)) and result.note:
            told[answer].append(result.note)
    comments: dict[str, str | None] = {}
    for name, notes in told.items():
        cell, given = lab.cell(name), outcome.answers.get(name)
        untouched = cell.kind != "task" and cell.untouched(given)
        lines = list(dict.fromkeys(notes))
        if untouched:
            lines = [] if outcome.failure else ["No response."]
        comments[name] = "\n\n".join(lines) or None
    if told:
        general = [*filter(None, [outcome.failure]), *outcome.remarks]
        first = next(iter(told))
        comments[first] = "\n\n".join([*general, *filter(None, [comments[first]])]) or None
    return {name: None if text is None else readable(text) for name, text in comments.items()}


def readable(text: str) -> str:
    """Text as a comment: nbgrader reads comments as Markdown, in which HTML could come from a student's error."""
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\ufffd", text)  # what a terminal obeys
    text = text.encode("utf-8", "replace").decode()  # half characters, which no database takes
    return without_html(text).replace("\n", "  \n").replace("  \n  \n", "\n\n")
