"""What does a cell leave behind when it runs, and where would nbgrader see it?

>>> said, result = run("print(2)\\n1 + 2", "<cell-01>", {}, (Stream("stdout"), Stream("stderr")))
>>> said["name"], said["text"], result["data"]
('stdout', '2\\n', {'text/plain': '3'})

No kernel is started: the cell runs in this process, and what it breaks stays broken.
"""

from __future__ import annotations

import ast
import io
import linecache
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

__all__ = ["CELL_LIMIT_S", "Stream", "run"]

CELL_LIMIT_S = 20


class Stream(io.StringIO):
    """What a kernel has for stdout or stderr: its name, which can be changed, says where the text goes."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def taken(self) -> list[dict[str, Any]]:
        """Return what was written since the last time, as outputs of a cell."""
        text = self.getvalue()
        self.truncate(self.seek(0))
        return [{"output_type": "stream", "name": self.name, "text": text}] if text else []


def run(source: str, name: str, namespace: dict[str, Any], streams: tuple[Stream, Stream]) -> list[dict[str, Any]]:
    """Run one cell and return its outputs in the form of a notebook."""
    try:
        ast.parse(source)
    except SyntaxError:
        source = re.sub(r"(?m)^(\s*)[%!]\S.*$", r"\1pass", source)  # magics do nothing here
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # for inspect.getsource
    outputs: list[dict[str, Any]] = []
    try:
        with redirect_stdout(streams[0]), redirect_stderr(streams[1]), _as_in_a_kernel():
            result = _execute(source, name, namespace)
        if result is not None:
            data = {"text/plain": repr(result)}
            outputs = [{"output_type": "execute_result", "execution_count": 1, "data": data, "metadata": {}}]
    except BaseException as error:  # SystemExit and KeyboardInterrupt end a cell, not the run
        told = {"ename": type(error).__name__, "evalue": str(error), "traceback": traceback.format_exc().split("\n")}
        outputs = [{"output_type": "error", **told}]
    return [*streams[0].taken(), *streams[1].taken(), *outputs]


def _execute(source: str, name: str, namespace: dict[str, Any]) -> object:
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)
    return eval(compile(ast.Expression(last.value), name, "eval"), namespace) if isinstance(last, ast.Expr) else None


@contextmanager
def _as_in_a_kernel() -> Iterator[None]:
    """Show warnings on stderr, where nbgrader takes them for failures, and stop a cell that takes too long."""

    def late(*_: object) -> None:
        raise TimeoutError(f"no end after {CELL_LIMIT_S} s")

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, CELL_LIMIT_S)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
