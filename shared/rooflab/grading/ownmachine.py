"""How does a student's copy of a lab run on the student's own machine: as in grading, without the sandbox?

Two fresh processes, one with the checks and one with the answers, that speak over the machine's own network; so it
works on every system. Run as `python -m rooflab.grading.ownmachine FILE` it writes the outcome as JSON to standard
output.

>>> Guests("folder").end("student", "")
''
"""

from __future__ import annotations

import math
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rooflab.stopping import kill_tree

from . import kernelguest
from .cellshell import make_shell
from .channel import Ended
from .examine import examine
from .guest import serve
from .outcome import Outcome
from .ownlab import own_lab
from .plainnotebook import read_cells
from .provider import KERNEL, Times
from .rebuild import rebuild
from .session import Session

__all__ = ["Guests", "Timed", "main", "remarked"]

# Slower machines than the grader's are students' too; only a loop without an end is to be stopped. What is longer than
# in grading gets a remark.
TIMES = Times(call_s=30.0, total_s=900.0)
_START_S = 60.0
_TOKEN = 32
_GUEST = "import sys; from rooflab.grading.ownmachine import answer; answer(int(sys.argv[1]), *sys.argv[2:])"


class Guests:
    """Gives the process with the answers, and a fresh one after its end; and one for each kernel that is counted.

    Args:
        folder: of the notebook, in which the process works.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, what: str) -> socket.socket:
        """Start one, and return the connection."""
        self.end(what, "")
        token = secrets.token_bytes(_TOKEN)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            command = [sys.executable, "-P", "-c", _GUEST, str(listening.getsockname()[1]), self.folder, what]
            process = self._processes[what] = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **(kernelguest.WARM if what == KERNEL else {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            assert process.stdin is not None
            with suppress(OSError), process.stdin as line:
                line.write(token)
            listening.settimeout(_START_S)
            try:
                while True:
                    connection, _ = listening.accept()
                    connection.settimeout(_START_S)
                    if secrets.compare_digest(_read(connection, _TOKEN), token):
                        return connection
                    connection.close()  # somebody else's
            except TimeoutError:
                raise Ended("the process for the answers does not start") from None

    def hold(self, what: str, still: bool) -> None:
        """Nothing: on one's own machine nobody is cheated but oneself."""

    def end(self, what: str, reason: str) -> str:
        """End one; returns why it ended, if it did so before."""
        process = self._processes.pop(what, None)
        if process is None:
            return ""
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
        code = process.poll()
        kill_tree(process)
        if code is None:
            return ""
        if code < 0:
            with suppress(ValueError):
                return f"its process crashed ({signal.Signals(-code).name})"
        return f"its process ended with exit code {code}"


class Timed(Session):
    """A session that knows how long its longest call or cell took, without the start of the process."""

    longest_s = 0.0
    _began = 0.0

    def deadline(self) -> float:
        """Until when something that begins now has to be done."""
        self._began = time.monotonic()
        return super().deadline()

    def _ask(self, head: dict[str, Any], value: object = None) -> tuple[dict[str, Any], Any]:
        self._began = math.inf  # until the process is there
        try:
            return super()._ask(head, value)
        finally:
            self.longest_s = max(self.longest_s, time.monotonic() - self._began)


def remarked(outcome: Outcome, longest_s: float) -> Outcome:
    """The outcome, with a remark where a call took longer than grading would have waited."""
    limit_s = Times().call_s
    if longest_s <= limit_s:
        return outcome
    told = (
        f"A call or a cell took {longest_s:.0f} s; grading stops it after {limit_s:g} s, unless the course sets "
        "another limit. Make it faster."
    )
    return replace(outcome, remarks=(*outcome.remarks, told))


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := connection.recv(size - len(data))):
        data += piece
    return data


def answer(port: int, folder: str, what: str) -> None:
    """Be the process with the answers, or one that counts a kernel."""
    token = sys.stdin.buffer.read(_TOKEN)
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(token)
    (kernelguest.serve if what == KERNEL else serve)(connection.detach(), {"paths": [folder]})


def main(arguments: list[str]) -> int:
    """Examine one notebook.

    Args:
        arguments: the file.
    """
    path = Path(arguments[0])
    output, sys.stdout = sys.stdout, sys.stderr
    cells = read_cells(path)
    lab = own_lab(path.stem, cells)
    shell: Any = make_shell()
    sys.path[:0] = [str(path.parent)]
    session = Timed(Guests(str(path.parent)), TIMES)
    outcome = examine(lab, rebuild(lab, cells), session, shell, "own machine")
    output.write(remarked(outcome, session.longest_s).to_json())
    output.flush()
    os._exit(0)  # threads that a check has left behind are not waited for


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
