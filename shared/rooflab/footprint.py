"""How much memory did a process and its children take at their peak?

Linux keeps the high-water mark of each process; children (ranks, compile workers) are added while they live.

>>> import os
>>> watch = Footprint(os.getpid())
>>> watch.sample() > 1_000_000
True
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

__all__ = ["Footprint", "children"]


class Footprint:
    """The peak memory of one process tree, in bytes, sampled from outside.

    A sample reads a few lines of ``/proc`` and takes well under a millisecond, so that it does not disturb what the
    process measures. Elsewhere it asks psutil, and without psutil the peak stays unknown (None).
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.peak_bytes: int | None = None

    def sample(self) -> int | None:
        """Look once; return the peak so far in bytes, or None where it cannot be known."""
        now = _linux(self.pid) if sys.platform.startswith("linux") else _psutil(self.pid)
        if now is not None:
            self.peak_bytes = max(now, self.peak_bytes or 0)
        return self.peak_bytes


def _linux(pid: int) -> int | None:
    """High-water mark of the process, or its resident bytes plus those of its descendants, whichever is more."""
    status = _status(pid)
    if not status:  # gone, or a zombie that holds nothing
        return None
    tree = status.get("VmRSS", 0)
    waiting = children(pid)
    while waiting:
        child = waiting.pop()
        tree += (_status(child) or {}).get("VmRSS", 0)
        waiting += children(child)
    return max(tree, status.get("VmHWM", 0))


def _status(pid: int) -> dict[str, int] | None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    fields = (line.split(":", 1) for line in lines if line.startswith(("VmRSS", "VmHWM")))
    return {name: int(value.split()[0]) * 1024 for name, value in fields}


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still run; none where there is no ``/proc``."""
    found: list[int] = []
    # A process that ends while we look is no error.
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def _psutil(pid: int) -> int | None:
    try:
        import psutil
    except ImportError:
        return None
    try:
        process = psutil.Process(pid)
        return sum(p.memory_info().rss for p in [process, *process.children(recursive=True)])
    except psutil.Error:
        return None
