"""The notebook of a graded submission, in the form that nbgrader's `autograded/` has.

Cells stand in the student's order. Checks, read-only cells and all marks are the instructor's; answers, and cells
without a mark, are the student's, with HTML that could run in the reader's browser made harmless.

>>> without_html("1 < 2, <b>bold</b>")
'1 < 2, &lt;b>bold&lt;/b>'
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from typing import Any

from .lab import LabCell, LabNotebook
from .outcome import Outcome
from .plainnotebook import Cell

__all__ = ["graded_notebook", "without_html"]

_KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def graded_notebook(lab: LabNotebook, cells: Sequence[Cell], outcome: Outcome) -> str:
    """Return the notebook as JSON, of format 4.5.

    Args:
        lab: the instructor's notebook.
        cells: the submission's; empty where it could not be read.
        outcome: what came of it.
    """
    known = {cell.name: cell for cell in lab.cells if cell.name}
    last = {cell.grade_id: place for place, cell in enumerate(cells) if cell.grade_id in known}
    made: list[dict[str, Any]] = []
    for place, cell in enumerate(cells):
        own = known.get(cell.grade_id)
        if own is None:
            made.append(_student(cell, outcome, place))
        elif last[cell.grade_id] == place:
            made.append(_marked(own, cell, outcome, place))
    made += [_marked(own, None, outcome, -1) for name, own in known.items() if name not in last]
    for number, each in enumerate(made):
        each["id"] = f"cell-{number}"
    told = {"cells": made, "metadata": _KERNEL, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(told, ensure_ascii=False) + "\n"


def _marked(own: LabCell, cell: Cell | None, outcome: Outcome, place: int) -> dict[str, Any]:
    answered = own.kind in ("solution", "written", "task") and cell is not None
    source = own.source
    if cell is not None and answered:
        source = cell.source if own.is_code else without_html(cell.source)
    metadata = {key: value for key, value in (own.metadata or {}).items() if key in ("nbgrader", "tags", "deletable")}
    if own.kind == "check":
        outputs = list(outcome.checks[own.name].outputs) if own.name in outcome.checks else []
    else:
        outputs = list(outcome.outputs.get(str(place), ()))
    made = _cell(own.cell_type, source, metadata, outputs)
    return _with_pictures(made, cell) if cell is not None and answered and not own.is_code else made


def _student(cell: Cell, outcome: Outcome, place: int) -> dict[str, Any]:
    source = cell.source if cell.cell_type == "code" else without_html(cell.source)
    made = _cell(cell.cell_type, source, {}, list(outcome.outputs.get(str(place), ())))
    return _with_pictures(made, cell) if cell.cell_type == "markdown" else made


def _with_pictures(made: dict[str, Any], cell: Cell) -> dict[str, Any]:
    """A text with the pictures that were pasted into it; what it names and does not have, nbconvert would stop at."""
    kept = {name: kinds for name, kinds in cell.attachments.items() if f"attachment:{name}" in cell.source}
    text = re.sub(
        r"attachment:(?=([^)\s\"']*))", lambda m: m[0] if m[1] in kept else "no-attachment:", "".join(made["source"])
    )
    return made | {"source": text.splitlines(keepends=True)} | ({"attachments": kept} if kept else {})


def _cell(kind: str, source: str, metadata: dict[str, Any], outputs: list[dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {"cell_type": kind, "metadata": metadata, "source": source.splitlines(keepends=True)}
    if kind == "code":
        made |= {"execution_count": None, "outputs": outputs}
    return made


def without_html(text: str) -> str:
    """Return Markdown without HTML and without links that run code: what opens a tag becomes the sign that it is.

    >>> without_html("1 < 2, <b>bold</b>")
    '1 < 2, &lt;b>bold&lt;/b>'
    >>> without_html("[x](JavaScript:f()), [y](java&#115;cript:f())")
    '[x](JavaScript :f()), [y](javascript :f())'
    """
    for _ in range(10):  # or a link could be spelled in entities, and these in entities
        plain, text = text, re.sub(r"&(#\d+;?|#[xX][\da-fA-F]+;?|\w+;)", lambda found: html.unescape(found[0]), text)
        if text == plain:
            break
    text = re.sub(r"(?i)(javascript|vbscript)(\s*\\?:)", r"\1 \2", text)
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)
