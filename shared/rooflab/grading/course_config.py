"""How is nbgrader set up, in the book itself and in a course that was made out of it?

The ``nbgrader_config.py`` of both calls `configure`, so that there is one way to make a student edition and one way to
treat a submission.

>>> from traitlets.config import Config
>>> c = Config()
>>> configure(c, Path("course"), course_id="perf101")
>>> c.CourseDirectory.course_id, c.ClearSolutions.text_stub
('perf101', 'YOUR ANSWER HERE')
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from shutil import which
from typing import Any

__all__ = ["SETTINGS", "configure", "configure_course", "name_strangers"]

SETTINGS = "course.json"  # in a course folder: what `rooflab course` was told, and what it wrote


def configure(
    c: Any, root: Path, *, course_id: str, source: str = "source", release: str = "release", exchange: str = ""
) -> None:
    """Fill the configuration of nbgrader.

    Args:
        c: what ``get_config()`` returned.
        root: the course folder, absolute.
        course_id: the name of the course in the exchange.
        source: the folder of the instructor editions.
        release: the folder of the student editions.
        exchange: the folder through which assignments are handed out and in; empty leaves nbgrader's own default.
    """
    from nbconvert.preprocessors import TagRemovePreprocessor
    from nbgrader.converters import Autograde, GenerateAssignment
    from nbgrader.preprocessors import DeduplicateIds

    from .course_marks import DropPrivate, KnownMarks, LastOfTwins, name_copies

    c.CourseDirectory.course_id = course_id
    c.CourseDirectory.root = str(root)
    c.CourseDirectory.db_url = f"sqlite:///{root / 'gradebook.db'}"
    c.CourseDirectory.source_directory = source
    c.CourseDirectory.release_directory = release
    # nbgrader copies every other file of the source folder to the students: scripts there hold the solutions.
    c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "*.py"]
    if exchange:
        c.Exchange.root = exchange

    # Model answers and rubrics leave first, before anything is recorded in the gradebook.
    first = [TagRemovePreprocessor, DropPrivate]
    c.GenerateAssignment.preprocessors = [*first, *GenerateAssignment.preprocessors.default()]
    c.TagRemovePreprocessor.enabled = True
    c.TagRemovePreprocessor.remove_cell_tags = {"solution"}
    c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError()"}
    c.ClearSolutions.text_stub = "YOUR ANSWER HERE"

    name_copies()
    c.Autograde.sanitize_preprocessors = []
    for each in Autograde.sanitize_preprocessors.default():
        c.Autograde.sanitize_preprocessors += [LastOfTwins, KnownMarks] if each is DeduplicateIds else [each]
    c.Autograde.pre_convert_hook = partial(name_strangers, root, release)

    # A first torch.compile takes 10 s on a quiet machine; 30 s, nbgrader's default, is too near on a busy one.
    c.Execute.timeout = 120
    c.Execute.startup_timeout = 120
    # Cells that only show something need not be run for every student; without them a lab is graded several times
    # as fast.
    c.Execute.skip_cells_with_tag = "demo"

    # nbgrader calls alembic by its name alone, which is not on the path of a .venv that nobody activated.
    if which("alembic") is None:
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def configure_course(c: Any, root: Path) -> None:
    """Fill the configuration of a course that ``rooflab course`` made, as its ``course.json`` says.

    Whoever asks nbgrader, or Formgrader, to grade there gets `rooflab grade`.
    """
    from .course_commands import grade_with_rooflab

    settings = json.loads((root / SETTINGS).read_text(encoding="utf-8"))
    configure(c, root, course_id=settings["id"], exchange=settings["exchange"])
    grade_with_rooflab(root)


def name_strangers(root: Path, release: str, assignment: str, student: str, notebooks: list[str]) -> None:
    """Say which files of a submission have a name that no notebook of the assignment has; nbgrader passes them over."""
    from traitlets.log import get_logger

    known = sorted(path.name for path in (root / release / assignment).glob("*.ipynb"))
    for path in map(Path, notebooks):
        if known and path.name not in known:
            place = path.relative_to(root) if path.is_relative_to(root) else path
            get_logger().warning(
                f"{place} is not graded, because no notebook of {assignment} has this name: "
                f"rename it to {' or '.join(known)}, then autograde again."
            )
