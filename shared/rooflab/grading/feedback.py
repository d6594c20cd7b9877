"""The page that a student gets back: points, what to look at, and the notebook as it was graded.

It lies where nbgrader looks for it, needs no network and runs no scripts. Of hidden checks it shows why they failed,
and nothing else; the rest of what is said of an answer is the gradebook's comment on it.

>>> _points(17.5), _points(3.0)
('17.5', '3')
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any

from rooflab.reporting.markup import Html, document, pill, table

from .exercises import Exercise, exercises_in, gist
from .lab import LabCell, LabNotebook

__all__ = ["FeedbackWriter"]

_MOST = 200
# Characters of a page that are more than plain text: a megabyte of code takes seconds, one of formulas a minute, for
# which the class would wait.
_MOST_CODE, _MOST_TEXT = 500_000, 100_000
_KEPT, _SHORT = 1024, 10_000  # texts that are rendered once for all of a class, and their characters


@dataclass(frozen=True)
class _Mark:
    """What the gradebook says of a graded cell; `waiting` for a person."""

    score: float
    points: float
    waiting: bool


@dataclass(frozen=True)
class _Marks:
    graded: Mapping[str, _Mark]
    comments: Mapping[str, str]
    penalty: float

    @classmethod
    def of(cls, submission: Any) -> _Marks:
        """Read nbgrader's SubmittedNotebook."""
        graded = {
            grade.name: _Mark(float(grade.score or 0.0), float(grade.max_score or 0.0),
                              bool(grade.needs_manual_grade) and grade.manual_score is None)
            for grade in submission.grades
        }  # fmt: skip
        comments = {one.name: one.comment for one in submission.comments if one.comment}
        return cls(graded, comments, float(submission.late_submission_penalty or 0.0))

    def sum_of(self, names: Sequence[str]) -> _Mark:
        found = [self.graded[name] for name in names if name in self.graded]
        return _Mark(
            sum(one.score for one in found), sum(one.points for one in found), any(one.waiting for one in found)
        )


class FeedbackWriter:
    """Makes pages; what is the same for all of a class is rendered once."""

    def __init__(self) -> None:
        from rooflab.reporting.cells import CellRenderer

        class Renderer(CellRenderer):
            def heading(self, text: str, level: int) -> str:
                """A heading without an anchor, so that all of a class may share it."""
                return f"<h{min(level + 1, 6)}>{text}</h{min(level + 1, 6)}>\n"

        self.renderer = Renderer("cell")
        self.renderer.title = "the notebook"
        self.room = 1.0  # the share of a page that may still be more than plain text
        self._markdown = functools.lru_cache(_KEPT)(self.renderer.markdown)
        self._code = functools.lru_cache(_KEPT)(self.renderer.code)

    def markdown(self, source: str) -> str:
        """A text; one that is long is hardly the same for others, and would only fill the memory."""
        return (self._markdown if len(source) <= _SHORT else self.renderer.markdown)(source)

    def code(self, source: str) -> str:
        """Code, in the same way."""
        return (self._code if len(source) <= _SHORT else self.renderer.code)(source)

    def page(self, notebook: str, lab: LabNotebook, submission: Any, failure: str = "") -> str:
        """Return a page.

        Args:
            notebook: a graded notebook, as JSON.
            lab: the instructor's notebook.
            submission: nbgrader's SubmittedNotebook, whose scores and comments are shown.
            failure: why nothing could be graded.
        """
        from nbformat.notebooknode import from_dict
        from nbformat.v4.rwbase import rejoin_lines

        marks, exercises = _Marks.of(submission), exercises_in(lab)
        cells = rejoin_lines(from_dict(json.loads(notebook))).cells
        self.room = 1.0 + sum(len(cell.released) / _MOST_TEXT for cell in lab.cells)
        self.renderer.figures.clear()  # of the page before
        title = _title(lab)
        below = "The lab as it was handed out" if failure else "Your notebook"
        for cell in cells[:1]:  # the page's own
            cell.source = cell.source.removeprefix(f"# {title}")
        body = [self.cell(cell, lab, marks, failed=bool(failure)) for cell in cells]
        sections = [
            _header(title, marks, submission.assignment, failure),
            f'<section id="points"><h2>Your points</h2>{_table(exercises, marks, failure)}</section>',
            f'<section class="notebook" id="notebook"><h2>{below}</h2>{"".join(body)}</section>',
        ]
        links = "".join(f'<li><a href="#{_anchor(one.name)}">{escape(one.title)}</a></li>' for one in exercises)
        contents = (
            '<nav aria-label="Contents"><p class="brand">Rooflab</p><ul><li><a href="#points">Your points</a></li>'
            f'<li><a href="#notebook">{below}</a><ol>{links}</ol></li></ul></nav>'
        )
        return re.sub(r"[\ud800-\udfff]", "?", document(f"{title}: feedback", contents, "\n".join(sections)))

    def cell(self, cell: Any, lab: LabNotebook, marks: _Marks, *, failed: bool) -> str:
        """Render a cell of the graded notebook."""
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        own = lab.cell(name) if name else None
        if own is not None and own.kind == "check":
            return self.check(cell, own, marks)
        shown = self.shown(cell, self.renderer.outputs(cell.get("outputs", [])))
        if own is None or own.kind not in ("solution", "written", "task"):
            return shown
        comment = marks.comments.get(name, "")
        said = f'<div class="comment" id="comment-{_anchor(name)}">{self.markdown(comment)}</div>' if comment else ""
        mark = marks.graded.get(name)
        worth = f" {_pill(mark)}" if mark else ""
        label = "Answer" if failed else "Your answer"
        return f'<div class="answer" id="{_anchor(name)}"><p class="label">{label}{worth}</p>{shown}{said}</div>'

    def check(self, cell: Any, own: LabCell, marks: _Marks) -> str:
        """A check, folded where it passed."""
        mark = marks.graded.get(own.name, _Mark(0.0, own.points, False))
        hidden = own.source != own.released
        passed = mark.score >= mark.points and not mark.waiting
        outputs = "" if hidden else self.renderer.outputs(_without_message(cell.get("outputs", [])))
        code = self.code(own.released) if own.released.strip() else ""
        inner = f"{code}{outputs}" or '<p class="note">The grader alone has it.</p>'
        what = "Hidden check" if hidden else "Check"
        return (
            f'<details class="check" id="{_anchor(own.name)}"{"" if passed or not code else " open"}><summary>{what} '
            f"<code>{escape(own.name)}</code> {_pill(mark)}</summary>{inner}</details>"
        )

    def shown(self, cell: Any, outputs: str) -> str:
        """A cell as the student wrote it."""
        self.room -= len(cell.source) / (_MOST_TEXT if cell.cell_type == "markdown" else _MOST_CODE)
        if self.room < 0:
            return f'<div class="cell"><pre tabindex="0">{escape(cell.source)}</pre>{outputs}</div>'
        if cell.cell_type == "markdown":
            attached = cell.get("attachments")
            return self.renderer.markdown(cell.source, attached) if attached else self.markdown(cell.source)
        code = self.code(cell.source) if cell.source.strip() else ""
        return f'<div class="cell">{code}{outputs}</div>' if code or outputs else ""


def _header(title: str, marks: _Marks, handed: Any, failure: str) -> str:
    waiting = sum(mark.points for mark in marks.graded.values() if mark.waiting)
    score = sum(mark.score for mark in marks.graded.values() if not mark.waiting)
    most = sum(mark.points for mark in marks.graded.values()) - waiting
    facts = [handed.student.id, *([_moment(handed.timestamp)] if handed.timestamp else [])]
    told = [f"<strong>{_points(max(0.0, score - marks.penalty))} of {_points(most)} points.</strong>"]
    if marks.penalty:
        told.append(f"{_points(marks.penalty)} of {_points(score)} were taken off because it was handed in late.")
    if waiting:
        told.append(f"A person has yet to look at answers worth {_points(waiting)} more.")
    if failure:
        told = ["<strong>Nothing could be graded.</strong>", "A person has to look." if waiting else ""]
    why = f'<p class="failure">{escape(failure)}</p>' if failure else ""
    return (
        f'<header id="overview"><h1>{escape(title)}</h1><p class="facts">{escape(" · ".join(facts))}</p>'
        f'<p class="total">{" ".join(told)}</p>{why}</header>'
    )


def _table(exercises: Sequence[Exercise], marks: _Marks, failure: str) -> str:
    rows = []
    for one in exercises:
        mark = marks.sum_of(one.checks or [one.name])
        link = Html(f'<a href="#{_anchor(one.name)}">{escape(one.title)}</a>')
        rows.append([link, Html(_pill(mark)), "" if failure else _cut(gist(marks.comments.get(one.name, "")))])
    return table(("exercise", "points", "what to look at"), rows).replace('class="scroll"', 'class="scroll words"', 1)


def _pill(mark: _Mark) -> str:
    if mark.waiting:
        return pill(f"waits ({_points(mark.points)})", good=False).replace("pill bad", "pill open")
    made = pill(f"{_points(mark.score)} of {_points(mark.points)}", mark.score >= mark.points)
    return made.replace("pill bad", "pill open") if 0 < mark.score < mark.points else made


def _without_message(outputs: Sequence[Any]) -> list[Any]:
    """The outputs of a check; the message of its error is told with the answer, and only the place is left."""
    kept = []
    for output in outputs:
        if output.output_type == "error":
            output = type(output)({**output, "traceback": output.traceback[:-1]})
            if not output.traceback:
                continue
        kept.append(output)
    return kept


def _title(lab: LabNotebook) -> str:
    for cell in lab.cells:
        if not cell.is_code and (heading := re.search(r"^#\s+(.+)$", cell.released, re.MULTILINE)):
            return heading[1].strip()
    return lab.name


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST - 3]}..."


def _anchor(name: str) -> str:
    return escape(re.sub(r"\s+", "-", name))


def _moment(stamp: datetime) -> str:
    return f"handed in {stamp.day} {stamp:%B %Y, %H:%M} UTC"


def _points(number: float) -> str:
    return f"{round(number, 2):g}"
