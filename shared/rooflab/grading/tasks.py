"""The unit of work that any executor can run: one notebook of one submission.

A worker process keeps what is dear to start (a sandbox with its modules loaded, an examiner) for the next task of the
same lab. In a process that works on several tasks at once, as Dask's with threads do, each has a slot of its own.

>>> task = Task("ada", LabNotebook("lab", ()).to_json(), b"", "secret", Limits())
>>> Outcome.from_json(run_task(task)).failure
'lab.ipynb is empty: save it in Jupyter and hand it in again.'
"""

from __future__ import annotations

import atexit
import hashlib
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from .lab import LabNotebook
from .outcome import Outcome
from .plainnotebook import NotebookError, cells_of
from .rebuild import rebuild
from .sandbox import Limits
from .slot import Slot

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


_free: dict[str, list[Slot]] = {}
_lock = threading.Lock()


def run_task(task: Task) -> str:
    """Grade a submission; returns an Outcome as JSON, whatever happens to the student's code."""
    lab = LabNotebook.from_json(task.lab)
    begun = time.monotonic()
    try:
        cells = cells_of(task.submission, f"{lab.name}.ipynb")
    except NotebookError as error:
        return Outcome(lab.name, failure=str(error), seconds=time.monotonic() - begun).to_json()
    key = hashlib.sha256(repr((task.lab, task.limits, task.level, task.files, task.accelerator)).encode()).hexdigest()
    slot = _take(key, lab, task)
    try:
        return slot.examine(rebuild(lab, cells), task.secret).to_json()
    finally:
        with _lock:
            _free.setdefault(key, []).append(slot)


def _take(key: str, lab: LabNotebook, task: Task) -> Slot:
    """A slot that is free, or a new one; those of other labs are closed, since each holds a lot of memory."""
    with _lock:
        others = [slot for other, slots in _free.items() if other != key for slot in slots]
        for other in [other for other in _free if other != key]:
            del _free[other]
        slot = _free[key].pop() if _free.get(key) else None
    for other_slot in others:
        other_slot.close()
    if slot is not None:
        return slot
    private = Path(tempfile.gettempdir())
    files = Path(task.files) if task.files else None
    return Slot(lab, task.limits, level=task.level, folder=files, private=private, accelerator=task.accelerator)


@atexit.register
def close_all() -> None:
    """Close the slots of this process."""
    with _lock:
        slots = [slot for kept in _free.values() for slot in kept]
        _free.clear()
    for slot in slots:
        slot.close()
