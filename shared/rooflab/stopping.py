"""How does a command end when it is told to: by Ctrl-C, by ``kill``, or by a terminal that closes?

All of them raise KeyboardInterrupt, so that kernels are ended and results kept on the way out; the exit code tells
which it was.

>>> with stop_on_signals():
...     try:
...         signal.raise_signal(signal.SIGTERM)
...     except KeyboardInterrupt:
...         print(reason(), exit_code())
SIGTERM 143
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .footprint import children

__all__ = ["at_a_good_moment", "exit_code", "kill_tree", "reason", "received", "stop_on_signals"]

_received: list[int] = []
_patient: list[bool] = []  # not empty inside `at_a_good_moment`: whether it speaks


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first signal, and leave what cleans up then alone; the third ends all at once.

    A signal that is ignored, as `nohup` ignores SIGHUP, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may ask for signals
        return
    _received.clear()
    names = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in names}
    hook = sys.unraisablehook
    sys.unraisablehook = functools.partial(_lost, hook)
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook


def _lost(hook: Callable[[Any], None], told: Any) -> None:
    """Stop again a little later where Python has dropped the exception: in a destructor, or when a reference dies."""
    if told.exc_type is None or not issubclass(told.exc_type, KeyboardInterrupt) or len(_received) != 1:
        hook(told)
        return
    again = threading.Timer(0.05, os.kill, (os.getpid(), _received.pop()))
    again.daemon = True
    again.start()


def _stop(number: int, frame: object) -> None:
    _received.append(number)
    if _patient and len(_received) == 1:
        if _patient[0]:
            with contextlib.suppress(OSError):
                os.write(2, b"\nrooflab: stopping soon, with a checkpoint; once more, and it stops at once.\n")
        return
    if len(_received) == 1 or _patient:
        _patient.clear()
        del _received[1:]  # what comes next is the second that counts
        raise KeyboardInterrupt
    if len(_received) > 2:
        os._exit(exit_code())
    with contextlib.suppress(OSError):
        os.write(2, b"\nrooflab: stopping already; once more, and it stops without cleaning up.\n")


@contextlib.contextmanager
def at_a_good_moment(patient: bool = True, *, aloud: bool = True) -> Iterator[Callable[[], bool]]:
    """Do not raise at the first signal, but tell by what is yielded that one came; the second raises at once.

    Without `patient`, or where nobody asks for signals, they raise as they do elsewhere. With `aloud` the first signal
    is answered by a sentence: of several processes that are stopped together one does that.
    """
    before = len(_received)
    _patient.extend([aloud] * patient)
    try:
        yield lambda: len(_received) > before
    finally:
        _patient.clear()


def received() -> int:
    """How many signals came since `stop_on_signals` began."""
    return len(_received)


def reason() -> str:
    """What stopped the command, in words."""
    number = _received[0] if _received else signal.SIGINT
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


def exit_code() -> int:
    """The exit code of a command that was stopped: 128 and the number of the signal, as shells have it."""
    return 128 + (_received[0] if _received else signal.SIGINT)


def kill_tree(process: subprocess.Popen[Any]) -> None:
    """End a process and all that it started; those that it has disowned are not found."""
    if process.poll() is not None:
        return
    if hasattr(signal, "SIGSTOP"):
        process.send_signal(signal.SIGSTOP)  # it starts no more while we look
    found, waiting = [], children(process.pid)
    while waiting:
        found.append(waiting.pop())
        waiting += children(found[-1])
    process.kill()
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
