"""What does a process that grades keep between submissions, and how does it end without leaving anything behind?

It keeps slots (:mod:`rooflab.grading.slot`), which are dear to start: a sandbox with its modules loaded, an examiner.
They live in one folder, which goes with the process. A worker of the grader ends with it, also when it is killed; a
worker of a cluster lives on, and closes what a run has left.

>>> end_run("no such run")
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from rooflab.scratch import remove_left, scratch_folder

from .slot import Slot

__all__ = ["begin", "close_all", "end_run", "held_slot"]

_MOST_LABS = 3  # kept at a time, since each holds a lot of memory
_IDLE_S = 60.0
_TICK_S = 5.0

Key = tuple[str, str]  # of a run, of a lab with its limits


@dataclass
class _Kept:
    """The slots of this process."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    free: dict[Key, list[tuple[float, Slot]]] = field(default_factory=dict)  # since when
    used: dict[Slot, Key] = field(default_factory=dict)
    making: int = 0
    ending: bool = False  # the grader is gone
    folder: Path | None = None
    leave: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    sweeper: threading.Thread | None = None


_kept = _Kept()


def begin(line: Any, folder: str) -> None:
    """Make this process a worker of the grader: its folder is given, and it ends when the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the grader decides
    _kept.folder = Path(folder)
    ending = threading.Thread(target=_end_with, args=(line,), name="end with the grader", daemon=True)
    ending.start()
    Finalize(None, _leave_in_order, (ending,), exitpriority=100)


def _leave_in_order(ending: threading.Thread) -> None:
    """At the end of a worker whose grader is gone: wait for the thread that cleans up, which then ends this process."""
    grader = multiprocessing.parent_process()
    if grader is not None and not grader.is_alive():
        ending.join()


def _end_with(line: Any) -> None:
    with contextlib.suppress(EOFError, OSError):
        line.recv()
    with _kept.lock:
        _kept.ending = True
    try:
        with contextlib.suppress(Exception):  # whatever it was, nobody is there to be told
            close_all()
        if _kept.folder is not None:
            remove_left(_kept.folder)  # the grader was killed, or else it does so itself
    finally:
        os._exit(0)


def _made(make: Callable[[Path], Slot], key: Key) -> Slot:
    """Make a slot in the folder of this process."""
    with _kept.lock:
        ending = _kept.ending
        if not ending:
            if _kept.folder is None or not _kept.folder.is_dir():
                _kept.folder = _kept.leave.enter_context(scratch_folder("grading"))
            folder = _kept.folder
            _kept.making += 1
    if ending:  # a slot that is lost now would be made again, in another folder, which nobody would remove
        threading.Event().wait()  # for the end of the process
    try:
        slot = make(folder)
        with _kept.lock:
            _kept.used[slot] = key
        return slot
    finally:
        with _kept.lock:
            _kept.making -= 1


@contextlib.contextmanager
def held_slot(key: Key, make: Callable[[Path], Slot]) -> Iterator[Slot]:
    """Hold a slot of this key, which is free or made; given back at the end.

    Args:
        key: of the run, and of the lab with its limits.
        make: makes a slot in a folder.
    """
    slot = _take(key) or _made(make, key)
    with _kept.lock:
        if _kept.sweeper is None:
            _kept.sweeper = threading.Thread(target=_sweep, name="close idle slots", daemon=True)
            _kept.sweeper.start()
    try:
        yield slot
    finally:
        with _kept.lock:
            wanted = _kept.used.pop(slot, None) is not None  # else its run has ended
            if wanted:
                _kept.free.setdefault(key, []).append((time.monotonic(), slot))
        if not wanted:
            slot.close()


def _take(key: Key) -> Slot | None:
    with _kept.lock:
        found = _kept.free.get(key, [])
        slot = found.pop()[1] if found else None
        if slot is not None:
            _kept.used[slot] = key
        known = [other for other in _kept.free if other != key]
        surplus = [one for other in known[: max(0, len(known) + 1 - _MOST_LABS)] for one in _kept.free.pop(other)]
    for _, other_slot in surplus:
        other_slot.close()
    return slot


def _sweep() -> None:
    """Close what nobody has asked for in a while: its grader may have been killed."""
    while True:
        time.sleep(_TICK_S)
        _close(lambda key, since: since < time.monotonic() - _IDLE_S)


def _close(which: Callable[[Key, float], bool]) -> None:
    """Close free slots; and the folder, when no slot is left and it is this process's own."""
    with _kept.lock:
        chosen = []
        for key, slots in list(_kept.free.items()):
            chosen += [slot for since, slot in slots if which(key, since)]
            _kept.free[key] = [(since, slot) for since, slot in slots if not which(key, since)]
            if not _kept.free[key]:
                del _kept.free[key]
    for slot in chosen:
        slot.close()
    with _kept.lock:
        if not _kept.free and not _kept.used and not _kept.making:
            _kept.leave.close()


def end_run(run: str) -> None:
    """Close the slots of a run, also those that are in use: whatever they do is not wanted any more."""
    with _kept.lock:
        used = [slot for slot, key in _kept.used.items() if key[0] == run]
        for slot in used:
            del _kept.used[slot]
    for slot in used:
        slot.abandon()
    _close(lambda key, since: key[0] == run)


@atexit.register
def close_all() -> None:
    """Close all slots of this process."""
    with _kept.lock:
        runs = {key[0] for key in (*_kept.free, *_kept.used.values())}
    for run in runs:
        end_run(run)
    _close(lambda key, since: True)
