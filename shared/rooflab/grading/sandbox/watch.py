"""Who looks after all guests of a sandbox while the grader waits for an answer of one of them?

One thread: it takes their output, so that none waits for a reader, samples what they hold, and notes their ends.

>>> watch = Watch()
>>> watch.close()
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import threading
import time
from typing import Any

from . import wire
from .guest import Guest

__all__ = ["Watch"]

_TICK_S = 0.05


class Watch:
    """A thread that watches over guests."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)
        self._selector.register(self._wake, selectors.EVENT_READ, None)
        self._lock = threading.Lock()
        self._new: list[Guest] = []
        self._guests: set[Guest] = set()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="sandbox watch", daemon=True)
        self._thread.start()

    def add(self, guest: Guest) -> None:
        """Watch over one more guest."""
        with self._lock:
            self._new.append(guest)
        os.write(self._waker, b".")

    def guests(self) -> list[Guest]:
        """Those that may still run."""
        with self._lock:
            return [*self._guests, *self._new]

    def close(self) -> None:
        """Stop; guests that are left are noted as gone."""
        self._closing = True
        os.write(self._waker, b".")
        self._thread.join()
        for guest in self.guests():
            self._note_end(guest, {}, "It was stopped by the grader: its sandbox was closed.")
        self._selector.close()
        os.close(self._wake)
        os.close(self._waker)

    def _run(self) -> None:
        tick = time.monotonic() + _TICK_S
        while not self._closing:
            for key, _ in self._selector.select(max(0.0, tick - time.monotonic())):
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake, 4096)
                    self._begin()
                else:
                    self._serve(*key.data)
            if time.monotonic() >= tick:
                tick = time.monotonic() + _TICK_S
                for guest in list(self._guests):
                    try:
                        self._look(guest)
                    except Exception as error:  # whatever one guest makes fail, the others are still watched
                        guest.begin_kill(f"the grader could not watch over it ({type(error).__name__}: {error})")

    def _begin(self) -> None:
        with self._lock:
            new, self._new = self._new, []
            self._guests |= set(new)
        for guest in new:
            self._selector.register(guest.ties.report, selectors.EVENT_READ, (guest, "report"))
            self._selector.register(guest.ties.output, selectors.EVENT_READ, (guest, "output"))

    def _serve(self, guest: Guest, kind: str) -> None:
        if guest not in self._guests:  # its end came with the same batch of events
            return
        if kind == "report":
            self._hear(guest)
        elif not guest.drain() or guest.full():
            # At its end, or a flood: that is taken once in a tick, so that it costs its writer more than the reader.
            self._selector.unregister(guest.ties.output)

    def _look(self, guest: Guest) -> None:
        if guest.ties.output not in self._selector.get_map() and guest.drain():
            with contextlib.suppress(KeyError):
                self._selector.register(guest.ties.output, selectors.EVENT_READ, (guest, "output"))
        guest.look()
        if not guest.alive():  # given up from outside
            self._note_end(guest, {})

    def _hear(self, guest: Guest) -> None:
        told: dict[str, Any] = {}
        try:
            data, sender = wire.sender(guest.ties.report)
        except BlockingIOError:
            return
        except OSError:
            data, sender = b"", 0
        if data and sender != guest.ties.keeper:
            return  # no one else holds the other end; if one did, it would have nothing to say
        if data:
            told = json.loads(data).get("ended", {})
            self._note_end(guest, told)
        else:
            self._note_end(guest, {}, "It was stopped: the process that kept it was killed.")

    def _note_end(self, guest: Guest, outcome: dict[str, int], why: str = "") -> None:
        for end in (guest.ties.report, guest.ties.output):
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(end)
        with self._lock:
            self._guests.discard(guest)
            if guest in self._new:
                self._new.remove(guest)
        for _ in range(64):  # what is left in the pipe, of 1 MiB at most; whoever could write more is gone
            if not guest.drain():
                break
        os.close(guest.ties.output)
        guest.ties.report.close()
        guest.gone(outcome, why)
