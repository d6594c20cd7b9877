"""What comes of running several notebooks one after the other?

>>> print(summary([]))
unit | cells | time | peak memory | status
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .book import Book, Lab, Unit, UnknownUnit, find
from .execute import Execution, execute
from .progress import clock_time
from .tables import render_text

__all__ = ["edition_path", "failures", "record_units", "run_units", "summary", "summary_rows"]

HEADER = ("unit", "cells", "time", "peak memory", "status")

# Run in the unit's own kernel after its last cell, where the log of the run is.
_RECORD = """
from pathlib import Path
from rooflab import records
if not records.this_run():
    raise ValueError("the unit logged nothing: it has to call records.log or report")
records.save_record({unit!r}, records.this_run(), folder=Path({folder!r}))
"""


def resolve(book: Book, names: Sequence[str]) -> list[Unit]:
    """The units of these names, all of them checked before anything runs; a notebook may stand for itself.

    Raises:
        UnknownUnit: one of the names is none.
    """
    units = []
    for name in names:
        path = Path(name)
        inside = book.root is not None and path.absolute().is_relative_to(book.root)
        if path.suffix == ".ipynb" and path.is_file() and not inside:
            units.append(Unit(path.stem, path.stem, path=path))
        else:
            units.append(find(book, name))
    return units


def edition_path(unit: Unit, edition: str = "solution") -> Path:
    """The notebook of a unit; of a lab that of the edition ("solution" or "student").

    Raises:
        UnknownUnit: the lab has no such edition here.
    """
    path = unit.solution if isinstance(unit, Lab) and edition == "solution" else unit.path
    if path is None:
        raise UnknownUnit(f"{unit.id} has no {edition} edition here: build it with `make build`.")
    return path


def run_units(book: Book, names: Sequence[str], output: Path, *, edition: str = "solution") -> int:
    """Run units or labs and print what came of it; returns the exit code, 1 when one of them failed."""
    units = resolve(book, names)
    sources = [edition_path(unit, edition) for unit in units]
    executions: list[Execution] = []
    try:
        for unit, source in zip(units, sources, strict=True):
            executions.append(execute(source, output / unit.id.rpartition("/")[0]))
    finally:  # after Ctrl-C too: what has run is worth its line
        print(summary(executions))
        for line in failures(executions):
            print(line, file=sys.stderr)
    print(f"Executed notebooks: {output}")
    return 0 if all(execution.ok for execution in executions) else 1


def record_units(book: Book, names: Sequence[str], output: Path) -> int:
    """Run units and keep what each logged under records/; returns the exit code, 1 when one of them failed."""
    if book.root is None:
        raise UnknownUnit("Records are kept in a clone of the Rooflab repository: run this inside one.")
    units = resolve(book, names) if names else list(book.units)
    folder = book.root / "records"
    executions, lines = [], []
    for unit in units:
        begun = time.time()
        epilogue = _RECORD.format(unit=unit.id, folder=str(folder))
        execution = execute(edition_path(unit), output / unit.id.rpartition("/")[0], epilogue=epilogue)
        executions.append(execution)
        # The kernel knows its device and therefore the folder; the newest file of this name is its record.
        written = [p for p in folder.glob(f"*/{unit.name}.json") if p.stat().st_mtime >= begun - 1]
        if execution.ok and written:
            lines.append(f"recorded {os.path.relpath(max(written, key=lambda p: p.stat().st_mtime))}")
    print(summary(executions))
    print("\n".join(lines))
    for line in failures(executions):
        print(line, file=sys.stderr)
    return 0 if all(execution.ok for execution in executions) else 1


def summary_rows(executions: Sequence[Execution]) -> list[list[str]]:
    """One row for each run: name, cells, time, peak memory, status."""
    return [
        [
            run.name,
            f"{len(run.cell_seconds)} of {run.cells}",
            clock_time(run.seconds),
            f"{run.peak_memory_bytes / 1e9:.2f} GB" if run.peak_memory_bytes else "–",
            "ok" if run.ok else "FAILED",
        ]
        for run in executions
    ]


def summary(executions: Sequence[Execution]) -> str:
    """The table of all runs as text."""
    return render_text(HEADER, summary_rows(executions))


def failures(executions: Sequence[Execution]) -> list[str]:
    """One line for each failure: where, why, and where the partly executed notebook is."""
    return [f"FAILED {error}\n       executed so far: {run.path}" for run in executions for error in run.errors]
