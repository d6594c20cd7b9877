"""What of a submission is run, and where does each check stand?

The instructor's notebook is put together again: its checks and marks are the instructor's, and only the code that
students may write is the student's. What a file says of itself (tags, points, locks, outputs) is dropped.

* The *grader* runs the instructor's own cells and the checks.
* The *guest* (the student's process) runs the student's code cells in the student's order: answers, cells without a
  mark, and cells that were added. Read-only cells are the instructor's, demonstrations that nobody has changed are
  left out, and so are the checks, of which only the imports are run. A cell of the instructor's that was deleted is put
  back in front.

A check runs at its place in the submission, but not before the answers that precede it in the instructor's notebook.

>>> answer, check = LabCell("solution", "", "", "f", binds=("f",)), LabCell("check", "f(1)", "f(1)", "f-1", 1.0)
>>> told = LabNotebook("lab", (answer, check))
>>> plan = rebuild(told, [Cell("code", "f(1)", grade_id="f-1"), Cell("code", "def f(x): return x", grade_id="f")])
>>> [(step.kind, step.name) for step in plan.steps]
[('solution', 'f'), ('check', 'f-1')]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .lab import DEMO, LabCell, LabNotebook, import_lines
from .plainnotebook import Cell

__all__ = ["Plan", "Step", "rebuild"]


@dataclass(frozen=True)
class Step:
    """One thing to do: run a cell of the `guest`, or (kind "check") run the instructor's cells up to a check."""

    kind: str  # "setup", "locked", "solution", "extra", "imports" of the guest; "check" of the grader
    source: str
    name: str = ""
    index: int = -1  # of the student's cell, where it is one


@dataclass(frozen=True)
class Plan:
    """The steps of one submission, what was found in it, and what to tell."""

    steps: tuple[Step, ...]
    answers: dict[str, str]  # the source of each answer, code or text, by name
    remarks: tuple[str, ...] = ()  # for the student and the instructor
    lacking: tuple[str, ...] = ()  # names of marked cells that the submission does not have


def rebuild(lab: LabNotebook, cells: Sequence[Cell]) -> Plan:
    """Return what to run of a submission, in which order."""
    remarks: list[str] = []
    known = {cell.name: cell for cell in lab.cells if cell.name}
    places, copies = _places(known, cells)
    if copies:
        remarks.append(
            f"The cell {copies[0]!r} is there several times, as copied cells are; the last one is graded. Text to keep "
            "goes into a new cell."
        )
    lacking = tuple(name for name, cell in known.items() if name not in places and cell.kind in ("solution", "written"))
    if lacking:
        first = ", ".join(lacking[:3]) + ", ..." * (len(lacking) > 3)
        remarks.append(
            f"The file lacks {len(lacking)} answers ({first}): copy yours into a fresh copy of the lab, below their "
            "headings."
        )
    strangers = sorted({cell.grade_id for cell in cells if cell.grade_id and cell.grade_id not in known})
    if strangers:
        remarks.append(f"The lab does not know the mark {strangers[0][:60]!r}: the cell is run and not graded.")
    answered = [name for name in places if known[name].kind in ("solution", "written")]
    answers = {name: cells[places[name]].source for name in answered}
    steps = _guest_steps(lab, cells, places)
    return Plan(tuple(_with_checks(lab, steps, places)), answers, tuple(remarks), lacking)


def _places(known: dict[str, LabCell], cells: Sequence[Cell]) -> tuple[dict[str, int], list[str]]:
    """Where each marked cell is, the last of several; and those that are there several times."""
    places: dict[str, int] = {}
    copies: list[str] = []
    for place, cell in enumerate(cells):
        if cell.grade_id in known:
            if cell.grade_id in places:
                copies.append(cell.grade_id)
            places[cell.grade_id] = place
    return places, copies


def _guest_steps(lab: LabNotebook, cells: Sequence[Cell], places: dict[str, int]) -> list[Step]:
    known = {cell.name: cell for cell in lab.cells if cell.name}
    unmarked = [cell for cell in lab.cells if cell.kind == "setup"]
    demos = {cell.released.strip() for cell in lab.cells if cell.kind == DEMO}
    steps: list[Step] = []
    seen = {cell.source.strip() for cell in cells}
    # What the student deleted or changed is there all the same, before all else.
    steps += [Step("setup", own.released) for own in unmarked if own.released.strip() not in seen]
    missing = [cell for cell in lab.cells if cell.kind == "locked" and cell.name not in places]
    steps += [Step("locked", cell.source, cell.name) for cell in missing]
    for place, cell in enumerate(cells):
        own = known.get(cell.grade_id)
        if own is not None:
            if places[cell.grade_id] == place:
                steps += _marked(own, cell, place)
        elif cell.cell_type == "code" and cell.source.strip() and cell.source.strip() not in demos:
            steps.append(Step("extra", cell.source, index=place))
    return steps


def _marked(own: LabCell, cell: Cell, place: int) -> list[Step]:
    if own.kind == "solution":
        return [Step("solution", cell.source, own.name, place)]  # also where its type was changed
    if own.kind == "written" and own.is_code:
        return [Step("solution", cell.source, own.name, place)]
    if own.kind == "locked":
        return [Step("locked", own.source, own.name, place)]
    if own.kind == "check" and (imports := import_lines(own.released)):
        return [Step("imports", imports, own.name, place)]
    return []


def _with_checks(lab: LabNotebook, steps: list[Step], places: dict[str, int]) -> list[Step]:
    """Put each check where it stands in the submission, but behind the answers that precede it in the lab."""
    order = {cell.name: number for number, cell in enumerate(lab.cells) if cell.name}
    where = {step.name: number for number, step in enumerate(steps) if step.kind == "solution"}
    placed: dict[int, list[Step]] = {}
    for check in lab.checks:
        before = [where[name] for name in where if order[name] < order[check.name]]
        own = [n for n, step in enumerate(steps) if 0 <= step.index <= places.get(check.name, -1)]
        after = max([-1, *before, *own[-1:]])
        placed.setdefault(after, []).append(Step("check", check.source, check.name))
    done = list(placed.get(-1, []))
    for number, step in enumerate(steps):
        done += [step, *placed.get(number, [])]
    return done
