"""The unit of work that any executor can run: one notebook of one submission.

A worker process keeps what is dear to start for the next task of the same lab (see :mod:`rooflab.grading.worker`). In
a process that works on several tasks at once, as Dask's with threads do, each has a slot of its own.

>>> task = Task("ada", LabNotebook("lab", ()).to_json(), b"", "secret", Limits())
>>> Outcome.from_json(run_task(task)).failure
'lab.ipynb is empty: save it in Jupyter and hand it in again.'
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

from .gpus import held_gpu, visible_gpus
from .journal import key_of
from .lab import LabNotebook
from .outcome import Outcome
from .plainnotebook import NotebookError, cells_of
from .rebuild import rebuild
from .sandbox import Limits
from .slot import Slot
from .worker import held_slot

__all__ = ["Task", "run_task"]


@dataclass(frozen=True)
class Task:
    """A submission to grade. All of it is plain data, so that it can be sent to another machine."""

    student: str
    lab: str  # LabNotebook as JSON
    submission: bytes  # the file
    secret: str
    limits: Limits
    level: str = "auto"
    files: str = ""  # folder of the files that the assignment hands out
    accelerator: bool = False
    run: str = ""  # to which it belongs: what the run leaves in a worker ends with it
    jobs: int = 1  # submissions at a time on one machine
    course: str = ""  # the course's folder, which no submission may see


def run_task(task: Task) -> str:
    """Grade a submission; returns an Outcome as JSON, whatever happens to the student's code."""
    lab = LabNotebook.from_json(task.lab)
    begun = time.monotonic()
    try:
        cells = cells_of(task.submission, f"{lab.name}.ipynb")
    except NotebookError as error:
        return Outcome(lab.name, failure=str(error), seconds=time.monotonic() - begun).to_json()

    def make(folder: Path) -> Slot:
        files = Path(task.files) if task.files else None
        hidden = (Path(task.course),) if task.course else ()
        return Slot(
            lab,
            task.limits,
            level=task.level,
            folder=files,
            private=folder,
            accelerator=task.accelerator,
            gpu=gpu,
            jobs=task.jobs,
            hidden=hidden,
        )

    with (
        held_gpu(visible_gpus() if task.accelerator else ()) as gpu,
        held_slot((task.run, _key(task, gpu)), make) as slot,
    ):
        # Another submission is asked with other numbers, so that what a student has seen of them helps nobody.
        secret = key_of([task.secret, task.submission])
        return slot.examine(rebuild(lab, cells), secret).to_json()


def _key(task: Task, gpu: str) -> str:
    told = (task.lab, task.limits, task.level, task.files, task.accelerator, gpu)
    return hashlib.sha256(repr(told).encode()).hexdigest()
