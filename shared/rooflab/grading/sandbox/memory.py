"""How much memory do a guest's processes hold together, seen from outside?

Pages that guests share with the fork server, or with each other, must not be counted for each of them.

>>> tree(os.getpid())[0] == os.getpid()
True
>>> held_bytes([os.getpid()], at_least=1) > 2**20
True
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterable
from pathlib import Path

from ...footprint import children

__all__ = ["continue_tree", "end_tree", "held_bytes", "stop_tree", "tree"]

_ROUNDS = 1000
_FAST = re.compile(r"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", re.MULTILINE)
_EXACT = re.compile(r"^(?:Pss_Anon|Pss_Shmem|SwapPss):\s+(\d+) kB", re.MULTILINE)


def tree(root: int) -> list[int]:
    """A process and all that descends from it."""
    found, waiting = {root: None}, children(root)
    while waiting:
        process = waiting.pop()
        if process not in found:
            found[process] = None
            waiting += children(process)
    return [*found]


def end_tree(root: int) -> None:
    """Kill a process and all that descends from it, without waiting for their ends."""
    handles = {}
    for process in tree(root):
        with contextlib.suppress(OSError):
            handles[process] = os.pidfd_open(process)
    known = set(tree(root))  # what still descends from it is what the handles mean, whatever has ended meanwhile
    for process, handle in handles.items():
        with contextlib.suppress(OSError):
            if process in known:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)


def stop_tree(root: int) -> None:
    """Stop all that descends from a process until :func:`continue_tree`, also what is started meanwhile."""
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        new = [process for process in tree(root)[1:] if process not in stopped]
        if not new:
            return
        for process in new:
            _signal(process, signal.SIGSTOP)
        stopped.update(new)


def continue_tree(root: int) -> None:
    """Let a process's descendants go on."""
    for process in tree(root)[1:]:
        _signal(process, signal.SIGCONT)


def _signal(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.kill(process, number)


def held_bytes(processes: Iterable[int], *, at_least: int) -> int:
    """The bytes of memory that processes hold for themselves, files aside.

    The quick sum counts a page once for each process that shares it. Only when it passes ``at_least`` are the pages
    shared out among their holders, which takes milliseconds.
    """
    processes = list(processes)
    quick = sum(_sum(process, "status", _FAST) or 0 for process in processes)
    if quick < at_least:
        return quick
    exact = [_sum(process, "smaps_rollup", _EXACT) for process in processes]
    return sum(part or 0 for part in exact) if any(exact) else quick


def _sum(process: int, name: str, pattern: re.Pattern[str]) -> int | None:
    try:
        text = Path(f"/proc/{process}/{name}").read_text(encoding="ascii", errors="replace")
    except OSError:  # it has just ended, or is not ours to look into
        return None
    return 1024 * sum(map(int, pattern.findall(text)))
