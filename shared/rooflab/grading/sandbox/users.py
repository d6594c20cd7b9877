"""Which user is each guest, so that no two can touch each other, and so that processes are counted for each alone?

>>> first, second = take_user(), take_user()
>>> first != second
True
>>> give_back(first), give_back(second)
(None, None)
"""

from __future__ import annotations

import os
import platform
import threading
from pathlib import Path

__all__ = ["give_back", "own_users", "processes_of_user", "shared_count", "take_user"]

# A range that systemd and the usual containers leave alone; a grader's own number makes its users its own.
_FIRST, _FOR_EACH, _GRADERS = 0x70000000, 64, 2**22
_taken: set[int] = set()
_lock = threading.Lock()


def own_users() -> bool:
    """Whether each guest can be a user of its own: this process is root, and such users exist here."""
    return os.geteuid() == 0 and _base() is not None


def _base() -> int | None:
    """The first of this grader's users; in a container's smaller range graders may meet, which weakens counts only."""
    high = 0
    for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines():
        first, _, length = map(int, line.split())
        high = max(high, first + length)
    if high >= _FIRST + _FOR_EACH * _GRADERS:
        return _FIRST + _FOR_EACH * (os.getpid() % _GRADERS)
    if high < 2**15:
        return None
    return high - _FOR_EACH * (1 + os.getpid() % (2**14 // _FOR_EACH))


def take_user() -> int:
    """A user that no other guest is; give it back afterwards."""
    base = _base() or _FIRST
    with _lock:
        # More guests than a grader has users for: the last is shared.
        user = next((base + i for i in range(_FOR_EACH) if base + i not in _taken), base + _FOR_EACH - 1)
        _taken.add(user)
    return user


def give_back(user: int) -> None:
    """Let another guest be this user."""
    with _lock:
        _taken.discard(user)


def shared_count() -> bool:
    """Whether the kernel counts a user's processes over all user namespaces together (before Linux 5.14)."""
    major, minor = (int(part) for part in platform.release().split("-")[0].split(".")[:2])
    return (major, minor) < (5, 14)


def processes_of_user() -> int:
    """How many processes and threads the user of this process has now."""
    total = 0
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and folder.stat().st_uid == os.geteuid():
                total += len(os.listdir(folder / "task"))
        except OSError:  # it has just ended
            continue
    return total
