"""Where are the submissions, the gradebook and the results of an nbgrader course?

The answers come from nbgrader itself, which reads the course's `nbgrader_config.py`; so every course that nbgrader can
grade is understood.

>>> try:
...     open_course(Path("/"))
... except ValueError as error:
...     print(str(error)[:60])
/ is no nbgrader course: it has no nbgrader_config.py. Chang
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflab.extras import require

from .lab import LabNotebook, read_lab

__all__ = ["CourseFolder", "open_course"]

_NOBODY = "nobody-has-this-name"  # stands where the students' names do


@dataclass
class CourseFolder:
    """An nbgrader course on disk; `app` is nbgrader's own application, with the course's configuration."""

    root: Path
    app: Any
    files: Any  # nbgrader's CourseDirectory

    def path(self, step: str, student: str, assignment: str) -> Path:
        """Return the folder of a student's assignment at a step: "source", "release", "submitted", "autograded", ..."""
        return Path(self.files.format_path(getattr(self.files, f"{step}_directory"), student, assignment))

    @property
    def db_url(self) -> str:
        """The gradebook, as SQLAlchemy names it."""
        return str(self.files.db_url)

    def assignments(self) -> list[str]:
        """Names of the assignments that were released."""
        with self.gradebook() as gradebook:
            return sorted(assignment.name for assignment in gradebook.assignments)

    def students(self, assignment: str) -> list[str]:
        """Who has handed in the assignment, whatever is in the folder."""
        above = self.path("submitted", _NOBODY, assignment)
        while _NOBODY in above.parts and above.name != _NOBODY:
            above = above.parent
        found = []
        for place in sorted(above.parent.iterdir()) if above.parent.is_dir() else ():
            folder = self.path("submitted", place.name, assignment)
            if (folder.is_dir() or folder.is_symlink()) and place.name[:1] != ".":
                found.append(place.name)
        return found

    @contextmanager
    def gradebook(self) -> Iterator[Any]:
        """Open nbgrader's gradebook."""
        from nbgrader.api import Gradebook

        with Gradebook(self.db_url, self.files.course_id) as gradebook:
            yield gradebook

    def labs(self, assignment: str) -> list[LabNotebook]:
        """Return the notebooks of an assignment, as the gradebook and the released files have them.

        Raises:
            ValueError: the assignment was not released, or its files do not fit the gradebook.
        """
        from nbgrader.api import MissingEntry

        with self.gradebook() as gradebook:
            try:
                entry = gradebook.find_assignment(assignment)
            except MissingEntry:
                known = ", ".join(sorted(one.name for one in gradebook.assignments)) or "none"
                raise ValueError(
                    f"The gradebook knows no assignment {assignment!r} (it knows: {known}). Enter it with "
                    f"`nbgrader generate_assignment {assignment}`."
                ) from None
            labs = []
            for notebook in entry.notebooks:
                points = {cell.name: float(cell.max_score) for cell in (*notebook.grade_cells, *notebook.task_cells)}
                marked = {cell.name: (cell.source, points.get(cell.name, 0.0)) for cell in notebook.source_cells}
                labs.append(self._lab(assignment, notebook.name, marked))
        return labs

    def _lab(self, assignment: str, name: str, marked: dict[str, tuple[str, float]]) -> LabNotebook:
        source = self.path("source", ".", assignment) / f"{name}.ipynb"
        released = self.path("release", ".", assignment) / f"{name}.ipynb"
        for path in (source, released):
            if not path.is_file():
                raise ValueError(
                    f"{path} is not there, and without it {name} cannot be graded: restore it, or run "
                    f"`nbgrader generate_assignment {assignment} --force`."
                )
        try:
            return read_lab(source, released, marked)
        except KeyError as error:
            raise ValueError(
                f"{released} has a cell {error} that the gradebook does not know: the two are of different releases. "
                f"Run `nbgrader generate_assignment {assignment} --force`."
            ) from None


@contextmanager
def _without(module: str) -> Iterator[None]:
    """Let an optional module be absent: jsonschema takes one that loads for a second, and that no notebook needs."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


def open_course(folder: Path) -> CourseFolder:
    """Open the nbgrader course in a folder.

    Raises:
        MissingExtra: nbgrader is not installed.
        ValueError: the folder holds no course, or its configuration cannot be used.
    """
    with _without("rfc3987_syntax"):
        require("classroom", "nbgrader")
    from nbgrader.apps import NbGrader
    from nbgrader.coursedir import CourseDirectory

    folder = folder.resolve()
    config = folder / "nbgrader_config.py"
    if not config.is_file():
        raise ValueError(
            f"{folder} is no nbgrader course: it has no nbgrader_config.py. Change to the course's folder, or name it "
            "with --course."
        )
    try:
        compile(config.read_bytes(), str(config), "exec")  # nbgrader would go on without it, and look in other folders
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{config} cannot be used ({error}): mend it first.") from error
    before, arguments = Path.cwd(), sys.argv
    os.chdir(folder)
    try:
        sys.argv = sys.argv[:1]
        app = NbGrader()
        app.initialize([])
        files = CourseDirectory(parent=app)
        if not Path(files.root).is_absolute():
            files.root = str(folder)
    finally:
        os.chdir(before)
        sys.argv = arguments
    app.log.setLevel("ERROR")
    return CourseFolder(folder, app, files)
