"""Does nbgrader give the untouched lab nothing and the solved lab everything?

Both are handed in to a course in a temporary folder and graded by nbgrader itself, as a class would be. The untouched
lab is the one that nbgrader makes of the solution there: what a reader has written into ``labs/`` takes no part.

>>> checked, written = ExerciseScore("middle", "The middle", 5, 5), ExerciseScore("why", "Why", 0, 4, written=True)
>>> full = Grade("solved", (checked, written))
>>> full.score, full.points, full.by_hand
(5, 5, 4)
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from .book import Exercise, Lab
from .execute import read_notebook
from .extras import require
from .progress import Progress
from .scratch import scratch_folder
from .stopping import kill_tree

__all__ = ["ExerciseScore", "Grade", "Grading", "grade_lab"]

_TIMEOUT_S = 300.0
_BLANK, _SOLVED = "blank", "solved"

# What `nbgrader generate_assignment` and `nbgrader autograde` do, in one process: its imports alone take two seconds.
_DRIVER = """
import os, shutil, sys, threading
# The pipe closes when the one who asked has ended, also by SIGKILL; kernels watch their parent by themselves.
threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()

from nbclient.exceptions import DeadKernelError
from nbgrader.apps import NbGrader, NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import Execute
from traitlets.config.loader import PyFileConfigLoader

series, blank, solved = sys.argv[1:]
try:  # nbgrader would go on without it
    config = PyFileConfigLoader("nbgrader_config.py", path=".").load_config()
    folders = config.CourseDirectory.get("source_directory"), config.CourseDirectory.get("release_directory")
    wrong = "" if folders == ("solutions", "labs") else "it makes no course of solutions/ and labs/"
except BaseException as error:
    wrong = f"{type(error).__name__}: {error}"
if wrong:
    sys.exit(f"reason: nbgrader_config.py cannot be used ({wrong}): restore it, with git for example")

preprocess_cell = Execute.preprocess_cell
def named(self, cell, resources, index):
    try:
        return preprocess_cell(self, cell, resources, index)
    except DeadKernelError:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", cell.get("id", ""))
        why = "it was killed, as for lack of memory, or the cell ended it"
        print(f"reason: the kernel died in cell {index + 1} ({name!r}): {why}", flush=True)
        raise
Execute.preprocess_cell = named

app = NbGrader()
app.initialize([])  # reads the course's nbgrader_config.py
nbgrader = NbGraderAPI(CourseDirectory(parent=app), parent=app)
steps = [lambda: nbgrader.generate_assignment(series)]
steps += [lambda student=student: nbgrader.autograde(series, student) for student in (blank, solved)]
for number, step in enumerate(steps, 1):
    print(f"step {number}", flush=True)
    result = step()
    print(result["log"], result.get("error", ""), flush=True)
    if not result["success"]:
        sys.exit(1)
    if number == 1:
        shutil.copytree(os.path.join("labs", series), os.path.join("submitted", blank, series))
"""


@dataclass(frozen=True)
class ExerciseScore:
    """What one exercise got; a `written` one waits for a person, and its score says nothing yet."""

    name: str
    title: str
    score: float
    points: float
    written: bool = False


@dataclass(frozen=True)
class Grade:
    """What one submission got: `edition` is "blank" (untouched) or "solved"."""

    edition: str
    exercises: tuple[ExerciseScore, ...]

    @property
    def score(self) -> float:
        """The points that the checks gave."""
        return sum(exercise.score for exercise in self.exercises if not exercise.written)

    @property
    def points(self) -> float:
        """The points that checks can give."""
        return sum(exercise.points for exercise in self.exercises if not exercise.written)

    @property
    def by_hand(self) -> float:
        """The points that a person gives for written answers."""
        return sum(exercise.points for exercise in self.exercises if exercise.written)


@dataclass(frozen=True)
class Grading:
    """The untouched and the solved edition of one lab, graded; `error` says why, when nbgrader could not do it."""

    lab: str
    blank: Grade
    solved: Grade
    seconds: float
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether the untouched lab got nothing and the solved lab everything that checks can give."""
        return not self.error and self.blank.score == 0 < self.solved.points == self.solved.score


def grade_lab(root: Path, lab: Lab, *, progress: bool = True) -> Grading:
    """Grade the untouched and the solved edition of a lab with nbgrader, in a temporary course.

    Args:
        root: the repository, whose ``nbgrader_config.py`` is used.
        lab: a lab with its instructor edition.
        progress: show how far it is.

    Raises:
        MissingExtra: nbgrader is not installed.
        ValueError: the lab lacks its instructor edition, or the course its configuration.
    """
    require("classroom", "nbgrader")
    if lab.solution is None:
        raise ValueError(f"{lab.id} lacks its instructor edition: build it with `make build`.")
    if doubled := _doubled(lab.solution):
        return Grading(lab.id, Grade(_BLANK, ()), Grade(_SOLVED, ()), 0.0, doubled)
    bar = Progress(f"grading {lab.name}", 3, unit="step") if progress else None
    start = time.monotonic()
    with scratch_folder("course") as course:
        _lay_out(course, root, lab)
        error = _nbgrader(course, lab.id.rpartition("/")[0], bar)
        grades = {who: Grade(who, () if error else _scores(course, lab, who)) for who in (_BLANK, _SOLVED)}
    grading = Grading(lab.id, grades[_BLANK], grades[_SOLVED], time.monotonic() - start, error)
    if bar is not None:
        bar.close("graded" if grading.ok else "FAILED")
    return grading


def _doubled(path: Path) -> str:
    """Which cells of a notebook bear the same mark, in one sentence; empty when none do.

    Whoever copies a cell copies its mark; nbgrader then says that its metadata may be corrupted.
    """
    places: dict[str, list[int]] = {}
    for number, cell in enumerate(read_notebook(path).cells, 1):
        marks = cell.metadata.get("nbgrader") or {}
        if marks.get("grade") or marks.get("solution") or marks.get("locked"):
            places.setdefault(str(marks.get("grade_id")), []).append(number)
    for name, numbers in places.items():
        if len(numbers) > 1:
            *most, last = map(str, numbers)
            which = f"cells {', '.join(most)} and {last} of {path}"
            return f"{which} bear the same mark {name!r}, as copied cells do: delete all but one of them"
    return ""


def _lay_out(course: Path, root: Path, lab: Lab) -> None:
    """A course with one assignment, the solved submission, and a kernel that is the running interpreter."""
    assert lab.solution is not None
    series = lab.id.rpartition("/")[0]
    config = root / "nbgrader_config.py"
    try:
        compile(config.read_bytes(), str(config), "exec")  # nbgrader would go on without it, and look in other folders
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{config} cannot be used ({error}): restore it, with git for example.") from error
    shutil.copy(config, course)
    for place in (course / "solutions" / series, course / "submitted" / _SOLVED / series):
        place.mkdir(parents=True)
        shutil.copy(lab.solution, place)
    kernel = course / ".jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")


def _environment(course: Path) -> dict[str, str]:
    """Nothing of the user's own Jupyter set-up takes part, and nothing is written into the home folder."""
    jupyter = str(course / ".jupyter")
    package = str(Path(__file__).resolve().parents[1])
    return {
        **os.environ,
        # nbgrader calls alembic by its name alone, which is not on the path of a .venv that nobody activated.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")])),
        "PYTHONWARNINGS": "ignore",
        "PYTHONUTF8": "1",
        "JUPYTER_PATH": jupyter,
        "JUPYTER_CONFIG_DIR": jupyter,
        "JUPYTER_DATA_DIR": jupyter,
        "JUPYTER_RUNTIME_DIR": str(course / ".runtime"),
        "IPYTHONDIR": str(course / ".ipython"),
        "ROOFLAB_HEADLESS": "1",
    }


def _nbgrader(course: Path, series: str, bar: Progress | None) -> str:
    """Make the assignment and grade both submissions; returns what went wrong, in one line, or nothing."""
    log = course / "nbgrader.log"
    deadline = time.monotonic() + _TIMEOUT_S
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", _DRIVER, series, _BLANK, _SOLVED],
            cwd=course,
            env=_environment(course),
            stdin=subprocess.PIPE,
            start_new_session=True,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            while process.poll() is None and time.monotonic() < deadline:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
                if bar is not None:
                    bar.step(max(1, len(re.findall("^step", log.read_text(encoding="utf-8", errors="replace"), re.M))))
        finally:  # after Ctrl-C too
            timed_out = process.poll() is None
            if timed_out:
                kill_tree(process)
            assert process.stdin is not None
            process.stdin.close()
    if timed_out:
        return f"nbgrader took longer than {_TIMEOUT_S:.0f} s and was stopped"
    if process.returncode == 0:
        return ""
    told = log.read_text(encoding="utf-8", errors="replace")
    edition = {2: " on the untouched edition", 3: " on the solved edition"}.get(
        len(re.findall("^step", told, re.M)), ""
    )
    return f"nbgrader failed{edition}: {_reason(told)}"


def _reason(log: str) -> str:
    """The line of nbgrader's log that says why: ours, else the exception of its traceback, else its first error."""
    if ours := re.search(r"^reason: (.+)", log, re.M):
        return ours[1][:300]
    lines = [line.strip() for line in log.splitlines() if line.strip() and "Please see the" not in line]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b.*:", line)]
    told = raised[-1:] or [line for line in lines if "ERROR]" in line] or lines[-1:] or ["it said nothing"]
    return told[0][:300]


def _scores(course: Path, lab: Lab, student: str) -> tuple[ExerciseScore, ...]:
    """Read one submission's scores from the gradebook, checks of one exercise added up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SQLAlchemy's remarks on how nbgrader uses it
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
            series = lab.id.rpartition("/")[0]
            submission = gradebook.find_submission_notebook(lab.name, series, student)
            cells = [(grade.name, float(grade.score or 0), float(grade.max_score)) for grade in submission.grades]
    scores = []
    for exercise in lab.exercises:
        mine = [(score, points) for name, score, points in cells if _belongs(name, exercise)]
        score, points = (sum(column) for column in zip(*mine, strict=True)) if mine else (0.0, 0.0)
        scores.append(ExerciseScore(exercise.name, exercise.title, score, points, exercise.written))
    return tuple(scores)


def _belongs(cell: str, exercise: Exercise) -> bool:
    return cell == exercise.name or cell.rsplit("-", 2)[0] == exercise.name
