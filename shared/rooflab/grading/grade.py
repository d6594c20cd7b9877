"""How is an assignment graded: who handed in, what is done already, what is left, and where do the results go?

>>> _some(["ada", "bo"])
'ada, bo'
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from .coursefolder import CourseFolder
from .dispatch import TRIES, run_all
from .executors import open_executor
from .feedback import FeedbackWriter
from .gradebook import PenaltyError, cell_names, found_submission, penalize, record
from .graded import graded_notebook
from .gradingrun import GradingRun, Options, StudentResult
from .journal import Journal, key_of, write_atomically
from .lab import LabNotebook
from .outcome import Outcome
from .plainnotebook import NotebookError, cells_of, read_bytes
from .sandbox import SandboxUnavailable
from .tasks import Task, run_task
from .worker import end_run

__all__ = ["GradingRun", "Options", "StudentResult", "grade_assignment"]

_FOLDERS = 3  # submitted/STUDENT/ASSIGNMENT: a student who can write there could lead to another one's


@dataclass
class _Handed:
    """What one student handed in."""

    student: str
    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)


def grade_assignment(
    course: CourseFolder,
    assignment: str,
    options: Options,
    *,
    told: Callable[[int, int], None] = lambda done, total: None,
    wait: Callable[[], None] = lambda: None,
) -> GradingRun:
    """Grade what was handed in for an assignment, and write gradebook, `autograded/` and `feedback/`.

    Args:
        course: the course.
        assignment: a released assignment.
        options: how.
        told: called with how many students are done, and how many there are.
        wait: called now and then, also while nothing is done.

    Raises:
        ValueError: there is nothing to grade, or the assignment was not released.
    """
    begun = time.monotonic()
    labs = {lab.name: lab for lab in course.labs(assignment)}
    students = course.students(assignment)
    if unknown := sorted(set(options.students) - set(students)):
        have = f"those who have: {_some(students)}" if students else "nobody has"
        raise ValueError(f"{unknown[0]} has handed in nothing for {assignment}; {have}.")
    students = [student for student in students if not options.students or student in options.students]
    if not students:
        place = course.path("submitted", "STUDENT", assignment)
        raise ValueError(f"Nobody has handed in anything for {assignment}: there is no {place}.")
    journal = Journal(course.root, assignment)
    results = []
    told(0, len(students))
    with journal.alone(), course.gradebook() as gradebook:
        fixed = options.seed or next((lab.seed for lab in labs.values() if lab.seed and not options.fresh_seed), None)
        run = _Run(course, assignment, labs, options, journal, journal.secret(fixed, fresh=options.fresh_seed))
        run.names, run.wait = cell_names(gradebook, assignment), wait
        with closing(run.over(students, gradebook)) as graded:
            for result in graded:
                results.append(result)
                told(len(results), len(students))
    levels = sorted({outcome.level for result in results for outcome in result.outcomes.values() if outcome.level})
    results.sort(key=lambda result: result.student)
    return GradingRun(assignment, results, time.monotonic() - begun, ", ".join(levels), options)


@dataclass
class _Run:
    course: CourseFolder
    assignment: str
    labs: dict[str, LabNotebook]
    options: Options
    journal: Journal
    secret: str
    writer: FeedbackWriter | None = None
    names: dict[str, str] = field(default_factory=dict)
    wait: Callable[[], None] = lambda: None
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    def __post_init__(self) -> None:
        self.told = {name: lab.to_json() for name, lab in self.labs.items()}
        files = self.course.path("release", ".", self.assignment)
        self.given = {  # the files beside the notebooks, which answers and checks may read
            str(path.relative_to(files)): key_of([path.read_bytes()])
            for path in sorted(files.rglob("*"))
            if path.is_file() and path.suffix != ".ipynb"
        }

    def over(self, students: Sequence[str], gradebook: Any) -> Generator[StudentResult, None, None]:
        pending: dict[str, _Handed] = {}
        ready: list[_Handed] = []

        def tasks() -> Iterator[tuple[tuple[str, str], Task]]:
            for student in students:
                handed = self.read(student)
                todo = [name for name in handed.keys if name not in handed.outcomes]
                if not todo:
                    ready.append(handed)
                    continue
                pending[student] = handed
                for name in todo:
                    yield (student, name), self.task(handed, name)

        with closing(run_all(self.pool, run_task, tasks(), 2 * self.options.jobs, self.wait)) as done:
            for (student, name), told, error in done:
                handed = pending[student]
                outcome = Outcome.from_json(told) if error is None else self.failed(name, error)
                if not outcome.lost:
                    self.journal.keep(student, name, handed.keys[name], outcome)
                handed.outcomes[name] = outcome
                if all(name in handed.outcomes for name in handed.keys):
                    del pending[student]
                    yield self.finish(handed, gradebook)
                while ready:
                    yield self.finish(ready.pop(0), gradebook)
        while ready:
            yield self.finish(ready.pop(0), gradebook)

    def pool(self) -> AbstractContextManager[Executor]:
        """The executor, which is opened again when it breaks."""
        return open_executor(self.options.executor, self.options.jobs, at_end=partial(end_run, self.token))

    def read(self, student: str) -> _Handed:
        """What a student handed in, and what is known of it already."""
        handed = _Handed(student)
        folder = self.course.path("submitted", student, self.assignment)
        for name in self.labs:
            path = folder / f"{name}.ipynb"
            try:
                if any(part.is_symlink() for part in (folder, folder.parent, folder.parent.parent)):
                    raise NotebookError(f"{folder.name} is a link to another place: hand in the folder itself.")
                if not path.exists() and not path.is_symlink():
                    raise NotebookError(_absent(path))
                raw = read_bytes(path, folders=_FOLDERS)
            except NotebookError as error:
                handed.faults[name] = str(error)
                raw = str(error).encode()
            handed.files[name] = raw
            how = repr((self.options.limits, self.options.level, self.options.accelerator, self.given))
            handed.keys[name] = key_of([raw, self.told[name], how, self.secret])
            if name in handed.faults:
                handed.outcomes[name] = Outcome(name, failure=handed.faults[name])
            elif not self.options.again and (kept := self.journal.find(student, name, handed.keys[name])):
                handed.outcomes[name] = kept
        return handed

    def task(self, handed: _Handed, name: str) -> Task:
        files = self.course.path("release", ".", self.assignment) if self.given else ""
        return Task(
            handed.student, self.told[name], handed.files[name], self.secret, self.options.limits,
            self.options.level, str(files), self.options.accelerator, self.token, self.options.jobs,
            str(self.course.root),
        )  # fmt: skip

    def failed(self, name: str, error: BaseException) -> Outcome:
        """What is told of a task that its executor gave up."""
        if isinstance(error, SandboxUnavailable) and self.options.executor == "local":
            raise ValueError(str(error)) from error  # nobody can be graded here
        why = f"The grader itself failed on this submission ({type(error).__name__}: {error}); a person has to look."
        if isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker":
            why = (
                f"The grader's process ended {TRIES} times while it worked on this submission, as happens where the "
                "machine runs out of memory; a person has to look."
            )
        return Outcome(name, failure=why, lost=True)

    def finish(self, handed: _Handed, gradebook: Any) -> StudentResult:
        """Write one student's results, unless they are written already; what goes wrong stops nobody else."""
        brief = {name: outcome.brief for name, outcome in handed.outcomes.items()}
        result = StudentResult(handed.student, brief, self.labs)
        try:
            return self.write(result, handed, gradebook)
        except PenaltyError as error:
            gradebook.db.rollback()
            raise ValueError(f"Nobody's results can be completed: {error}.") from error
        except Exception as error:
            gradebook.db.rollback()
            return replace(result, error=f"The results could not be written ({type(error).__name__}: {error})"[:300])

    def write(self, result: StudentResult, handed: _Handed, gradebook: Any) -> StudentResult:
        key = key_of(part for name in sorted(handed.keys) for part in (name, handed.keys[name]))
        submission: Any = None
        if self.journal.recorded(handed.student, key) and not self.options.again:
            submission = found_submission(gradebook, self.assignment, handed.student)
        done = submission is not None
        if not done:
            told = {name: (self.labs[name], outcome) for name, outcome in handed.outcomes.items()}
            stamp = self.timestamp(handed.student)
            submission = record(gradebook, self.assignment, handed.student, told, stamp, self.names)
        moved = penalize(gradebook, self.course.app, self.course.db_url, submission)  # the due date may have been
        penalty = sum(one.late_submission_penalty or 0.0 for one in submission.notebooks)
        by_hand = {
            (one.name, grade.name): grade.manual_score
            for one in submission.notebooks
            for grade in one.grades
            if grade.manual_score is not None
        }
        late_s = max(0.0, submission.total_seconds_late)
        result = replace(result, late_s=late_s, penalty=penalty, by_hand=by_hand)
        if done and not moved and not self.options.refresh:
            return replace(result, done_before=True)
        pages = {name: self.write_graded(handed, name, outcome) for name, outcome in handed.outcomes.items()}
        if self.options.feedback:
            self.write_feedback(handed, submission, pages)
        if not any(outcome.lost for outcome in handed.outcomes.values()):
            self.journal.note_recorded(handed.student, key)
        return replace(result, done_before=done)

    def write_graded(self, handed: _Handed, name: str, outcome: Outcome) -> str:
        """Write the graded notebook, and return it."""
        try:
            cells = [] if name in handed.faults else cells_of(handed.files[name])
        except NotebookError:
            cells = []
        text = graded_notebook(self.labs[name], cells, outcome)
        folder = self.course.path("autograded", handed.student, self.assignment)
        write_atomically(folder / f"{name}.ipynb", text.encode("utf-8", "replace"))
        return text

    def write_feedback(self, handed: _Handed, submission: Any, pages: Mapping[str, str]) -> None:
        if self.writer is None:
            self.writer = FeedbackWriter()
        student, outcomes = handed.student, handed.outcomes
        folder = self.course.path("feedback", student, self.assignment)
        for notebook in submission.notebooks:
            if notebook.name in pages:
                failure = outcomes[notebook.name].failure
                page = self.page(pages[notebook.name], self.labs[notebook.name], notebook, failure)
                write_atomically(folder / f"{notebook.name}.html", page.encode("utf-8", "replace"))
        self.copy_notes(student, folder)

    def page(self, graded: str, lab: LabNotebook, notebook: Any, failure: str) -> str:
        """The page of a notebook, without the student's cells where nbconvert stops at what stands in them."""
        assert self.writer is not None
        try:
            return self.writer.page(graded, lab, notebook, failure)
        except Exception:
            return self.writer.page(graded_notebook(lab, [], Outcome(lab.name)), lab, notebook, failure)

    def timestamp(self, student: str) -> datetime | None:
        """When the student handed in, if that is known."""
        self.copy_notes(student, self.course.path("autograded", student, self.assignment))
        source = self.course.path("submitted", student, self.assignment)
        try:
            read_bytes(source / "timestamp.txt", 1000, folders=_FOLDERS)
            stamp: datetime | None = self.course.files.get_existing_timestamp(str(source))
        except (NotebookError, ValueError, OverflowError, SystemExit):
            return None
        return stamp

    def copy_notes(self, student: str, folder: Path) -> None:
        """Copy what the exchange notes beside a submission, without which nbgrader cannot release feedback."""
        for name in ("timestamp.txt", "submission_secret.txt"):
            with suppress(NotebookError):
                source = self.course.path("submitted", student, self.assignment) / name
                write_atomically(folder / name, read_bytes(source, 1000, folders=_FOLDERS))


def _absent(path: Path) -> str:
    names: list[str] = []
    with suppress(OSError):  # its folder has gone meanwhile
        names = sorted(one.name for one in path.parent.glob("*.ipynb"))
    others = [name.encode("utf-8", "replace").decode() for name in names]  # a name may be of bytes that are no text
    there = f" (it has {', '.join(others[:3])}: is that the lab under another name?)" if others else ""
    return f"No {path.name} was handed in{there}."


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
