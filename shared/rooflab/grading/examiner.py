"""The grader's own process that runs checks: it loads everything once, and forks for each submission.

Each submission is examined in a fork, so that nothing that a check does to the process (a module's state, a seed, a
monkeypatch of an instructor's) is left for the next student, and a check that hangs or crashes is ended from outside.
It runs no code of a student.

The fork and its keeper (:mod:`rooflab.grading.slot`) exchange messages over a socket of their own:

    job {lab, plan, secret, level, times}                      from the keeper
    start {what}                                               <- the socket of a process of the student's
    hold {what, still}                                         <- held
    end {what, reason}                                         <- ended {why}
    outcome {json, loaded}                                     the last word

What the checks of one submission had to load (torch.testing alone loads 500 modules when it is first used) is loaded
here before the next fork: the keeper sends the list back over the control socket.

>>> (here, there), (given, other) = socket.socketpair(), socket.socketpair()
>>> send_socket(here, given)
>>> with receive_socket(there) as received:
...     received.send(b"over"), other.recv(4)
(4, b'over')
>>> [one.close() for one in (here, there, given, other)]
[None, None, None, None]
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from rooflab.scratch import remove_left

from .cellshell import make_shell
from .channel import Channel, Ended
from .lab import LabNotebook
from .provider import Times
from .rebuild import Plan, Step
from .sandbox import kernel
from .session import Session

__all__ = ["MOST_LEARNED", "main", "receive_socket", "send_socket"]

_LIMIT = 2**31
_PARENT_DEATH_SIGNAL = 1
MOST_LEARNED = 2**20


def main(arguments: list[str]) -> None:
    """Fork for each socket that comes over a control socket, until its other end is closed.

    Args:
        arguments: the descriptor of the control socket; the folder of the slot, removed when the keeper was killed.
    """
    control = socket.socket(fileno=int(arguments[0]))
    warm = importlib.import_module("rooflab.grading.warm")
    shell = make_shell()
    warm.rehearse(shell)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the keeper decides when to end
    control.sendall(b"!")
    gc.collect()
    gc.freeze()  # collections in forks then leave these objects alone, and their pages shared
    me = os.getpid()
    while (job := receive_socket(control)) is not None:
        if job.family != socket.AF_UNIX or job.type != socket.SOCK_STREAM:
            _learn(job)
        elif os.fork() == 0:
            _end_with(me)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a check that runs a program waits for it
            control.close()
            code = 1
            try:
                _examine(job, shell)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        job.close()
    _leave(Path(arguments[1]))


def _learn(job: socket.socket) -> None:
    """Load the modules of which a list comes, in its order."""
    for name in json.loads(job.recv(MOST_LEARNED)):
        if name not in sys.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _end_with(parent: int) -> None:
    """Let the kernel end this fork with its parent: a check that hangs looks at nothing."""
    if sys.platform == "linux":
        kernel.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _leave(folder: Path) -> None:
    """Clean up behind a keeper that was killed, and end with all forks."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(os.getpid(), signal.SIGTERM)  # the forks
    shutil.rmtree(folder, ignore_errors=True)
    remove_left(folder.parent)
    os.killpg(os.getpid(), signal.SIGKILL)


class _Keeper:
    """The keeper's end as a provider of students' processes."""

    def __init__(self, channel: Channel, sock: socket.socket) -> None:
        self.channel, self.sock = channel, sock

    def start(self, what: str) -> socket.socket:
        self.channel.send({"kind": "start", "what": what})
        self.sock.setblocking(True)
        given = receive_socket(self.sock)
        self.sock.setblocking(False)
        if given is None:
            raise Ended("the grader's keeper is gone")
        return given

    def hold(self, what: str, still: bool) -> None:
        self.channel.send({"kind": "hold", "what": what, "still": still})
        self.channel.receive(limit=_LIMIT)

    def end(self, what: str, reason: str) -> str:
        self.channel.send({"kind": "end", "what": what, "reason": reason})
        head, _ = self.channel.receive(limit=_LIMIT)
        return str(head.get("why") or "")


def _examine(job: socket.socket, shell: Any) -> None:
    from .examine import examine

    channel = Channel(job)
    head, _ = channel.receive(limit=_LIMIT)
    lab = LabNotebook.from_json(head["lab"])
    plan = Plan(
        tuple(Step(**step) for step in head["plan"]["steps"]),
        head["plan"]["answers"],
        tuple(head["plan"]["remarks"]),
        tuple(head["plan"]["lacking"]),
    )
    _limit(head["memory_bytes"])
    session = Session(_Keeper(channel, job), Times(**head["times"]))
    sys.path[:0] = head["paths"]
    before = set(sys.modules)
    outcome = examine(lab, plan, session, shell, head["secret"], head["level"])
    loaded = [name for name in list(sys.modules) if name not in before]
    channel.send({"kind": "outcome", "json": outcome.to_json(), "loaded": loaded})


def _limit(memory_bytes: int) -> None:
    """Let a check fail that takes ever more memory, as of an answer that never ends; the machine is others' too."""
    status = Path("/proc/self/status")
    if not status.exists():
        return
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmData:"))
    most = 1024 * int(line.split()[1]) + memory_bytes
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def send_socket(control: socket.socket, given: socket.socket) -> None:
    """Hand a socket over a blocking Unix socket."""
    socket.send_fds(control, [b"#"], [given.fileno()])


def receive_socket(control: socket.socket) -> socket.socket | None:
    """Return the socket that comes over a blocking Unix socket, or None where the other end has closed."""
    data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
    if not data or not descriptors:
        for descriptor in descriptors:
            os.close(descriptor)
        return None
    return socket.socket(fileno=descriptors[0])


if __name__ == "__main__":
    main(sys.argv[1:])
