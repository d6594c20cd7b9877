"""Who stays beside a guest, reaps it, and ends all that it has started? One trusted process for each.

>>> outcome(0), outcome(9)
({'code': 0}, {'signal': 9})
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import traceback
from typing import Any, TextIO

from ...footprint import children
from . import kernel
from .plan import Errand, Plan
from .seal import enter_namespaces, seal

__all__ = ["keep", "outcome"]

# The channel's number in guests: high, so that no library takes it for one of its own.
_CHANNEL = 64
_ROUNDS = 1000


def outcome(status: int) -> dict[str, int]:
    """What a wait status says: the exit code, or the signal that ended the process."""
    code = os.waitstatus_to_exitcode(status)
    return {"signal": -code} if code < 0 else {"code": code}


def keep(plan: Plan, errand: Errand, descriptors: list[int]) -> None:
    """Start one guest and stay until it has ended and the grader has been told; runs in a child of the fork server.

    Args:
        plan: how guests are held.
        errand: what is particular to this one.
        descriptors: the guest's end of the channel, the pipe for its output, the socket to report on, and a file that
            holds the argument of the entry point.
    """
    channel, output, line, letter = descriptors
    report = socket.socket(fileno=line)
    first = 0
    try:
        os.setsid()
        _offer_to_the_oom_killer()
        kernel.become_subreaper()
        if plan.inner:
            kernel.set_dumpable(True)  # else the maps of the user namespace belong to root
            enter_namespaces(plan, errand)
            kernel.set_dumpable(False)
            first = _first_process()
        report.send(json.dumps({"keeper": first}).encode())
        guest = os.fork()
        if guest == 0:
            _guest(plan, errand, (channel, output, letter), report)
        for descriptor in (channel, output, letter):
            os.close(descriptor)
    except Exception as error:
        _tell(report, {"failed": f"{type(error).__name__}: {error}"})
        return
    _watch(report, guest, first)


def _tell(report: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the grader is gone
        report.send(json.dumps(message).encode())


def _offer_to_the_oom_killer() -> None:
    """Where memory runs out all the same, guests go first."""
    kernel.set_dumpable(True)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
    kernel.set_dumpable(False)


def _first_process() -> int:
    """Start the first process of the new PID namespace, which takes all others with it when it ends.

    It is not the guest, because the kernel keeps signals from a first process, so that a crash would look different.
    """
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # it inherits this, and so leaves no zombies
    try:
        program = shutil.which("sleep", path="/usr/bin:/bin") or "/bin/sleep"
        return os.posix_spawn(program, ["sleep", "infinity"], {})
    finally:
        signal.signal(signal.SIGCHLD, before)


def _watch(report: socket.socket, guest: int, first: int) -> None:
    """Wait for the guest's end, or for the grader to want it or to go; then end the rest, tell, and wait for leave."""
    handle = os.pidfd_open(guest)
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    waiting.register(report, select.POLLIN)
    waiting.poll()
    if first:
        status = _wait(guest, block=False)
        os.kill(first, signal.SIGKILL)
        status = _wait(guest) if status is None else status
        _wait(first)
    else:
        status = _wait(guest, block=False)
        status = _end_descendants(guest, status)
    _tell(report, {"ended": outcome(status or 0)})
    with contextlib.suppress(OSError):
        while report.recv(64):
            pass  # the grader has the tree's numbers until it closes its end: they must not be given to others


def _wait(process: int, *, block: bool = True) -> int | None:
    found, status = os.waitpid(process, 0 if block else os.WNOHANG)
    return status if found else None


def _end_descendants(guest: int, status: int | None) -> int | None:
    """Kill all that descends from this process; those whose parents end become its children (a subreaper)."""
    for _ in range(_ROUNDS):
        stopped: set[int] = set()
        while new := _descendants() - stopped:  # stopped first, or they would start others as fast as they are killed
            for process in new:
                _signal(process, signal.SIGSTOP)
            stopped |= new
        for process in stopped:
            _signal(process, signal.SIGKILL)
        try:
            while True:
                process, ended = os.waitpid(-1, os.WNOHANG if not stopped else 0)
                if process == 0:
                    break
                status = ended if process == guest else status
                stopped.discard(process)
        except ChildProcessError:
            return status
    return status


def _descendants() -> set[int]:
    found: set[int] = set()
    waiting = children(os.getpid())
    while waiting:
        process = waiting.pop()
        if process not in found:
            found.add(process)
            waiting += children(process)
    return found


def _signal(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def _guest(plan: Plan, errand: Errand, ends: tuple[int, int, int], report: socket.socket) -> None:
    """Seal this process and run the entry point; never returns."""
    code = 1
    try:
        os.setsid()
        channel, output, letter = ends
        with open(letter, "rb") as file:
            file.seek(0)
            argument = json.load(file)
        channel = _only(channel, output, report)
        told = seal(plan, errand)
        report.send(json.dumps({"sealed": told}).encode())
    except BaseException as error:
        _tell(report, {"failed": f"{type(error).__name__}: {error}"})
        os._exit(1)
    report.close()
    try:
        if not errand.trial:
            module, _, name = plan.entry.partition(":")
            getattr(importlib.import_module(module), name)(channel, argument)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code & 255)


def _only(channel: int, output: int, report: socket.socket) -> int:
    """Close every descriptor but the channel and the report's socket; output goes to the pipe."""
    import fcntl

    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    moved = fcntl.fcntl(channel, fcntl.F_DUPFD_CLOEXEC, _CHANNEL)
    for low, high in ((3, report.fileno()), (report.fileno() + 1, moved), (moved + 1, os.sysconf("SC_OPEN_MAX"))):
        os.closerange(low, high)
    # New objects: those of the fork server think that they write to its log.
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        stream = _stream(number)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    return moved


def _stream(number: int) -> TextIO:
    """Lines are written as they come, so that a guest that is ended has said what it said."""
    return open(number, "w" if number else "r", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
