"""Where do files live that nobody needs after a run, and who removes those of a run that was killed?

Each folder holds a lock while its process lives. What has no lock any more is removed when the next one is made.

>>> with scratch_folder("doctest") as folder:
...     _ = (folder / "socket").write_text("", encoding="utf-8")
>>> folder.exists()
False
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .files import OutputError

__all__ = ["remove_left", "remove_stale", "scratch_folder"]

_PREFIX = "rooflab-run-"
_LOCK = "lock"
# A folder this young may belong to a process that has not come to lock it, or to a kernel that is just ending.
_YOUNG_S = 60.0


@contextlib.contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """Make a folder for temporary files and remove it at the end, after an exception too.

    Args:
        purpose: one word, part of the folder's name.

    Raises:
        OutputError: there is no place for temporary files.
    """
    remove_stale()
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-"))
        lock = (folder / _LOCK).open("w", encoding="utf-8")
    except OSError as error:
        why = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or str(error)
        raise OutputError(f"Temporary files cannot be written to {tempfile.gettempdir()}: {why}. Free some space, or "
                          "set TMPDIR to another folder.") from error  # fmt: skip
    with lock:
        _lock(lock.fileno())
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_stale(*, older_than_s: float = _YOUNG_S) -> list[Path]:
    """Remove the folders of processes that were killed; returns them. Those of other users stay."""
    removed = []
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with lock.open("r+", encoding="utf-8") as file:
                young = time.time() - lock.stat().st_mtime < older_than_s
                if young or lock.stat().st_uid != os.getuid() or not _lock(file.fileno()):
                    continue
                shutil.rmtree(lock.parent, ignore_errors=True)
                removed.append(lock.parent)
        except OSError:  # it has just gone, or is not ours to open
            continue
    return removed


def remove_left(folder: Path, *, patience_s: float = 5.0) -> None:
    """Remove a folder that `scratch_folder` made in a process that has ended; that of a living one stays.

    Args:
        folder: as it was made.
        patience_s: how long to wait for the end of a process that was just killed.
    """
    until = time.monotonic() + patience_s
    with contextlib.suppress(OSError):
        try:
            with (folder / _LOCK).open("r+", encoding="utf-8") as file:
                while not _lock(file.fileno()):
                    if time.monotonic() > until:
                        return
                    time.sleep(0.05)
        except FileNotFoundError:  # another is at it
            pass
        shutil.rmtree(folder, ignore_errors=True)
        while folder.exists() and time.monotonic() < until:  # somebody who is just ending has written into it
            time.sleep(0.05)
            shutil.rmtree(folder, ignore_errors=True)


def _lock(handle: int) -> bool:
    """Take the lock, which falls with the process; False when another process has it."""
    try:
        import fcntl
    except ImportError:  # not on Windows: nothing is ever taken for stale there
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
