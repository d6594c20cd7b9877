"""How does a guest start within milliseconds? It is forked from a process that has imported everything already.

This process never runs student code, holds nothing secret, and stays single-threaded: a fork takes only one thread
with it, and what the others held stays locked for ever.

>>> threads() >= 1
True
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
from typing import Any

from ...footprint import children
from . import kernel, wire
from .keeper import keep
from .plan import Errand, Plan

__all__ = ["BOOT", "main", "threads"]

# Run with -I and -S: no variable, no user's folder and no file that ends in .pth decides what is imported.
BOOT = "import sys; sys.path[:] = sys.argv[2:]; from rooflab.grading.sandbox.server import main; main(int(sys.argv[1]))"
_TICK_MS = 500


def threads() -> int:
    """How many threads this process has."""
    return len(os.listdir("/proc/self/task"))


def main(line: int) -> None:
    """Serve until the grader closes its end.

    Args:
        line: the descriptor of a socket: first comes the plan, then errands, each with four descriptors, or lists
            of modules to import.
    """
    control = socket.socket(fileno=line)
    with contextlib.suppress(EOFError, ConnectionError):
        first, _ = wire.receive(control)
        plan = Plan.from_dict(first["plan"])
        sys.prefix, sys.exec_prefix = first["prefix"]
        _add_builtins()
        os.umask(0o077)
        kernel.become_subreaper()
        kernel.set_dumpable(False)
        _serve(control, plan)


def _add_builtins() -> None:
    """What the module ``site`` gives every program, without its search for packages."""
    import site

    for name in ("setquit", "setcopyright", "sethelper"):
        getattr(site, name)()
    assert hasattr(builtins, "exit")


def _serve(control: socket.socket, plan: Plan) -> None:
    keepers: set[int] = set()
    waiting = select.poll()
    waiting.register(control, select.POLLIN)
    while True:
        ready = waiting.poll(_TICK_MS)
        _reap(keepers)
        if not ready:
            continue
        message, descriptors = wire.receive(control)
        if "modules" in message:
            wire.send(control, _import(message["modules"]))
            continue
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        keeper = os.fork()
        if keeper == 0:
            _child(control, plan, Errand(**message["errand"]), descriptors)
        keepers.add(keeper)
        for descriptor in descriptors:
            os.close(descriptor)


def _child(control: socket.socket, plan: Plan, errand: Errand, descriptors: list[int]) -> None:
    """Be the keeper of one guest; never returns."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(control.detach())  # not by an object that may be collected when the number means something else
        keep(plan, errand, descriptors)
    finally:
        os._exit(0)


def _import(modules: list[str]) -> dict[str, Any]:
    for name in modules:
        try:
            importlib.import_module(name)
        except BaseException as error:
            return {"module": name, "error": f"{type(error).__name__}: {error}"}
    gc.collect()
    gc.freeze()  # collections in guests then leave these objects alone, and their pages shared
    return {"threads": threads()}


def _reap(keepers: set[int]) -> None:
    """Collect keepers that have ended; what a killed keeper left behind has come here, and is ended."""
    with contextlib.suppress(ChildProcessError):
        while True:
            ended, _ = os.waitpid(-1, os.WNOHANG)
            if ended == 0:
                break
            keepers.discard(ended)
    for process in children(os.getpid()):
        if process not in keepers:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
