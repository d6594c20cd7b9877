"""A student's process, as the grader sees it: functions that can be called, and data.

A function of the student stands in the checks as a :class:`rooflab.grading.remote.RemoteFunction`: called with plain
data, it sends them to the student's process, waits for the answer until its time is over, and returns plain data or
raises the student's error as an exception of the same built-in type. A process that hangs or dies, or whose GPU has
failed or is full after an error, is replaced by a fresh one, in which the cells are run again, so that one exercise
never costs the others.

>>> Session(provider=None, times=Times(call_s=10)).deadline() > time.monotonic()
True
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any

from .channel import Channel, Ended, Late
from .codec import NotPlain, Refused
from .provider import KERNEL, STUDENT, GuestProvider, Ran, Times
from .rebuild import Step
from .remote import RemoteFunction, RemoteObject, StudentError, Unsupported, change, identity, raised

__all__ = ["Session"]

_LIMIT = 256 * 2**20
_MOST_CALLBACKS = 100_000
_MOST_PRINTED = 20_000  # of one call
_MOST_PRINTED_IN_ALL = 2**20
_OF_DEVICES = ("RuntimeError", "MemoryError")  # the built-in kinds of what CUDA, ROCm, XLA and Triton raise


class Session:
    """The student's process, replaced when it has ended."""

    def __init__(self, provider: GuestProvider, times: Times, show: Callable[[str], None] = lambda text: None) -> None:
        self.provider, self.times, self.show = provider, times, show
        self.until = time.monotonic() + times.total_s
        self.generation = 0
        self.channel: Channel | None = None
        self.done: list[Step] = []
        self.callbacks: dict[int, Callable[..., Any]] = {}
        self.printable = _MOST_PRINTED_IN_ALL
        self.still = False  # whether the process is held while others are timed or the grader verifies
        self.held_at = 0.0
        self.doubtful = False  # whether its GPU may be of no use any more
        self.changed = False  # whether a call has changed its arguments
        self.withhold = False  # one of the two, where a call returns something and changes its arguments

    def run(self, step: Step) -> Ran:
        """Run one cell in the student's process."""
        self.renew()
        ran = self._run(step)
        generation = self.generation
        self.renew()
        # A cell that hung, ended the process or broke the GPU is not run again.
        if generation == self.generation and (ran.error is None or ran.error.get("type") != "StudentError"):
            self.done.append(step)
        return ran

    def values(self, names: Iterable[str]) -> dict[str, Any]:
        """Return what these names stand for in the student's process, without those that it does not know."""
        wanted = list(names)
        head, value = self._ask({"kind": "names"}, wanted)
        return value if type(value) is dict and set(value) <= set(wanted) and not head.get("error") else {}

    def call(
        self, target: int, generation: int, args: tuple[Any, ...], kwargs: dict[str, Any], *, ends: bool = False
    ) -> Any:
        """Call an object of the student's process; used by RemoteFunction.

        Args:
            target: its number.
            generation: of the process.
            args: plain data, and functions.
            kwargs: the same.
            ends: StopIteration is an answer, as of an iterator.
        """
        self._same(generation)
        head, value = self._ask({"kind": "call", "target": target}, (args, kwargs))
        if type(printed := head.get("printed")) is str and printed:
            self.show(printed[: min(_MOST_PRINTED, self.printable)])
            self.printable -= min(len(printed), self.printable)
        if head.get("error"):
            error = raised(self._doubt(head["error"]))
            if isinstance(error, StopIteration) and not ends:
                # Python itself would take it for the end of a check's own `map` or `zip`, and see no case at all.
                raise RuntimeError(f"StopIteration: {error}") from error
            raise error
        if type(value) is not tuple or len(value) != 2:
            raise StudentError("the answer cannot be read")
        result, changed = value
        if type(changed) is tuple and len(changed) == 2:
            self.changed = True
            if result is None or not self.withhold:
                change(args, changed[0])
                change(kwargs, changed[1])
            if result is None and self.withhold:
                return object()  # equal to nothing, not even to what was made of the changes
        return result

    def attribute(self, target: int, generation: int, name: str) -> Any:
        """Return an attribute of an object of the student's process."""
        self._same(generation)
        head, value = self._ask({"kind": "attribute", "target": target, "name": name})
        if head.get("error"):
            raise raised(head["error"])
        return value

    def request(self, head: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Send a request to the student's process and return its answer; raises the error that it tells."""
        told, value = self._ask(head)
        if told.get("error"):
            raise raised(self._doubt(told["error"]))
        return told, value

    def renew(self) -> None:
        """Replace the process if an error has left it with a GPU that fails or is full: the next exercise needs one."""
        if self.doubtful and self.channel is not None:
            self.doubtful = False
            with contextlib.suppress(StudentError):
                head, _ = self._ask({"kind": "device"})
                if head.get("error"):
                    self._lost("its GPU could not be used any more")

    def traffic(self, source: str, name: str, grid: tuple[int, ...], given: tuple[Any, Any]) -> dict[str, Any]:
        """Count a kernel in a fresh process that runs nothing else; returns the fields of Traffic."""
        channel = Channel(self.provider.start(KERNEL))
        deadline = min(time.monotonic() + self.times.call_s, self.until)
        try:
            channel.send({"kind": "traffic", "source": source, "name": name, "grid": grid}, given, deadline=deadline)
            head, value = channel.receive(limit=_LIMIT, deadline=deadline)
        except Late:
            raise StudentError(f"the kernel took longer than the {self.times.call_s:g} s that are allowed") from None
        except (Ended, Refused) as error:
            why = self.provider.end(KERNEL, "")
            raise StudentError(f"the kernel could not be counted: {why or error}") from None
        finally:
            channel.close()
            self.provider.end(KERNEL, "counted")
        if head.get("error"):
            raise raised(head["error"])
        if type(value) is not dict:
            raise StudentError("the count of the kernel cannot be read")
        return value

    def hold(self, still: bool) -> None:
        """Let nothing of the student's run while something else is timed or verified; or let it go on.

        What passes meanwhile is no time of the student's.
        """
        if still != self.still and self.channel is not None:
            self.provider.hold(STUDENT, still)
            if still:
                self.held_at = time.monotonic()
            else:
                self.until += time.monotonic() - self.held_at
            self.still = still

    def deadline(self) -> float:
        """Until when something that begins now has to be done."""
        now = time.monotonic()
        return min(now + self.times.call_s, self.until + (now - self.held_at if self.still else 0.0))

    def close(self) -> None:
        """End the student's process."""
        if self.channel is not None:
            self.channel.close()
            self.channel = None
            self.provider.end(STUDENT, "graded")

    def _same(self, generation: int) -> None:
        if generation != self.generation:
            raise StudentError("the process of this function has ended, and a fresh one has taken its place")

    def _run(self, step: Step) -> Ran:
        try:
            head, value = self._ask({"kind": "run", "source": step.source})
        except StudentError as error:
            return Ran({"type": "StudentError", "builtin": "RuntimeError", "message": str(error), "lines": []})
        told = self._doubt(head.get("error"))
        return Ran(told if type(told) is dict else None, value if type(value) is list else [])

    def _doubt(self, told: Any) -> Any:
        """Remember an error after which the GPU has to be looked at."""
        self.doubtful |= type(told) is dict and told.get("builtin") in _OF_DEVICES
        return told

    def _ask(self, head: dict[str, Any], value: object = None) -> tuple[dict[str, Any], Any]:
        """Send a request and return the answer, serving callbacks meanwhile."""
        self.hold(False)
        channel = self._connected()
        deadline = self.deadline()
        try:
            try:
                channel.send(head, value, deadline=deadline, handle=self._handle)
            except NotPlain as error:
                raise Unsupported(f"this check hands over an object: {error}") from None
            for _ in range(_MOST_CALLBACKS):
                told, answer = channel.receive(limit=_LIMIT, deadline=deadline, handle=self._thing)
                if told.get("kind") != "callback":
                    return told, answer
                self._callback(channel, told, answer, deadline)
            raise Refused("it called back too often")
        except Late:
            limit = self.times.call_s if deadline < self.until else self.times.total_s
            scope = "for one call" if deadline < self.until else "for everything"
            self._lost(f"it took longer than the {limit:g} s that are allowed {scope}")
        except Ended:
            self._lost("")
        except Refused as error:
            self._lost(str(error))
        raise AssertionError

    def _callback(self, channel: Channel, told: dict[str, Any], answer: Any, deadline: float) -> None:
        number = told.get("number")
        function = self.callbacks.get(number) if type(number) is int else None
        if function is None or type(answer) is not tuple or [type(part) for part in answer] != [tuple, dict]:
            raise Refused("it called back a function that is none of the grader's")
        try:
            result, error = function(*answer[0], **answer[1]), None
        except (Exception, Unsupported) as failure:
            result, error = None, _named(failure)
        try:
            channel.send({"kind": "reply", "error": error}, result, deadline=deadline, handle=self._handle)
        except (NotPlain, ValueError) as failure:  # nothing has been sent yet
            channel.send({"kind": "reply", "error": _named(failure)}, deadline=deadline)

    def _connected(self) -> Channel:
        if time.monotonic() > self.until:
            raise StudentError(f"everything together took longer than the {self.times.total_s:g} s that are allowed")
        while self.channel is None:
            self.channel, self.still = Channel(self.provider.start(STUDENT)), False
            self.generation += 1
            self._greet(self.channel)
            for step in tuple(self.done):
                self._run(step)
                if self.channel is None:  # it has ended the process this time: without it, from the start
                    self.done.remove(step)
                    break
            if time.monotonic() > self.until and self.channel is None:
                raise StudentError(
                    f"everything together took longer than the {self.times.total_s:g} s that are allowed"
                )
        return self.channel

    def _greet(self, channel: Channel) -> None:
        """Wait until a fresh process answers: what its start takes is no time of a call."""
        try:
            channel.send({"kind": "names"}, [], deadline=self.until)
            channel.receive(limit=_LIMIT, deadline=self.until)
        except Late:
            self._lost(f"everything together took longer than the {self.times.total_s:g} s that are allowed")
        except (Ended, Refused) as error:
            self._lost(str(error))

    def _lost(self, why: str) -> None:
        """Raise why the process is of no use any more; the next request gets a fresh one."""
        assert self.channel is not None
        self.channel.close()
        self.channel = None
        self.generation += 1  # objects of this process mean nothing to the next
        found = self.provider.end(STUDENT, why or "its connection was closed")
        raise StudentError(why or found or "it ended its process") from None

    def _handle(self, thing: object) -> dict[str, Any] | None:
        if isinstance(thing, RemoteObject):
            number, generation = identity(thing)
            self._same(generation)
            return {"~": "handle", "n": number, "mine": True}
        if callable(thing) and not isinstance(thing, type):
            number = len(self.callbacks)
            self.callbacks[number] = thing
            return {"~": "handle", "n": number, "mine": False}
        if isinstance(thing, PurePath):  # only from here to there: what a student names must not be read here
            return {"~": "handle", "path": str(thing)}
        return None

    def _thing(self, tree: dict[str, Any]) -> RemoteObject:
        number, kind = tree.get("n"), tree.get("type")
        if type(number) is not int or type(kind) is not str:
            raise Refused("an answer names an object that is none")
        made = RemoteFunction if tree.get("callable") is True else RemoteObject
        return made(self, number, self.generation, kind[:100])


def _named(error: BaseException) -> dict[str, Any]:
    """An exception of the grader's as the student's code sees it: its kind and message, and no line of a check."""
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    return {"type": type(error).__name__, "builtin": kinds[0], "message": str(error)[:2000]}
