"""How does a process end together with the one that started it, however that one ends?

It reads a pipe whose other end its parent holds. The pipe closes when the parent ends, also by SIGKILL, and then the
child ends its whole process group: itself and all that it started. Like bootstrap.py, this is for any Python since 3.6.

>>> import sys
>>> with module(sys.executable, ["platform"], stdout=subprocess.PIPE) as process:
...     said = process.stdout.read()
>>> process.returncode
0
"""

import contextlib
import os
import signal
import subprocess

__all__ = ["module", "stop_on_signals"]

_RUN = """
import os, runpy, signal, sys, threading
def end_with_parent():
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=end_with_parent, daemon=True).start()
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@contextlib.contextmanager
def module(python, arguments, cwd=None, stdout=None):
    """Run ``python -m`` with the arguments in a process group of its own, which ends when the block is left early."""
    process = subprocess.Popen(
        [python, "-c", _RUN, *arguments], cwd=cwd, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
        process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()
        if process.stdout is not None:
            process.stdout.close()


def stop_on_signals():
    """Let SIGTERM and SIGHUP end this process as Ctrl-C does: KeyboardInterrupt, with the signal's number."""

    def stop(number, frame):
        for each in handled:  # once is enough: what cleans up is not to be interrupted
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handled = [number for number in names if signal.getsignal(number) != signal.SIG_IGN]
    for number in handled:
        signal.signal(number, stop)
