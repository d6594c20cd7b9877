"""What does `rooflab course` take, and what does it say?

>>> parser = argparse.ArgumentParser()
>>> add_course_options(parser)
>>> parser.parse_args(["here", "--due", "lab1=2026-12-24T18:00"]).due
[('lab1', datetime.datetime(2026, 12, 24, 18, 0))]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from .course_dates import parse_due

if TYPE_CHECKING:
    from .course import Row

__all__ = ["add_course_options", "course"]

_EXPORTS = ("canvas", "moodle", "csv")


def add_course_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="the course folder; made where it is missing")
    make = parser.add_argument_group("make the course, or bring it up to date with the book")
    make.add_argument("--lab", action="append", default=[], metavar="LAB", help="one lab; repeatable (default: all)")
    make.add_argument(
        "--due", action="append", default=[], type=_due, metavar="LAB=DATE",
        help="when it is due, in UTC: 2026-12-24T18:00; or with +01:00, or with ' Europe/Berlin'; none takes it away",
    )  # fmt: skip
    make.add_argument("--id", dest="course_id", help="the course's name in the exchange (default: that of DIR)")
    make.add_argument("--exchange", metavar="DIR", help="the folder to hand out and in through (default: nbgrader's)")
    make.add_argument(
        "--private",
        type=Path,
        metavar="DIR",
        help="your own hidden checks and seeds (default: DIR/private; 'none' goes back to that)",
    )
    out = parser.add_argument_group("export grades; changes nothing in the course")
    out.add_argument("--export", choices=_EXPORTS, help="write grades for Canvas, for Moodle, or as a table")
    out.add_argument("--assignment", action="append", default=[], metavar="NAME", help="only this one; repeatable")
    out.add_argument("--to", type=Path, metavar="FILE", help="the file to write (default: grades-canvas.csv and so on)")
    out.add_argument(
        "--roster", type=Path, metavar="FILE", help="the gradebook that Canvas or Moodle exported: its ids"
    )


def _due(text: str) -> tuple[str, datetime | None]:
    name, sign, date = text.partition("=")
    if not (name and sign and date):
        raise argparse.ArgumentTypeError(f"expected LAB=DATE, such as lab1_timer=2026-12-24T18:00, found {text!r}")
    try:
        return name, None if date == "none" else parse_due(date)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def course(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code: 1 when an assignment had to stay as it was.

    Raises:
        MissingExtra, UnknownUnit, ValueError, OSError: one sentence says what to do.
    """
    making = options.lab or options.due or options.course_id or options.exchange is not None or options.private
    if options.export:
        if making:
            raise ValueError(
                "An export changes nothing: run `rooflab course` once to change the course, once to export."
            )
        return _export(options)
    if options.to or options.roster or options.assignment:
        raise ValueError("--to, --roster and --assignment belong to an export: add --export canvas, moodle or csv.")
    from ..book import open_book
    from .course import Order, make_course

    exchange = options.exchange and str(Path(options.exchange).expanduser().absolute())
    order = Order(tuple(options.lab), dict(options.due), options.course_id, exchange, options.private)
    rows = make_course(options.folder, open_book(), order)
    _show(rows, options.folder)
    return 1 if any(row.refusal for row in rows) else 0


def _export(options: argparse.Namespace) -> int:
    from ..extras import require
    from .course_export import export

    require("classroom", "nbgrader")
    to = options.to or options.folder / ("grades.csv" if options.export == "csv" else f"grades-{options.export}.csv")
    for line in export(options.folder, options.export, only=options.assignment, to=to, roster=options.roster):
        print(line)
    return 0


def _show(rows: Sequence[Row], folder: Path) -> None:
    """One line for each assignment and file, then what to do next."""
    cells = [("", "points", "due", "")]
    cells += [(row.name, "" if row.points is None else f"{row.points:g}", row.due, row.state) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    for name, points, due, state in cells:
        print(f"{name:<{widths[0]}}  {points:>{widths[1]}}  {due:<{widths[2]}}  {state}".rstrip())
    again = [
        row.name for row in rows if row.points is not None and row.state.startswith(("made", "updated", "student"))
    ]
    if again:
        print(
            f"\nHand out in {folder.resolve()}: nbgrader release_assignment {again[0]}"
            "   (--force when it was handed out before)"
        )
    for row in rows:
        if row.refusal:
            print(f"rooflab: {row.refusal}", file=sys.stderr)
