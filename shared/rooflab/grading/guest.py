"""What runs inside of the sandbox: a student's cells, and calls of the student's functions.

Nothing here is trusted by the grader. It runs in the same process as the student's code, which can change all of it;
what it sends is data. It is told which cells to run and what to call, and knows no check, no solution and no score.

Requests and their answers, each a message of :class:`rooflab.grading.channel.Channel`:

    run {source}                      -> done {error}, value: the outputs of the cell
    names [name]                      -> done, value: {name: plain data or a handle}
    call {target}, (args, kwargs)     -> done {error, printed}, value: (result, changed arguments)
    attribute {target, name}          -> done {error}, value: what it is
    timer {target|probe, recipes, device, framework}  -> done {timer}: something to time (see timed)
    go {timer, seed, key, calls}      -> done {digest}: timed calls
    fetch {timer}                     -> done, value: the bytes of the last one's results
    blocks {timer, call, blocks}      -> done, value: parts of one's results
    device                            -> done {error}: whether its GPU, if it uses one, can still be used
    (meanwhile) callback {number}, args <- reply {error}, value

>>> describe(KeyError("x"))["message"]
'x'
"""

from __future__ import annotations

import contextlib
import gc
import io
import socket
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .cellshell import CellOutputs, make_shell
from .channel import Channel, Ended
from .codec import NotPlain, Refused, pack
from .remote import raised as rebuilt

__all__ = ["describe", "serve"]

_MOST_PRINTED = 20_000  # of one call
_LIMIT = 2**31
_MOST_OBJECTS = 10_000
_MOST_CHANGED = 8 * 2**20
# Special methods that a check may use on a student's object.
_OPERATORS = frozenset({
    "__len__", "__getitem__", "__setitem__", "__contains__", "__iter__", "__next__", "__repr__", "__str__", "__add__",
    "__sub__", "__mul__", "__doc__", "__name__", "__annotations__",
})  # fmt: skip


def serve(descriptor: int, argument: dict[str, Any]) -> None:
    """Answer requests until the grader closes the connection."""
    sys.path[:0] = ["", *map(str, argument.get("paths", ()))]  # with the modules that students write, as in Jupyter
    guest = _Guest(Channel(socket.socket(fileno=descriptor)))
    with contextlib.suppress(Ended, Refused):
        while True:
            guest.answer()


class _Guest:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.shell = make_shell()
        self.objects: dict[int, object] = {}
        self.numbers: dict[tuple[object, ...], int] = {}
        self.timers: list[tuple[Any, Any]] = []

    def answer(self) -> None:
        self.respond(*self.channel.receive(limit=_LIMIT, handle=self.thing))

    def respond(self, head: dict[str, Any], value: Any) -> None:
        kind = head.get("kind")
        if kind == "run":
            self.run(str(head["source"]))
        elif kind == "names":
            self.names(value)
        elif kind == "call":
            self.call(self.objects[int(head["target"])], *value)
        elif kind == "attribute":
            self.attribute(self.objects[int(head["target"])], str(head["name"]))
        elif kind == "timer":
            self.timer(head)
        elif kind == "go":
            self.go(int(head["timer"]), int(head["seed"]), int(head["key"]), int(head["calls"]))
        elif kind == "device":
            self.device()
        elif kind == "fetch":
            self.told(self.timers[int(head["timer"])][0].fetch)
        elif kind == "blocks":
            self.told(self.timers[int(head["timer"])][0].blocks, int(head["call"]), head["blocks"])

    def names(self, wanted: list[str]) -> None:
        """Tell what names stand for; one that is too deep or too long to be sent does not cost the others."""
        space = self.shell.user_ns
        found = {name: space[name] for name in wanted if name in space}
        try:
            self.channel.send({"kind": "done"}, found, handle=self.handle)
        except (NotPlain, ValueError, RecursionError, MemoryError):
            self.reply({}, {name: thing for name, thing in found.items() if _can_be_sent(thing)})

    def run(self, source: str) -> None:
        outputs = CellOutputs(self.shell)
        with outputs:
            result = self.shell.run_cell(source, store_history=False)
        error = result.error_before_exec or result.error_in_exec
        self.reply({"error": describe(error) if error is not None else None}, outputs.collected)

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        before = _bytes_of((args, kwargs))
        printed, error, result = io.StringIO(), None, None
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(sys.stdout):
                result = function(*args, **kwargs)
        except BaseException as raised:  # a student's code may raise anything, and it is only told
            error = describe(raised)
        changed = None
        if before is not None and before != _bytes_of((args, kwargs)):
            changed = (args, kwargs)
        text = printed.getvalue()
        cut = text[:_MOST_PRINTED] + ("\n[more was printed]\n" if len(text) > _MOST_PRINTED else "")
        self.reply({"error": error, "printed": cut}, (result, changed))

    def attribute(self, thing: Any, name: str) -> None:
        try:
            if name.startswith("_") and name not in _OPERATORS:
                raise AttributeError(f"{name} is private")
            found = getattr(thing, name)
        except BaseException as raised:
            self.reply({"error": describe(raised)})
        else:
            self.reply({"error": None}, found)

    def timer(self, head: dict[str, Any]) -> None:
        """Make ready to time a function of the student's, or (in a process without a student) a probe."""
        from .timed import Timed, probe_function, recipes_of

        device, probe = str(head["device"]), head.get("probe")
        try:
            function = probe_function(probe, device) if probe else self.objects[int(head["target"])]
            for earlier, _ in self.timers:  # whose results have been looked at: the next ones need the room
                earlier.calls = []
            timed = Timed(recipes_of(head["recipes"]), device, str(head["framework"]))
            self.timers.append((timed, function))
        except BaseException as raised:
            self.reply({"error": describe(raised)})
        else:
            self.reply({"error": None, "timer": len(self.timers) - 1})

    def go(self, number: int, seed: int, key: int, calls: int) -> None:
        timed, function = self.timers[number]
        try:
            digest = timed.go(function, seed, key, calls)
        except BaseException as raised:
            self.channel.send({"kind": "done", "error": describe(raised)})
        else:
            self.channel.send({"kind": "done", "error": None, "digest": digest})

    def told(self, what: Any, *args: Any) -> None:
        """Reply with parts of results, or with the reason why there are none: another process could not read them."""
        try:
            value = what(*args)
        except BaseException as raised:
            self.reply({"error": describe(raised)})
        else:
            self.reply({"error": None}, value)

    def device(self) -> None:
        try:
            _look_at_gpu()
        except BaseException as raised:
            self.channel.send({"kind": "done", "error": describe(raised)})
        else:
            self.channel.send({"kind": "done", "error": None})

    def reply(self, head: dict[str, Any], value: object = None) -> None:
        kept = len(self.objects)
        try:
            self.channel.send({"kind": "done", **head}, value, handle=self.handle)
        except (NotPlain, ValueError, RecursionError, MemoryError) as error:
            for number in range(kept, len(self.objects)):  # of an answer that is not sent
                del self.numbers[_key(self.objects.pop(number))]
            self.channel.send({"kind": "done", **head, "error": describe(error)})

    def handle(self, thing: object) -> dict[str, Any]:
        """Keep an object that is no plain data; the grader gets its number and its kind."""
        number = self.numbers.get(_key(thing), len(self.objects))
        if number >= _MOST_OBJECTS:
            raise NotPlain(thing)
        self.objects[number], self.numbers[_key(thing)] = thing, number
        kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
        return {"~": "handle", "n": number, "callable": callable(thing), "type": kind}

    def thing(self, tree: dict[str, Any]) -> Any:
        """What a handle in a request stands for: an object of this process, a path, or a function of the grader."""
        if "path" in tree:
            return Path(str(tree["path"]))
        if tree.get("mine"):
            return self.objects[int(tree["n"])]
        number = int(tree["n"])

        def function(*args: Any, **kwargs: Any) -> Any:
            self.channel.send({"kind": "callback", "number": number}, (args, kwargs), handle=self.handle)
            head, value = self.channel.receive(limit=_LIMIT, handle=self.thing)
            while head.get("kind") != "reply":  # the grader's function calls one of the student's
                self.respond(head, value)
                head, value = self.channel.receive(limit=_LIMIT, handle=self.thing)
            if head.get("error"):
                raise rebuilt(head["error"])
            return value

        return function


def _look_at_gpu() -> None:
    """Raise where CUDA or ROCm has failed, for which there is no cure within a process, or memory is not given back."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        if free < total / 2:
            raise MemoryError(f"{free:,} of {total:,} bytes of the GPU are free")
    if jax is not None and jax.default_backend() != "cpu":
        jax.numpy.zeros(1).block_until_ready()


def _key(thing: Any) -> tuple[object, ...]:
    """What tells an object that is kept from others: a method is made anew each time that it is looked up."""
    if isinstance(thing, types.MethodType | types.MethodWrapperType):
        return id(thing.__self__), thing.__name__
    return (id(thing),)


def _can_be_sent(thing: object) -> bool:
    try:
        pack(thing, lambda found: {})
    except (NotPlain, ValueError, RecursionError, MemoryError):
        return False
    return True


def _bytes_of(value: object) -> object:
    """The bytes of arguments, to see whether a call has changed them; None where they are large, or no plain data."""
    try:
        tree, blobs = pack(value)
    except (NotPlain, ValueError, RecursionError):
        return None
    return (repr(tree), blobs) if sum(map(len, blobs)) <= _MOST_CHANGED else None


def describe(error: BaseException) -> dict[str, Any]:
    """Return an exception as plain data: its built-in type, its message, and the student's lines of the traceback."""
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    try:
        only = error.args[0] if len(error.args) == 1 else error
        message = str(only)[:2000]
        if isinstance(error, SyntaxError):  # without the name of a file that nobody has
            message = f"{error.msg} (line {error.lineno} of the cell)"[:2000]
    except BaseException:  # the student's own __str__
        message = ""
    lines = list(_lines(error))
    names = {"type": type(error).__name__[:100], "module": str(type(error).__module__)[:100], "builtin": kinds[0]}
    return {**names, "message": message, "lines": lines[-12:]}


def _lines(error: BaseException) -> Iterator[str]:
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(("<ipython-input", "/tmp/ipykernel")) or "ipython-input" in frame.filename:
            yield f"line {frame.lineno}, in {frame.name}: {(frame.line or '')[:200]}"
    if isinstance(error, SyntaxError):
        yield f"line {error.lineno}: {(error.text or '').strip()[:200]}"
