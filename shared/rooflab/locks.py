"""How do two processes change one file without losing what the other wrote?

The folder is locked while one of them reads, changes and replaces the file. The lock goes with the process that holds
it, so a crash leaves none behind.

>>> import tempfile, pathlib
>>> with alone_in(pathlib.Path(tempfile.mkdtemp())) as alone:
...     alone
True
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["alone_in"]

PATIENCE_S = 5.0
_PAUSE_S = 0.005


@contextmanager
def alone_in(folder: Path, *, patience_s: float = PATIENCE_S) -> Iterator[bool]:
    """Be the only one that works in a folder, among all that ask in this way; yields False if somebody else does.

    It never waits for ever and never fails: where somebody holds the lock for longer than ``patience_s`` the block runs
    without. Where no lock can be had (the folder cannot be opened, the system has none) nobody can be seen, and the
    answer is True.

    Args:
        folder: must exist, else there is no lock.
        patience_s: how long to wait for another process.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> with alone_in(place) as first, alone_in(place, patience_s=0.0) as second:
    ...     first, second
    (True, False)
    """
    handle = _open(folder)
    try:
        yield handle is None or _take(handle, patience_s)
    finally:
        if handle is not None:
            os.close(handle)  # which gives the lock back


def _open(folder: Path) -> int | None:
    """A handle that can be locked: of the folder itself, or of a file in it where folders cannot be (as on NFS)."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    handle = None
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # a pipe in its place would be waited for
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(handle, fcntl.LOCK_UN)
    except BlockingIOError:
        return handle  # held by another: so it can be
    except OSError:
        if handle is not None:
            os.close(handle)
        try:
            return os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        except OSError:
            return None
    return handle


def _take(handle: int, patience_s: float) -> bool:
    import fcntl

    stop = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > stop:
                return False
            time.sleep(_PAUSE_S)
        except OSError:  # the system has no locks for it
            return True
        else:
            return True
