"""The command `rooflab grade`: what it is told, what it shows while it works, and what it leaves.

>>> import argparse
>>> parser = argparse.ArgumentParser(); add_grade_options(parser)
>>> parser.parse_args(["lab1_timer", "--jobs", "4"]).jobs
4
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rooflab.plaintext import terminal_width
from rooflab.progress import Progress, clock_time
from rooflab.stopping import reason
from rooflab.tables import render_text

if TYPE_CHECKING:
    from .gradingrun import GradingRun, StudentResult

__all__ = ["add_grade_options", "grade"]

_LEVELS = ("auto", "bubblewrap", "landlock", "none")


def add_grade_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab grade`."""
    parser.add_argument("assignment", help="a released assignment of the course, such as lab1_timer")
    parser.add_argument(
        "--course", type=Path, default=Path(), metavar="DIR", help="the course's folder (default: this one)"
    )
    parser.add_argument("--student", action="append", default=[], metavar="ID", help="only this one; may be repeated")
    parser.add_argument("--jobs", type=_number, metavar="N", help="submissions at a time (default: one for each core)")
    parser.add_argument(
        "--executor", default="local", metavar="WHERE", help="local (default), dask:ADDRESS, or slurm (through Dask)"
    )
    parser.add_argument(
        "--level", choices=_LEVELS[:-1], default="auto", help="of the sandbox (default: the best that works here)"
    )
    parser.add_argument(
        "--accelerator", action="store_true", help="let students' code use GPUs, one submission at a time on each"
    )
    parser.add_argument(
        "--unsafe", action="store_true", help="grade without a sandbox: student code can then do whatever you can"
    )
    parser.add_argument("--seed", metavar="TEXT", help="draw the numbers of hidden checks from this secret; it is kept")
    parser.add_argument("--new-seed", action="store_true", help="make a new secret; all are graded again with it")
    parser.add_argument("--again", action="store_true", help="grade all again, also those who are graded already")
    parser.add_argument(
        "--feedback",
        action="store_true",
        help="write feedback/ once more, after points were given by hand; runs nothing again",
    )
    parser.add_argument("--no-feedback", action="store_true", help="do not write feedback/")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a report on the class")


def grade(options: argparse.Namespace) -> int:
    """Grade an assignment; returns 0 when every submission was graded, else 1."""
    from .coursefolder import open_course
    from .grade import Options, grade_assignment
    from .settings import read_limits

    if options.html and options.html.is_dir():
        raise ValueError(f"{options.html} is a folder: give the report the name of a file, such as class.html.")
    course = open_course(options.course)
    limits = read_limits(course.root, options.assignment)
    jobs = options.jobs or os.cpu_count() or 1
    if options.accelerator:
        jobs = _gpu_jobs(options.executor, jobs)
    chosen = Options(
        jobs, options.executor, limits, "none" if options.unsafe else options.level, options.seed, options.new_seed,
        options.again, tuple(options.student), not options.no_feedback, options.feedback, options.accelerator,
    )  # fmt: skip
    bar: list[Progress] = []

    def told(done: int, total: int) -> None:
        if not bar:
            bar.append(Progress(f"grading {options.assignment}", total, unit="student"))
        bar[0].reach(done)

    try:
        run = grade_assignment(course, options.assignment, chosen, told=told, wait=lambda: bar[0].tick())
    except KeyboardInterrupt as error:
        if bar:
            bar[0].close("stopped")
        why = str(error) or f"Stopped by {reason()}."
        raise KeyboardInterrupt(f"{why} What was graded is kept: run the command again, and it goes on.") from None
    if bar:
        bar[0].close("graded")
    _tell(run, options)
    return 1 if any(_lost(result) for result in run.results) else 0


def _tell(run: GradingRun, options: argparse.Namespace) -> None:
    """Print what came of a run, and write the report."""
    number, fresh = len(run.results), len(run.fresh)
    print(_table(run.results))
    rate = f", {run.per_minute:.0f} a minute" if fresh else ""
    print(
        f"\n{number} student{'s' * (number != 1)}, {number - fresh} of them graded before, in "
        f"{clock_time(run.seconds)}{rate}. Sandbox: {run.level or 'not needed'}."
    )
    if waiting := sum(bool(result.waiting) for result in run.results):
        print(f"Of {waiting} of them something waits for a person: Formgrader, Manual Grading.")
    if options.feedback:
        print(f"The pages in feedback/ were written once more, for {number}.")
    if options.html:
        from .classreport import write_class_report

        write_class_report(options.html, run)
        print(f"Report on the class: {options.html}")
    if lost := [_printable(result.student) for result in run.results if _lost(result)]:
        print(f"Not graded, because the grader itself failed: {', '.join(lost)}. Run the command again.")


def _lost(result: StudentResult) -> bool:
    return bool(result.error) or any(outcome.lost for outcome in result.outcomes.values())


def _gpu_jobs(executor: str, jobs: int) -> int:
    """How many submissions at a time: what is timed on a GPU has it for itself."""
    from .gpus import visible_gpus

    if executor != "local":
        return jobs  # each worker looks for itself
    if not (found := visible_gpus()):
        raise ValueError(
            "There is no GPU on this machine: leave --accelerator out, and speed is graded by counting where the lab "
            "allows it."
        )
    return min(jobs, len(found))


def _table(results: Sequence[StudentResult]) -> str:
    rows = [
        [_printable(one.student), f"{one.score:g} of {one.points:g}", f"{one.waiting:g}" if one.waiting else "",
         f"{one.seconds:.1f} s", "before" if one.done_before else "now", _printable(one.remark)]
        for one in results
    ]  # fmt: skip
    return render_text(["student", "points", "waits", "time", "graded", "remark"], rows, width=terminal_width())


def _printable(text: str) -> str:
    """A student's text without what a terminal would obey, and without what it cannot show."""
    return "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.split()))


def _number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above zero, found {text!r}")
    return number
