"""What does the book do on this machine, from the first measurement to the graded lab?

Find the device, measure its ceilings, run the first units and the first lab, grade the lab, leave one page.

>>> plan(Book(None))
([], [])
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .book import Book, Lab, Unit, UnknownUnit, open_book
from .classroom import Grading, grade_lab
from .execute import Execution, execute, require_runner
from .extras import require
from .files import OutputError, output_folder, require_space
from .progress import Progress, clock_time
from .runs import edition_path, environment, failures, grading_problems, outcome
from .stopping import exit_code, kill_tree, reason

__all__ = ["can_open_browser", "find_device_apart", "plan", "tour"]

UNITS, LABS = 2, 1


def plan(book: Book) -> tuple[list[Unit], list[Lab]]:
    """The units and the labs that the tour visits: the first ones."""
    return list(book.units[:UNITS]), list(book.labs[:LABS])


def tour(output: Path, *, fresh: bool = False, show: bool = True) -> int:
    """Do all of it; a step that fails is told in the report and does not stop the others.

    Args:
        output: the folder for the report and the executed notebooks.
        fresh: measure the ceilings again.
        show: open the report in a browser, where there is one.

    Returns:
        The exit code: 0 when all went well, 1 when something failed, 128 + n after signal n. The report is written
        anyway, as report-interrupted.html after a signal: what an earlier tour completed stays.

    Raises:
        MissingExtra, OutputError, UnknownUnit: it cannot even begin.
    """
    require_runner()
    require("lab", "nbconvert")
    book = open_book()
    if book.root is None:
        raise UnknownUnit("The tour needs the book: run it inside a clone of the Rooflab repository.")
    trip = _Trip(book, book.root, output_folder(output))
    require_space(trip.output)
    interrupted = False
    try:
        trip.go(fresh=fresh)
    except KeyboardInterrupt as error:
        interrupted = True
        trip.problems.append(str(error) or f"stopped by {reason()} before the end")
    report = trip.report("report-interrupted.html" if interrupted else "report.html")
    trip.print(report)
    if show and report is not None and not interrupted and can_open_browser():
        import webbrowser

        webbrowser.open(report.as_uri())
    return exit_code() if interrupted else 0 if trip.ok else 1


class _Trip:
    """What the tour has seen so far."""

    def __init__(self, book: Book, root: Path, output: Path) -> None:
        self.root, self.output = root, output
        self.units, self.labs = plan(book)
        self.device: dict[str, Any] | None = None
        self.executions: list[Execution] = []
        self.gradings: list[Grading] = []
        self.problems: list[str] = []
        self._start = time.monotonic()

    @property
    def ok(self) -> bool:
        ran = all(run.ok for run in self.executions) and all(grading.ok for grading in self.gradings)
        return ran and not self.problems

    def go(self, *, fresh: bool) -> None:
        if not self.units:
            self.problems.append("the book has no notebooks yet: run `make build`")
        self._try("the device", lambda: self._find_device(fresh))
        for unit in (*self.units, *self.labs):
            self._try(unit.id, partial(self._run, unit))
        for lab in self.labs:
            self._try(f"grading {lab.id}", partial(self._grade, lab))

    def _try(self, what: str, step: Callable[[], None]) -> None:
        """Take a step; what it cannot do is written down, and the tour goes on."""
        try:
            step()
        except (ImportError, OSError, ValueError, LookupError, RuntimeError) as error:
            if os.environ.get("ROOFLAB_DEBUG"):
                raise
            self.problems.append(f"{what}: {error}")

    def _find_device(self, fresh: bool) -> None:
        self.device = find_device_apart(fresh=fresh)

    def _run(self, unit: Unit) -> None:
        folder = self.output / unit.id.rpartition("/")[0]
        self.executions.append(execute(edition_path(unit), folder, environment=environment(unit)))

    def _grade(self, lab: Lab) -> None:
        self.gradings.append(grade_lab(self.root, lab))

    def report(self, name: str) -> Path | None:
        """Write the page under this name; None when it cannot be written, which leaves the summary on the terminal."""
        from .reporting import write_report

        try:
            return write_report(
                self.output / name,
                title="Rooflab tour",
                device=self.device,
                executions=self.executions,
                gradings=self.gradings,
                problems=self.problems,
                seconds=time.monotonic() - self._start,
            )
        except OutputError as error:
            self.problems.append(f"the report: {error}")
            return None

    def print(self, report: Path | None) -> None:
        """Print the table of runs and grades, what went wrong, and where the page is."""
        if self.executions or self.gradings:
            print(f"\n{outcome(self.executions, self.gradings)}")
        for line in (*self.problems, *failures(self.executions), *grading_problems(self.gradings)):
            print(line, file=sys.stderr)
        where = f"The report: {report}" if report else "There is no report."
        print(f"\n{clock_time(time.monotonic() - self._start)} in all. {where}")


def find_device_apart(*, fresh: bool = False, progress: bool = True) -> dict[str, Any]:
    """Describe the device as `devicecard.describe` does, but in a process of its own.

    What that process holds of an accelerator's memory is free again when the notebooks run.

    Raises:
        RuntimeError: the device could not be described; the message is the last line that the process wrote.
    """
    package = str(Path(__file__).resolve().parents[1])
    env = {
        **os.environ,
        "PYTHONUTF8": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")])),
    }
    bar = Progress("device and ceilings", 1, unit="step") if progress else None
    spool = partial(tempfile.TemporaryFile, "w+", encoding="utf-8", errors="replace")
    with spool() as out, spool() as errors:
        process = subprocess.Popen(
            _describe_command(fresh), env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=errors
        )
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
                if bar is not None:
                    bar.step(1)
        finally:
            if process.poll() is None:
                kill_tree(process)
        out.seek(0)
        errors.seek(0)
        found, said = out.read(), [line.strip() for line in errors if line.strip()]
    if bar is not None:
        bar.close("FAILED" if process.returncode else "found")
    for line in said:
        if line.startswith("Rooflab "):  # a read-only home, for example: for the reader, not for the log
            print(line, file=sys.stderr)
    if process.returncode:
        raise RuntimeError(
            said[-1].removeprefix("rooflab: ") if said else f"the process ended with exit code {process.returncode}"
        )
    described: dict[str, Any] = json.loads(found)
    return described


def _describe_command(fresh: bool) -> list[str]:
    return [sys.executable, "-m", "rooflab", "device", "--json", *(["--remeasure"] if fresh else [])]


def can_open_browser() -> bool:
    """Whether someone sits in front of this machine: a desktop, and neither CI nor a remote shell without one."""
    if os.environ.get("CI") or os.environ.get("SSH_CONNECTION"):
        return False
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
