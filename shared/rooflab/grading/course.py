"""How does the book become the folder of an nbgrader course, and how does that folder keep up with the book?

Each lab is one assignment that bears its name. What students handed in and what they got is never touched: where the
book has changed so that grades would no longer mean what they meant, the assignment stays, and one sentence says why.

>>> changed = compare({"lab/f": None, "lab/f-check-1": 2.0}, {"lab/f": None, "lab/f-check-1": 3.0})
>>> changed
'the points of lab/f-check-1 are 3, and were 2'
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ..book import Book, Lab, UnknownUnit, find
from ..extras import require
from ..files import output_folder
from ..locks import alone_in
from .course_dates import in_words
from .course_files import Settings, Written, read_settings
from .course_gradebook import Assignment, read_assignments, set_due
from .course_private import Private, files_in, merge, read_private
from .course_release import release
from .coursefolder import open_course
from .gradebook import penalize_all

__all__ = ["Order", "Row", "compare", "make_course"]


@dataclass(frozen=True)
class Order:
    """What was asked for; None leaves things as they are. A due date of None takes the date away."""

    labs: tuple[str, ...] = ()
    due: Mapping[str, datetime | None] = field(default_factory=dict)
    course_id: str | None = None
    exchange: str | None = None
    private: Path | None = None


@dataclass(frozen=True)
class Row:
    """What became of one assignment, or of one file of the course; `refusal` says why it could not be brought up."""

    name: str
    state: str
    points: float | None = None
    due: str = ""
    refusal: str = ""


@dataclass(frozen=True)
class _Target:
    """An assignment as it should be: its instructor edition, and its marked cells as in `Assignment`."""

    name: str
    text: str
    cells: Mapping[str, float | None]


def make_course(folder: Path, book: Book, order: Order) -> list[Row]:
    """Make a course folder, or bring one up to date; returns what became of each part of it.

    Args:
        folder: of the course; made where it is missing.
        book: with the instructor editions of its labs.
        order: labs, dates and settings.

    Raises:
        MissingExtra: nbgrader is not installed.
        UnknownUnit: there is no book, or no such lab in it.
        ValueError: what was asked for cannot be done; nothing has been changed.
    """
    require("classroom", "nbgrader")
    if book.root is None:
        raise UnknownUnit("A course is made out of the book: run this inside a clone of the Rooflab repository.")
    new = not folder.exists()
    folder = output_folder(folder)
    if new:
        folder.chmod(0o700)  # solutions and grades are nobody else's, also where home folders are open to all
    with alone_in(folder) as alone:
        if not alone:
            raise ValueError(f"Another command is changing {folder}: wait until it has ended.")
        old = read_settings(folder)
        settings = _settle(old, order, folder, book.root)
        labs = _chosen(book, settings, order)
        private = _private(folder, settings, labs, book.root)
        targets = [_target(lab, private.get(lab.name, Private())) for lab in labs]
        there = read_assignments(folder)
        unknown = order.due.keys() - {target.name for target in targets} - there.keys()
        if unknown:
            raise ValueError(f"There is no assignment {sorted(unknown)[0]} to give a due date: check its name.")
        return _apply(folder, settings, targets, there, order)


def _settle(old: Settings | None, order: Order, folder: Path, root: Path) -> Settings:
    """The settings of before with what was asked for now."""
    if old is None and any(path.name != "private" and path.name[0] != "." for path in folder.iterdir()):
        raise ValueError(f"{folder} is no course that `rooflab course` made, and is not empty: give another folder.")
    if old is None:
        old = Settings(id=order.course_id or folder.name)
        if not old.id.strip() or {"/", "+", "*"} & set(old.id):
            raise ValueError(f"{old.id!r} is no id of a course: give a word such as perf101 with --id.")
    elif order.course_id not in (None, old.id):
        raise ValueError(f"This course is called {old.id}: make another folder for a course {order.course_id}.")
    if order.private is not None and not order.private.name:
        raise ValueError("--private wants a folder of its own, or none for the course's own private/.")
    taken_back = order.private == Path("none")
    private = order.private.expanduser().resolve() if order.private and not taken_back else None
    if private and not private.is_dir():
        raise ValueError(f"There is no folder {private}: make it, or correct --private.")
    if private and any(private.is_relative_to(place) for place in (root, folder / "source", folder / "release")):
        raise ValueError(f"{private} would be handed on with the book or the labs: keep private checks elsewhere.")
    return old.with_changes(
        labs=None if old.labs is None and (not order.labs or old.sources) else (*(old.labs or ()), *order.labs),
        exchange=order.exchange if order.exchange is not None else old.exchange,
        private=str(private) if private else "" if taken_back else old.private,
    )


def _chosen(book: Book, settings: Settings, order: Order) -> list[Lab]:
    labs: dict[str, Lab] = {}
    for name in (*(settings.labs or [lab.id for lab in book.labs]), *order.labs):
        unit = find(book, name)
        if not isinstance(unit, Lab):
            raise UnknownUnit(f"{name} is no lab: give one of {', '.join(lab.name for lab in book.labs)}.")
        if unit.solution is None:
            raise ValueError(f"{unit.id} lacks its instructor edition: build it with `make build`.")
        if labs.setdefault(unit.name, unit).id != unit.id:
            raise ValueError(f"{unit.id} and {labs[unit.name].id} would be one assignment: choose one with --lab.")
    if not labs:
        raise UnknownUnit("The book has no labs yet: run `make build`.")
    return list(labs.values())


def _private(folder: Path, settings: Settings, labs: list[Lab], root: Path) -> dict[str, Private]:
    place = Path(settings.private) if settings.private else folder / "private"
    if settings.private and not place.is_dir():
        raise ValueError(f"The folder of the private checks, {place}, is gone: bring it back, or give --private again.")
    if not place.is_dir():
        return {}
    files = files_in(place)
    if strangers := files.keys() - {lab.name for lab in labs}:
        raise ValueError(f"{files[sorted(strangers)[0]]} bears the name of no lab of this course: rename it.")
    return {name: read_private(path) for name, path in files.items()}


def _target(lab: Lab, private: Private) -> _Target:
    assert lab.solution is not None
    try:
        notebook = merge(json.loads(lab.solution.read_text(encoding="utf-8")), private)
        cells = {
            f"{lab.name}/{marks['grade_id']}": float(marks["points"]) if marks["grade"] or marks.get("task") else None
            for marks in _all_marks(notebook)
        }
    except (UnicodeDecodeError, json.JSONDecodeError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{lab.solution} is no instructor edition ({error!r}): build it with `make build`.") from error
    text = json.dumps(notebook, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    return _Target(lab.name, text, cells)


def _all_marks(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    found = [cell["metadata"].get("nbgrader", {}) for cell in notebook["cells"]]
    return [each for each in found if any(each.get(key) for key in ("grade", "solution", "locked", "task"))]


def compare(old: Mapping[str, float | None], new: Mapping[str, float | None]) -> str:
    """Say how the marked cells of an assignment differ, in part of a sentence; empty when they do not."""
    for cells, what in ((old.keys() - new.keys(), "is gone"), (new.keys() - old.keys(), "is new")):
        if cells:
            more = f", like {len(cells) - 1} more," if len(cells) > 1 else ""
            return f"{min(cells)}{more} {what}"
    for name, points in new.items():
        if points != old[name]:
            return f"the points of {name} are {points or 0:g}, and were {old[name] or 0:g}"
    return ""


def _refusal(target: _Target, known: Assignment | None, folder: Path) -> str:
    """Why an assignment has to stay as it is; empty when it can follow the book."""
    difference = compare(known.cells, target.cells) if known is not None and known.marks else ""
    if known is None or not difference:
        return ""
    return (
        f"{target.name} has grades of {len(known.marks)} students, and now {difference}: it stays as it was. End this "
        f"term with the lab as it is in {folder.name} (take back what is new in your private checks), and make a new "
        "course folder for the next term."
    )


def _apply(
    folder: Path, settings: Settings, targets: list[_Target], there: Mapping[str, Assignment], order: Order
) -> list[Row]:
    written = Written(folder, settings.sources)
    rows = [Row(name, state) for name, state in written.course_files(settings)]
    refusals = {target.name: why for target in targets if (why := _refusal(target, there.get(target.name), folder))}
    states = {
        target.name: "REFUSED: see below" if target.name in refusals
        else written.put(f"source/{target.name}/{target.name}.ipynb", target.text)
        for target in targets
    }  # fmt: skip
    stale = [
        name
        for name, state in states.items()
        if state in ("made", "updated")
        or (state == "unchanged" and (name not in there or name in settings.unreleased or not _released(folder, name)))
    ]
    written.save(settings, unreleased=stale)
    if stale:
        release(folder, stale)
        written.save(settings, unreleased=[])
    dated = {name: _set_due(folder, name, due, there.get(name)) for name, due in order.due.items()}
    now = read_assignments(folder)
    for name in (*states, *(other for other in now if other not in states)):
        state = states.get(name, "left: not in the book, or not chosen")
        if state == "unchanged" and name in stale:
            state = "student edition made again"
        told = [part for part in (state, dated.get(name, "")) if part not in ("", "unchanged")]
        rows.append(_row(name, "; ".join(told) or "unchanged", now, refusals.get(name, "")))
    return rows


def _set_due(folder: Path, name: str, due: datetime | None, before: Assignment | None) -> str:
    """Set a due date, and the penalties that follow from it; returns what has changed, if anything has."""
    set_due(folder, name, due)
    if before is not None and before.due == due:
        return ""
    moved = penalize_all(open_course(folder), name) if before is not None and before.marks else 0
    more = f", penalties changed: {moved} (write them with `rooflab grade {name} --feedback`)" if moved else ""
    return f"due date set{more}"


def _released(folder: Path, name: str) -> bool:
    return (folder / "release" / name / f"{name}.ipynb").is_file()


def _row(name: str, state: str, now: Mapping[str, Assignment], refusal: str = "") -> Row:
    found = now.get(name)
    return Row(name, state, found.points if found else None, in_words(found.due) if found else "", refusal)
