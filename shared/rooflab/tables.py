"""How do numbers stand side by side?

Rows are named; columns are attributes or keys, and their names say the unit: a column called ``median_s`` is formatted
in seconds and headed "median".

>>> table({"copy": {"median_s": 0.00234, "bytes": 2.0e9}}, columns=["median_s", "bytes"])
     |  median | bytes
copy | 2.34 ms |  2 GB
"""

from __future__ import annotations

import itertools
import math
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from .display import escape, say_disturbed, show_text
from .samples import Measurement
from .units import format_si

__all__ = ["cell", "heading", "render_html", "render_text", "table"]

# suffix of a column's name -> unit; the longest match wins.
_UNITS = {
    "flops_per_s": "FLOP/s", "bytes_per_s": "B/s", "_s": "s", "bytes": "B", "flops": "FLOP", "intensity": "FLOP/byte",
    "ridge": "FLOP/byte", "bytes_moved": "B", "bytes_read": "B", "bytes_written": "B", "bytes_used": "B",
}  # fmt: skip
_BITS = 1000  # of a whole number that is written in full
_WORDS = {"flops_per_s": "rate", "bytes_per_s": "bandwidth", "flops": "FLOPs"}


def _unit(column: str) -> str:
    matches = [suffix for suffix in _UNITS if column.endswith(suffix)]
    return _UNITS[max(matches, key=len)] if matches else ""


def heading(column: str) -> str:
    """A column's name as the reader sees it: ``copy_bytes_per_s`` becomes "copy bandwidth"."""
    for suffix, word in _WORDS.items():
        if column.endswith(suffix):
            return f"{column[: -len(suffix)].replace('_', ' ')}{word}".strip()
    return column.removesuffix("_s").replace("_", " ")


def cell(column: str, value: Any) -> str:
    """One value as text, in the unit that the column's name says."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()  # a scalar of NumPy, torch or JAX
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)) or (hasattr(value, "__float__") and not getattr(value, "ndim", 0)):
        unit = _unit(column)
        if isinstance(value, int) and not unit and value.bit_length() < _BITS:
            return f"{value:,}"
        return format_si(value, unit)
    return " ".join(str(value).split())


def _get(name: str, row: Any, column: str) -> Any:
    if isinstance(row, Mapping):
        return row.get(column)
    if not hasattr(type(row), column) and not hasattr(row, column):
        raise AttributeError(f"expected rows that have {column!r}; {name!r} is a {type(row).__name__}, which has none")
    return getattr(row, column)


def render_text(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None, wrap: bool = False
) -> str:
    """A plain table: first column left, the others right-aligned; a header of empty texts is left out.

    Args:
        header: names of the columns.
        rows: as many texts each.
        width: of the terminal; the last column then holds words, on the left, and is cut to fit.
        wrap: what does not fit goes on in the next line, and nothing is cut.
    """
    lines = [list(header)] * any(header) + [list(row) for row in rows]
    widths = [max((_width(line[i]) for line in lines), default=0) for i in range(len(header))]
    left = {0, len(header) - 1} if width is not None else {0}
    room = max(14, (width or 0) - sum(widths[:-1]) - 3 * (len(widths) - 1))
    shown = []
    for line in lines:
        parts = [
            _padded(text, wide, left=i in left or not any(header))
            for i, (text, wide) in enumerate(zip(line, widths, strict=True))
        ]
        more: list[str] = []
        if width is not None and wrap:
            parts[-1], *more = textwrap.wrap(line[-1], room) or [""]
        elif width is not None:
            parts[-1] = _cut(line[-1], room)
        shown.append(" | ".join(parts).rstrip())
        shown += [" | ".join([*(" " * wide for wide in widths[:-1]), text]) for text in more]
    return "\n".join(shown)


def _width(text: str) -> int:
    """How many columns of a terminal a text takes: letters of East Asia take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _padded(text: str, width: int, *, left: bool) -> str:
    space = " " * (width - _width(text))
    return text + space if left else space + text


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    ends = itertools.accumulate(map(_width, text))  # one look at each character: a text may be a book
    return f"{text[: sum(1 for _ in itertools.takewhile(lambda end: end <= width - 3, ends))]}..."


def render_html(header: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> str:
    """The same table in HTML, with its own few styles so that it looks alike everywhere."""
    side = "right" if any(header) else "left"
    style = "padding:.25em .8em;border-bottom:1px solid rgba(128,128,128,.35);"
    head = "".join(
        f'<th scope="col" style="{style}text-align:{"left" if i == 0 else "right"}">{escape(text)}</th>'
        for i, text in enumerate(header)
    )
    head = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
    body = "".join(
        "<tr>" + f'<th scope="row" style="{style}text-align:left;font-weight:600">{escape(row[0])}</th>'
        + "".join(f'<td style="{style}text-align:{side}">{escape(text)}</td>' for text in row[1:]) + "</tr>"
        for row in rows
    )  # fmt: skip
    title = (
        f'<caption style="caption-side:top;text-align:left;padding:.2em 0">{escape(caption)}</caption>'
        if caption
        else ""
    )
    return ('<table class="rooflab" style="border-collapse:collapse;margin:.5em 0;font-variant-numeric:tabular-nums">'
            f"{title}{head}<tbody>{body}</tbody></table>")  # fmt: skip


def table(rows: Mapping[str, Any], *, columns: Sequence[str], caption: str = "") -> None:
    """Show a table.

    Args:
        rows: name to an object or mapping that has the columns.
        columns: attribute or key names; their suffix says the unit. A key that a mapping lacks is a gap.
        caption: one line above it.

    Raises:
        AttributeError: an object lacks a column.
        TypeError: these are no named rows, or no names of columns.
    """
    if not isinstance(rows, Mapping):
        raise TypeError(f"expected rows as name and values, as in {{'copy': {{'median_s': 1e-3}}}}; "
                        f"found a {type(rows).__name__}")  # fmt: skip
    if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
        raise TypeError(f"expected names of columns in a list, as in ['median_s', 'bytes']; found {columns!r}")
    header = ["", *map(heading, columns)]
    body = [[str(name), *(cell(column, _get(name, row, column)) for column in columns)] for name, row in rows.items()]
    text = render_text(header, body)
    show_text(f"{caption}\n{text}" if caption else text, html=render_html(header, body, caption=caption))
    say_disturbed(row for row in rows.values() if isinstance(row, Measurement))
