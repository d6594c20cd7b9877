"""What does a student's own copy of a lab check, without the instructor's files?

The visible checks in it are run as they are; those that only the grader has are known by their points alone.

>>> answer = Cell("code", "def f(x): return x", grade_id="f", marks={"solution": True})
>>> check = Cell("code", "assert f(1) == 1", grade_id="f-1", marks={"grade": True, "points": 2})
>>> own_lab("lab", [answer, check]).cells[0].binds
('f',)
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from .lab import LabCell, LabNotebook, bound_names, import_lines, kind_of, names_in, python_of
from .plainnotebook import Cell

__all__ = ["is_visible", "own_lab"]

_MOST_POINTS = 10_000


def own_lab(name: str, cells: Sequence[Cell]) -> LabNotebook:
    """Take a lab from a student's notebook; of cells with the same mark the last one counts, as in grading.

    Raises:
        ValueError: it has no check.
    """
    last = {cell.grade_id: place for place, cell in enumerate(cells) if cell.grade_id}
    made = []
    for place, cell in enumerate(cells):
        if cell.grade_id and last[cell.grade_id] != place:
            continue
        kind, points = kind_of(cell), cell.marks.get("points")
        binds = tuple(bound_names(cell.source)) if kind == "solution" else ()
        # A file may say anything: nothing below zero, no infinity, and no number that is none.
        worth = float(points) if isinstance(points, int | float) and 0 <= points <= _MOST_POINTS else 0.0
        imports = import_lines(cell.source) if kind == "solution" else ""
        released = "" if kind == "solution" and not _raises(cell.source) else cell.source
        made.append(
            LabCell(kind, cell.source, released, cell.grade_id, worth, binds, imports, cell.cell_type, cell.metadata)
        )
    lab = LabNotebook(name, tuple(_without_own(made)))
    if not lab.checks:
        raise ValueError(f"{name} has no check, so there is nothing to run: is it a lab, or the copy of one?")
    return lab


def is_visible(check: LabCell) -> bool:
    """Whether a check has code, which those that only the grader has do not have."""
    try:
        return bool(ast.parse(python_of(check.source)).body)
    except (SyntaxError, ValueError):
        return True


def _without_own(cells: Sequence[LabCell]) -> list[LabCell]:
    """Mark as the student's the cells without a mark that no check needs: they run once, where the answers do."""
    needed = {name for cell in cells if cell.kind in ("check", "locked") for name in names_in(cell.source)}
    found = []
    for cell in reversed(cells):
        if cell.kind == "setup":
            names = bound_names(cell.source)
            if needed.isdisjoint(names) and "import *" not in cell.source:
                cell = replace(cell, kind="own")
            else:
                needed |= names_in(cell.source)
        found.append(cell)
    return found[::-1]


def _raises(source: str) -> bool:
    """Whether a cell raises outright, as nbgrader's does where no answer has been written."""
    try:
        return any(isinstance(part, ast.Raise) for part in ast.parse(python_of(source)).body)
    except (SyntaxError, ValueError):
        return False
