"""How does the grader hold one guest: talk to it, see how it fares, and end it?

Nothing that comes from a guest is believed: its output is text to show, and why it ended is told by its keeper.

>>> ending({"signal": 11})
'It crashed with signal 11 (SIGSEGV).'
>>> ending({"code": 0})
'It ended its own process.'
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import memory
from .limits import Limits

__all__ = ["Guest", "Ties", "ending"]

# How long a guest that was told to end may take before its whole sandbox is given up.
PATIENCE_S = 10.0


@dataclass
class Ties:
    """What binds a guest to its sandbox.

    Attributes:
        report: the grader's end of the keeper's socket.
        output: the grader's end of the pipe for the guest's output.
        keeper: the process that stays beside the guest.
        files: measures the bytes of the guest's files on disk; None where a limit of the file system holds.
        give_up: called when the guest cannot be ended.
        release: called once, when it has ended and is closed.
    """

    report: socket.socket
    output: int
    keeper: int
    files: Callable[[], int] | None
    give_up: Callable[[], None]
    release: Callable[[], None]


def ending(outcome: Mapping[str, int]) -> str:
    """Why a process that nobody else ended has ended, in one sentence."""
    number = outcome.get("signal")
    if number is None:
        code = outcome.get("code", 0)
        return f"It ended its own process, with exit code {code}." if code else "It ended its own process."
    if number == signal.SIGXCPU:
        return "It was stopped by the system: it used up its processor time."
    if number == signal.SIGKILL:
        return "It was stopped by the system (SIGKILL), as happens where memory runs out."
    with contextlib.suppress(ValueError):
        return f"It crashed with signal {number} ({signal.Signals(number).name})."
    return f"It crashed with signal {number}."


class Guest:
    """One sealed process that runs student code, and all that it starts.

    Attributes:
        channel: the grader's end of the socket; whatever is read from it may be a lie.
        pid: the guest's number among the processes of the grader.
        held: what its keeper says holds it.
    """

    def __init__(self, channel: socket.socket, pid: int, limits: Limits, *, held: Mapping[str, Any], ties: Ties):
        self.channel, self.pid, self.held = channel, pid, held
        self._limits, self._ties = limits, ties
        self._lock = threading.Lock()
        self._gone = threading.Event()
        self._reason = ""  # why the grader ended it
        self._why = ""
        self._last_word = ""
        self._kept = bytearray()
        self._dropped = 0
        self._over_memory = False
        self._release: Callable[[], None] | None = ties.release

    def __enter__(self) -> Guest:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def alive(self) -> bool:
        """Whether it, or anything that it has started, may still run."""
        return not self._gone.is_set()

    def wait(self, timeout_s: float | None = None) -> str | None:
        """Wait for its end; why it ended, in one sentence, or None when it has not."""
        return self._why if self._gone.wait(timeout_s) else None

    def output(self) -> str:
        """What it has written to standard output and standard error so far, with a note where some was dropped."""
        with self._lock:
            text, dropped = self._kept.decode("utf-8", "replace"), self._dropped
        return text + (f"\n[output cut here: {dropped:,} more bytes were dropped]" if dropped else "")

    def over_memory(self) -> bool:
        """Whether its processes hold more memory than they may, now or at any time before."""
        if not self._over_memory and self.alive():
            limit = self._limits.memory_bytes
            self._over_memory = memory.held_bytes(memory.tree(self._ties.keeper)[1:], at_least=limit) > limit
        return self._over_memory

    def kill(self, reason: str) -> None:
        """End it and all that it has started, whatever they do; returns when that is done.

        Args:
            reason: told by `wait`, as in "no answer within 10 s"; the first reason stays.
        """
        self.begin_kill(reason)
        if not self._gone.wait(PATIENCE_S):
            # Whoever sees its end first is to say this, and not that its keeper was killed.
            self._last_word = f"It was stopped by the grader: {self._reason or reason} (and its sandbox with it)."
            memory.end_tree(self._ties.keeper)
            self._ties.give_up()
            self.gone({})

    def begin_kill(self, reason: str) -> None:
        """Ask for its end without waiting for it."""
        if self._gone.is_set():
            return
        self._reason = self._reason or reason
        with contextlib.suppress(OSError):
            self._ties.report.send(b"end", socket.MSG_DONTWAIT)

    def hold(self, still: bool) -> None:
        """Let nothing of it run, or let it go on; what it computes on a GPU goes on in any case."""
        if not self._gone.is_set():
            (memory.stop_tree if still else memory.continue_tree)(self._ties.keeper)

    def close(self) -> None:
        """End it if it still runs, and give back all that it held. May be called again."""
        self.kill("it was no longer needed")
        self.channel.close()
        with self._lock:
            release, self._release = self._release, None
        if release is not None:
            release()

    # The rest is called by the thread that watches over all guests of a sandbox.

    def look(self) -> None:
        """Compare what it holds with its limits, and begin to end it when it holds too much."""
        limits = self._limits
        if self._reason or self._gone.is_set():
            return
        if self.over_memory():
            self.begin_kill(f"its processes held more than {_mebibytes(limits.memory_bytes)} of memory")
        elif self._ties.files is not None and self._ties.files() > limits.disk_bytes:
            self.begin_kill(f"its files held more than {_mebibytes(limits.disk_bytes)}")
        elif len(memory.tree(self._ties.keeper)) - 2 > limits.processes:
            self.begin_kill(f"it started more than {limits.processes} processes")

    def drain(self) -> bool:
        """Take what it has written, a bounded amount at a time; False when no one is left to write."""
        try:
            data = os.read(self._ties.output, 2**16)
        except BlockingIOError:
            return True
        with self._lock:
            room = max(0, self._limits.output_bytes - len(self._kept))
            self._kept += data[:room]
            self._dropped += len(data) - min(room, len(data))
        return bool(data)

    def full(self) -> bool:
        """Whether it has written all that is kept."""
        return self._dropped > 0

    def gone(self, outcome: Mapping[str, int], why: str = "") -> None:
        """Note that nothing of it is left."""
        with self._lock:
            if self._gone.is_set():
                return
            stopped = self._reason and outcome.get("signal", signal.SIGKILL) == signal.SIGKILL
            told = f"It was stopped by the grader: {self._reason}." if stopped else ending(outcome)
            self._why = self._last_word or why or told
            self._gone.set()

    @property
    def ties(self) -> Ties:
        """What binds it to its sandbox."""
        return self._ties


def _mebibytes(number: int) -> str:
    return f"{number / 2**20:,.0f} MiB"
