"""How does the map of the book look in a notebook and on a terminal?

>>> from .book import Book
>>> print(render_text(Book(None), {}))
The book is not here: this notebook was opened outside a clone of the Rooflab repository, so only the device is shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from .book import Book, Exercise, Lab, Unit
from .display import escape

__all__ = ["passed", "render_html", "render_text"]

NO_BOOK = (
    "The book is not here: this notebook was opened outside a clone of the Rooflab repository, "
    "so only the device is shown."
)
Progress = Mapping[str, Mapping[str, str]]

_BAR = 20
_CELL = "padding:.45em 1em .45em 0;border-bottom:1px solid rgba(128,128,128,.25);text-align:left;vertical-align:top;"
_QUIET = "opacity:.75;font-size:92%;"


def passed(lab: Lab, done: Progress) -> list[Exercise]:
    """The exercises of the lab whose visible checks have passed on this machine."""
    noted = done.get(lab.id) or done.get(lab.name) or {}
    return [exercise for exercise in _checked(lab) if exercise.name in noted]


def _checked(lab: Lab) -> list[Exercise]:
    return [exercise for exercise in lab.exercises if not exercise.written]


def render_text(book: Book, done: Progress) -> str:
    """The map as lines of text."""
    if book.root is None:
        return NO_BOOK
    width = max((len(unit.id) for unit in (*book.units, *book.labs)), default=0)
    lines = []
    for series in book.series:
        lines += ["", series.title]
        lines += [f"  {unit.id:<{width}}  {unit.title}{_in_words(unit)}" for unit in series.units]
        for lab in series.labs:
            n, m = len(passed(lab, done)), len(_checked(lab))
            bar = ("#" * (_BAR * n // m)).ljust(_BAR, ".") if m else ""
            lines.append(f"  {lab.id:<{width}}  {lab.title}, {lab.points:g} points{_in_words(lab)}  [{bar}] {n} of {m}")
    return "\n".join(lines).strip() or "The book has no units yet: run `make build`."


def _in_words(unit: Unit) -> str:
    return f" ({unit.duration})" if unit.duration else ""


def render_html(book: Book, done: Progress, *, base: Path) -> str:
    """The map as one table; links are relative to the folder `base`, that of the notebook that shows it."""
    if book.root is None:
        return f"<p>{escape(NO_BOOK)}</p>"
    rows = []
    for series in book.series:
        rows.append(
            f'<tr><th colspan="2" scope="colgroup" style="{_CELL}padding-top:1.1em;font-size:108%">'
            f"{escape(series.title)}</th></tr>"
        )
        rows += [
            _row(_link(unit, base), f'<span style="{_QUIET}">{escape(unit.question)}</span>') for unit in series.units
        ]
        rows += [_row(_link(lab, base), _lab_progress(lab, done)) for lab in series.labs]
    return (
        '<table class="rooflab-map" style="border-collapse:collapse;width:100%;max-width:60em">'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _row(left: str, right: str) -> str:
    return f'<tr><td style="{_CELL}">{left}</td><td style="{_CELL}">{right}</td></tr>'


def _link(unit: Unit, base: Path) -> str:
    kind = "Lab " if isinstance(unit, Lab) else ""
    number = unit.name.partition("_")[0].lstrip("ulab")
    title = re.sub(r"^Lab( \d+)?: ", "", unit.title)
    label = f"{kind}{number} · {escape(title)}"
    if unit.path is not None:
        label = f'<a href="{quote(Path(os.path.relpath(unit.path, base)).as_posix())}">{label}</a>'
    duration = f'<br><span style="{_QUIET}">{escape(unit.duration)}</span>' if unit.duration else ""
    return label + duration


def _lab_progress(lab: Lab, done: Progress) -> str:
    checked = _checked(lab)
    n, m = len(passed(lab, done)), len(checked)
    text = f"{n} of {m} exercises passed, {lab.points:g} points in all"
    share = 100 * n / m if m else 0
    shape = "border-radius:4px;height:8px;"
    bar = (
        f'<div style="{shape}background:rgba(128,128,128,.25);max-width:18em;margin:.35em 0">'
        f'<div style="{shape}background:#0072B2;width:{share:.0f}%"></div></div>'
    )
    return f'<div role="img" aria-label="{text}">{bar}</div><span style="{_QUIET}">{text}</span>'
