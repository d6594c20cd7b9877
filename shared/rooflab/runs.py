"""What comes of running several notebooks one after the other?

>>> print(summary([]))
unit | cells | time | peak memory | status
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .book import Book, Lab, Unit, UnknownUnit, find
from .classroom import Grade, Grading
from .execute import Execution, execute, require_runner
from .files import OutputError, output_folder, require_space
from .progress import clock_time
from .scratch import scratch_folder
from .tables import render_text

__all__ = [
    "edition_path",
    "environment",
    "failures",
    "grading_problems",
    "outcome",
    "record_units",
    "run_units",
    "summary",
    "summary_rows",
]

HEADER = ("unit", "cells", "time", "peak memory", "status")


def resolve(book: Book, names: Sequence[str]) -> list[Unit]:
    """The units of these names, each once and all checked before anything runs; a notebook's path means that notebook.

    Raises:
        UnknownUnit: one of the names is none.
    """
    found = [_at_path(book, Path(name)) if name.endswith(".ipynb") and Path(name).is_file() else _named(book, name)
             for name in names]  # fmt: skip
    return list(dict.fromkeys(found))


def _named(book: Book, name: str) -> Unit:
    try:
        return find(book, name)
    except UnknownUnit as error:
        if not name.endswith(".ipynb"):
            raise
        raise UnknownUnit(f"There is no notebook at the path {name}. {error}") from None


def _at_path(book: Book, path: Path) -> Unit:
    """The unit or lab whose notebook this is; any other notebook stands for itself."""
    path = path.resolve()
    for unit in (*book.units, *book.labs):
        if unit.path is not None and path == unit.path.resolve():
            return Unit(unit.id, unit.title, path=path) if isinstance(unit, Lab) else unit  # the student's edition
        if isinstance(unit, Lab) and unit.solution is not None and path == unit.solution.resolve():
            return unit
    return Unit(path.stem, path.stem, path=path)


def edition_path(unit: Unit, edition: str = "solution") -> Path:
    """The notebook of a unit; of a lab that of the edition ("solution" or "student").

    Raises:
        UnknownUnit: the lab has no such edition here.
    """
    path = unit.solution if isinstance(unit, Lab) and edition == "solution" else unit.path
    if path is None:
        raise UnknownUnit(f"{unit.id} has no {edition} edition here: build it with `make build`.")
    return path


def environment(unit: Unit, edition: str = "solution") -> dict[str, str]:
    """Variables for a unit's kernel: solutions that pass are no progress of the reader's.

    The checks note no progress while a grader runs, so one seems to run.
    """
    return {"NBGRADER_EXECUTION": "autograde"} if isinstance(unit, Lab) and edition == "solution" else {}


def run_units(book: Book, names: Sequence[str], output: Path, *, edition: str = "solution") -> int:
    """Run units or labs and print what came of it; returns the exit code, 1 when one of them failed."""
    units = resolve(book, names)
    sources = [edition_path(unit, edition) for unit in units]
    _refuse_one_name(units, sources)
    require_runner()
    output = output_folder(output)
    require_space(output)
    executions: list[Execution] = []
    try:
        for unit, source in zip(units, sources, strict=True):
            executions.append(execute(source, output / _subfolder(unit), environment=environment(unit, edition)))
    finally:  # after Ctrl-C too: what has run is worth its line
        if executions:
            print(summary(executions))
        for line in failures(executions):
            print(line, file=sys.stderr)
    print(f"Executed notebooks: {output}")
    return 0 if all(execution.ok for execution in executions) else 1


def _subfolder(unit: Unit) -> str:
    """Where below the output folder a unit's executed notebook lies; empty for any other notebook."""
    return unit.id.rpartition("/")[0]


def _refuse_one_name(units: Sequence[Unit], sources: Sequence[Path]) -> None:
    """Refuse two notebooks of which one would be written over the other."""
    seen: dict[tuple[str, str], Path] = {}
    for unit, source in zip(units, sources, strict=True):
        other = seen.setdefault((_subfolder(unit), source.name), source)
        if other != source:
            raise OutputError(f"{other} and {source} would both be written as {source.name} into one folder: "
                              "run them one after the other, each with an --output of its own.")  # fmt: skip


def record_units(book: Book, names: Sequence[str], output: Path) -> int:
    """Run units and keep what each logged under records/; returns the exit code, 1 when one of them failed."""
    if book.root is None:
        raise UnknownUnit("Records are kept in a clone of the Rooflab repository: run this inside one.")
    units = resolve(book, names) if names else list(book.units)
    _refuse_one_name(units, [edition_path(unit) for unit in units])
    require_runner()
    require_space(output_folder(output))
    executions: list[Execution] = []
    lines: list[str] = []
    for unit in units:
        run, line = _record(book.root, unit, output)
        executions.append(run)
        lines.append(line)
    print(summary(executions))
    for line in filter(None, lines):
        print(line)
    for failure in failures(executions):
        print(failure, file=sys.stderr)
    return 0 if all(lines) else 1


def _record(root: Path, unit: Unit, output: Path) -> tuple[Execution, str]:
    """Run one unit with a logbook of its own; returns the run, and the line to print (empty when nothing was kept)."""
    from .logbook import values_of
    from .records import save_record

    with scratch_folder("record") as folder:
        os.environ["ROOFLAB_LOGBOOK"] = str(folder / "logbook.jsonl")  # the kernel inherits it
        try:
            run = execute(edition_path(unit), output / _subfolder(unit))
            values = values_of(unit.id)
        finally:
            del os.environ["ROOFLAB_LOGBOOK"]
    if not run.ok:
        return run, ""
    if not values:
        print(f"{unit.id} logged nothing: it has to call open_unit, and report or logbook.log.", file=sys.stderr)
        return run, ""
    path = save_record(unit.id, values, folder=root / "records")
    return run, f"recorded {path.relative_to(root)}: {len(values)} values"


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


def outcome(executions: Sequence[Execution], gradings: Sequence[Grading]) -> str:
    """The table of all runs and grades as text: notebook, result, time."""
    rows = [("notebook", "result", "time")]
    for run in executions:
        ran = f"{'all' if run.ok else f'{len(run.cell_seconds)} of'} {run.cells} cells ran"
        rows.append((run.name, ran if run.ok else f"FAILED: {ran}", clock_time(run.seconds)))
    for grading in gradings:
        name = grading.lab.rpartition("/")[2]
        if grading.error:
            rows.append((f"{name}, graded", "FAILED: no grade", clock_time(grading.seconds)))
            continue
        told = "" if grading.ok else "FAILED: "
        rows.append((f"{name}, untouched", f"{told}{_points(grading.blank)} graded by nbgrader", ""))
        by_hand = f"; {grading.solved.by_hand:g} more for the written answer are given by hand"
        solved = f"{told}{_points(grading.solved)} graded by nbgrader{by_hand if grading.solved.by_hand else ''}"
        rows.append((f"{name}, solved", solved, clock_time(grading.seconds)))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>5}".rstrip() for row in rows)


def _points(grade: Grade) -> str:
    return f"{grade.score:g} of {grade.points:g} points"


def failures(executions: Sequence[Execution]) -> list[str]:
    """One line for each failure: where, why, and where the partly executed notebook is."""
    return [f"FAILED {error}\n       executed so far: {run.path}" for run in executions for error in run.errors]


def grading_problems(gradings: Sequence[Grading]) -> list[str]:
    """One sentence for each lab whose untouched edition got points, or whose solved edition did not get all."""
    told = []
    for grading in gradings:
        if grading.error:
            told.append(f"{grading.lab}: {grading.error}")
        elif not grading.ok:
            told.append(
                f"{grading.lab}: untouched {grading.blank.score:g} points (expected 0), "
                f"solved {grading.solved.score:g} (expected {grading.solved.points:g})"
            )
    return told
