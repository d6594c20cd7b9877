"""The grader's end of timed calls: functions that run in the student's process, and probes that run in a clean one.

>>> from rooflab.grading.timed import normal, plain
>>> plain([normal((2,))])[0]["kind"]
'normal'
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from .channel import Channel, Ended, Late
from .codec import Refused
from .provider import PROBE
from .remote import RemoteFunction, StudentError, Unsupported, identity
from .session import Session
from .timed import Recipe, plain

__all__ = ["Clock", "RemoteRunner"]

_LIMIT = 2**30  # bytes, of one answer of a probe, and of all answers about one reading of the clock


class RemoteRunner:
    """A timed function in another process."""

    def __init__(self, clock: Clock, number: int, *, probe: bool) -> None:
        self.clock, self.number, self.probe = clock, number, probe

    def go(self, seed: int, key: int, calls: int) -> int:
        """Run it several times; returns the digest that the other process says."""
        head = {"kind": "go", "timer": self.number, "seed": seed, "key": key, "calls": calls}
        told, _ = self.clock.ask(head, probe=self.probe)
        found = told.get("digest")
        return found if type(found) is int else -1

    def fetch(self) -> Sequence[Any]:
        """Return what the other process says are the results' bytes, and hold it while they are looked at."""
        _, value = self.clock.ask({"kind": "fetch", "timer": self.number}, probe=self.probe)
        self.clock.session.hold(True)
        return value if type(value) is list else []

    def blocks(self, which: Sequence[Sequence[int]]) -> list[Sequence[Any]]:
        """Return what it says are parts of the results of each call, and hold it while they are looked at.

        Raises:
            StudentError: they are more than the parts of any results are; all of them are kept until the last is there.
        """
        told: list[Sequence[Any]] = []
        left = _LIMIT
        for call, blocks in enumerate(which):
            head = {"kind": "blocks", "timer": self.number, "call": call, "blocks": blocks}
            _, value = self.clock.ask(head, probe=self.probe)
            fits = type(value) is list and len(value) == 2 * len(blocks)
            parts = value if fits and all(isinstance(one, np.ndarray) for one in value) else []
            left -= sum(one.nbytes for one in parts)
            if left < 0:
                raise StudentError(f"parts of the results of timed calls take more than {_LIMIT:,} bytes")
            told.append(parts)
        self.clock.session.hold(True)
        return told


class Clock:
    """Opens runners for one submission; the probes share a process that has run no code of the student's."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.channel: Channel | None = None

    def open(self, what: Any, recipes: Sequence[Recipe], device: str, framework: str) -> RemoteRunner:
        """Return a runner for a function of the student's, or for a probe given as a dict."""
        head: dict[str, Any] = {
            "kind": "timer", "recipes": plain(recipes), "device": device, "framework": framework,
        }  # fmt: skip
        probe = isinstance(what, dict)
        if probe:
            head["probe"] = what
        elif isinstance(what, RemoteFunction):
            head["target"] = identity(what)[0]
        else:
            raise Unsupported("this check times something that is no function of the student's")
        told, _ = self.ask(head, probe=probe)
        self.session.doubtful = True  # what is timed may keep so much memory that the next exercise finds none
        number = told.get("timer")
        return RemoteRunner(self, number if type(number) is int else -1, probe=probe)

    def ask(self, head: dict[str, Any], *, probe: bool) -> tuple[dict[str, Any], Any]:
        """Send a request to the student's process or to the probes' one."""
        self.session.hold(probe)  # what went on in it would slow the ceiling with which it is compared
        if not probe:
            return self.session.request(head)
        if self.channel is None:
            self.channel = Channel(self.session.provider.start(PROBE))
        deadline = self.session.deadline()
        try:
            self.channel.send(head, deadline=deadline)
            told, value = self.channel.receive(limit=_LIMIT, deadline=deadline)
        except (Ended, Late, Refused) as error:
            raise StudentError(f"the probe of the ceiling failed: {error}") from None
        if told.get("error"):
            raise Unsupported(f"the probe of the ceiling failed: {told['error'].get('message', '')}")
        return told, value

    def close(self) -> None:
        """End the probes."""
        if self.channel is not None:
            self.channel.close()
            with contextlib.suppress(Ended, Late, Refused):
                self.session.provider.end(PROBE, "timed")
