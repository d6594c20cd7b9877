"""How do nbgrader's own commands and Formgrader's buttons grade as `rooflab grade` does, in a sandbox?

In a course that `rooflab course` made, `nbgrader autograde` and `nbgrader generate_feedback`, and the buttons of
Formgrader that stand for them, run `rooflab grade`. nbgrader's own would run what students wrote with the instructor's
rights.

>>> arguments("lab1", "*", Path("/course"), ["--feedback"])
['grade', 'lab1', '--course', '/course', '--feedback']
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["arguments", "grade_with_rooflab"]


def arguments(assignment: str, student: str, course: Path, more: Sequence[str] = ()) -> list[str]:
    """Return what `rooflab` is called with; the student "*" stands for all, as in nbgrader."""
    one = [] if student == "*" else ["--student", student]
    return ["grade", assignment, "--course", str(course), *one, *more]


def grade_with_rooflab(course: Path) -> None:
    """Let nbgrader's converters in this process grade this course, and write its feedback, with `rooflab grade`."""
    from nbgrader.converters import Autograde, GenerateFeedback

    for kind, more in ((Autograde, ["--again"]), (GenerateFeedback, ["--feedback"])):
        kind.start = _replaced(kind.start, course, more)


def _replaced(theirs: Callable[[Any], None], course: Path, more: Sequence[str]) -> Callable[[Any], None]:
    def start(converter: Any) -> None:
        if Path(converter.coursedir.root).resolve() != course.resolve():
            return theirs(converter)
        force = converter.force or "--again" not in more
        return _run(converter, course, more if force else [])

    return start


def _run(converter: Any, course: Path, more: Sequence[str]) -> None:
    from nbgrader.converters.base import NbGraderException

    files = converter.coursedir
    package = str(Path(__file__).resolve().parents[2])
    search = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "rooflab", *arguments(files.assignment_id, files.student_id, course, more)]
    done = subprocess.run(
        command, cwd=course, env={**os.environ, "PYTHONPATH": search}, stdin=subprocess.DEVNULL, capture_output=True,
        encoding="utf-8", errors="replace", check=False,
    )  # fmt: skip
    for line in filter(str.strip, done.stdout.splitlines()):
        converter.log.info(line)
    if done.returncode:
        told = done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["it said nothing"]
        converter.log.error(told[-1])  # which the commands do not, of an exception of their own
        raise NbGraderException(told[-1])
