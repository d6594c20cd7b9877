"""The notebook of a graded submission, in the form that nbgrader's `autograded/` has.

Cells stand in the student's order. Checks, read-only cells and all marks are the instructor's; answers, and cells
without a mark, are the student's, with HTML that could run in the reader's browser made harmless.

>>> without_html("1 < 2, <b>bold</b>")
'1 < 2, <\\u2060b>bold<\\u2060/b>'
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import quote

from .lab import LabCell, LabNotebook
from .outcome import Outcome
from .plainnotebook import Cell

__all__ = ["graded_notebook", "without_html"]

# What opens a link or a formula, and something that looks alike: Markdown's parsers and nbconvert's filters look for
# the end of each one through all that follows, which takes hours where a text has nothing else.
_SLOW = {"[": "\uff3b", "\\begin": "\\ begin", "\\\\(": "\\\\ ("}
# The start of a block of code in another language than Python: of hundreds that could be named, some take for ever.
_OTHER_CODE = re.compile(r"(?i)(?<![`~])((?:`{3,}|~{3,})[^\S\n]*)(?!(?:python3?|py|text)\s)(?=[^\s`~][^\n`]*(?:\n|\Z))")
_MOST_MARKS, _MOST_EMPTY = 1000, 100
# All of a picture that was pasted; what only begins like one could be the name of another, given further below.
_PICTURE = r"""\[[^\[\]`<$\\]*\]\(\s*attached:picture-\d+(\s+("[^"]*"|'[^']*'))?\s*\)"""
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
    handed_out = {cell.released.strip() for cell in lab.cells if cell.kind == "text"}
    last = {cell.grade_id: place for place, cell in enumerate(cells) if cell.grade_id in known}
    made: list[dict[str, Any]] = []
    for place, cell in enumerate(cells):
        own = known.get(cell.grade_id)
        if own is None:
            made.append(_student(cell, outcome, place, handed_out))
        elif last[cell.grade_id] == place:
            made.append(_marked(own, cell, outcome, place))
    if not cells:  # nothing could be read: what was asked
        made += [_unanswered(own, outcome) for own in lab.cells]
    else:
        made += [_marked(own, None, outcome, -1) for name, own in known.items() if name not in last]
    for number, each in enumerate(made):
        each["id"] = f"cell-{number}"
    told = {"cells": made, "metadata": _KERNEL, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(told, ensure_ascii=False) + "\n"


def _marked(own: LabCell, cell: Cell | None, outcome: Outcome, place: int) -> dict[str, Any]:
    metadata = {key: value for key, value in (own.metadata or {}).items() if key in ("nbgrader", "tags", "deletable")}
    if own.kind == "check":
        outputs = list(outcome.checks[own.name].outputs) if own.name in outcome.checks else []
    else:
        outputs = list(outcome.outputs.get(str(place), ()))
    if cell is None or own.kind not in ("solution", "written", "task"):
        return _cell(own.cell_type, own.source, metadata, outputs)
    if own.is_code:
        return _cell(own.cell_type, cell.source, metadata, outputs)
    return _text(own.cell_type, cell, metadata)


def _unanswered(own: LabCell, outcome: Outcome) -> dict[str, Any]:
    return _marked(own, None, outcome, -1) if own.name else _cell(own.cell_type, own.released, {}, [])


def _student(cell: Cell, outcome: Outcome, place: int, handed_out: Collection[str]) -> dict[str, Any]:
    if cell.cell_type == "markdown" and cell.source.strip() in handed_out:
        return _cell(cell.cell_type, cell.source, {}, [])  # the instructor's own words, with their HTML
    if cell.cell_type == "code":
        return _cell(cell.cell_type, cell.source, {}, list(outcome.outputs.get(str(place), ())))
    return _text(cell.cell_type, cell, {})


def _text(kind: str, cell: Cell, metadata: dict[str, Any]) -> dict[str, Any]:
    """A text with the pictures that were pasted into it; what it names and does not have, nbconvert would stop at.

    Pictures get names of one word: others stand in texts with percent signs, by which nbconvert does not find them.
    """
    text, kept = cell.source, dict[str, dict[str, str]]()
    for name in sorted(cell.attachments, key=len, reverse=True):  # a name may begin with another one
        new = f"picture-{len(kept) + 1}"
        for old in (f"<attachment:{name}>", f"attachment:{quote(name)}", f"attachment:{name}"):
            if old in text:
                text, kept[new] = text.replace(old, f"attached:{new}"), cell.attachments[name]
    text = re.sub(r"attachment:(?=\S)", "no-attachment:", without_html(text))
    text = re.sub(
        r"attached:(picture-\d+)", lambda found: f"attachment:{found[1]}" if found[1] in kept else found[0], text
    )
    made = _cell(kind, text, metadata, [])
    return made | ({"attachments": kept} if kept else {})


def _colourable(code: str) -> str:
    """Code without what keeps those who colour it busy for hours: thousands of empty lines, or of named characters."""
    if code.count("\\N{") > _MOST_MARKS:
        code = code.replace("\\N{", "\\N {")
    kept, empty = list[str](), 0
    for line in code.split("\n"):
        empty = 0 if line.strip() else empty + 1
        if empty <= _MOST_EMPTY:
            kept.append(line)
    return "\n".join(kept)


def _cell(kind: str, source: str, metadata: dict[str, Any], outputs: list[dict[str, Any]]) -> dict[str, Any]:
    shown = _colourable(source) if kind == "code" else source
    made: dict[str, Any] = {"cell_type": kind, "metadata": metadata, "source": shown.splitlines(keepends=True)}
    if kind == "code":
        made |= {"execution_count": None, "outputs": outputs}
    return made


def without_html(text: str) -> str:
    """Return Markdown without HTML and without links that run code.

    What opens a tag is followed by a sign that is not seen, with which it opens none. An entity would do as well, but
    be shown as it is spelled where the text is code.

    >>> without_html("1 < 2, <b>bold</b>")
    '1 < 2, <\\u2060b>bold<\\u2060/b>'
    >>> without_html("[x](JavaScript:f()), [y](java&#115;cript:f())")
    '[x](JavaScript :f()), [y](javascript :f())'
    """
    for _ in range(10):  # or a link could be spelled in entities, and these in entities
        plain, text = text, re.sub(r"&(#\d+;?|#[xX][\da-fA-F]+;?|\w+;)", lambda found: html.unescape(found[0]), text)
        if text == plain:
            break
    else:  # nobody writes entities of entities of entities, but for this
        text = text.replace("&", "& ")
    text = re.sub(r"(?i)(javascript|vbscript)(\s*\\?:)", r"\1 \2", text)
    text = re.sub(r"(?i)\b(data|file)(?=\s*\\?:\s*(//|[a-z]+/))", r"\1 ", text)
    # What a formula links to may be put together by its own macros, where no word gives it away.
    text = re.sub(r"\\(?=(href|url|require|mmlToken|style|class|cssId)(?![A-Za-z]))", r"\\text", text)
    text = _OTHER_CODE.sub("\\1\u2060", _colourable(text))
    for mark, other in _SLOW.items():
        if text.count(mark) > _MOST_MARKS:
            text = text.replace(mark, other)
    # A picture of somewhere else would tell there who reads this, and could be any address of the course's own hub.
    text = re.sub(rf"(?<!!)!+(?=\[)(?!{_PICTURE})", "", text)
    return re.sub(r"<(?=[A-Za-z/!?])", "<\u2060", text)
