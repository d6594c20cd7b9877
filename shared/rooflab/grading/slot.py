"""Who looks after one submission at a time: a process that examines, and a sandbox for the student's code.

A slot starts both once and keeps them. For each submission it asks the examiner for a fork, hands it the plan, gives it
fresh processes of the sandbox when it asks for them, and ends whatever takes too long. Whatever happens, it returns an
outcome: a class is never stopped by one of its submissions.

>>> ENVIRONMENT["NBGRADER_EXECUTION"]  # so that checks note no progress of a student
'autograde'
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path

from . import kernelguest
from .channel import Channel, Ended, Late
from .codec import Refused
from .examiner import MOST_LEARNED, send_socket
from .gpus import NAMES
from .lab import LabNotebook
from .outcome import Outcome
from .processors import taken_share
from .provider import PROBE, STUDENT
from .rebuild import Plan
from .sandbox import Guest, Limits, Sandbox
from .warm import VARIABLE

__all__ = ["ENVIRONMENT", "Slot"]

_LIMIT = 2**31
_GRACE_S = 10.0  # for the checks' own work, beyond the student's time
_LOOK_S = 0.05
_FEW = 30  # bytes of a list of modules that is not worth to be sent
_CHECKS_BYTES = 2**31  # for the checks, beyond what the examiner has loaded
# Set before numpy, torch and others are loaded: a process that has used several threads cannot be forked safely.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
ENVIRONMENT = {
    **_ONE_THREAD, "NBGRADER_EXECUTION": "autograde", "ROOFLAB_HEADLESS": "1", "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}  # fmt: skip


class Slot:
    """One examiner and one sandbox, for one notebook of one assignment; a context manager.

    Args:
        lab: the instructor's notebook.
        limits: of the student's process.
        level: of the sandbox ("auto", or one of its levels).
        folder: files that the assignment hands out, readable for both; may be None.
        private: where a folder for what the two have to write is made, and removed in the end.
        accelerator: let the student's process see GPUs.
        gpu: the one that both processes use; all where it is empty.
        jobs: submissions at a time on this machine, among whom its processors are shared out.
        hidden: what the student's process may not see, whatever Python's path is.
    """

    def __init__(
        self,
        lab: LabNotebook,
        limits: Limits,
        *,
        level: str = "auto",
        folder: Path | None = None,
        private: Path,
        accelerator: bool = False,
        gpu: str = "",
        jobs: int = 1,
        hidden: tuple[Path, ...] = (),
    ) -> None:
        self.lab, self.limits, self.folder = lab, limits, folder
        self.private = Path(tempfile.mkdtemp(prefix="rooflab-grading-", dir=private))
        warm = {VARIABLE: lab.imported(hidden=True), **(dict.fromkeys(NAMES, gpu) if gpu else {})}
        self._examiner: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._environment = {**ENVIRONMENT, **warm}
        self._asked_level, self._accelerator, self._hidden = level, accelerator, hidden
        self._paths = [str(folder)] if folder else []
        self._kernels: Sandbox | None = None  # opened when a check counts a kernel
        self._ready = False
        self._taught = set[str]()
        self._held = ExitStack()
        self._processors = taken_share(jobs, self._held)
        self._start_examiner()  # beside the sandbox: each takes seconds
        figures = {"MPLBACKEND": "module://matplotlib_inline.backend_inline", VARIABLE: lab.imported(hidden=False)}
        try:
            self.sandbox = self._open("rooflab.grading.guest:serve", {**self._environment, **figures})
        except BaseException:
            self._stop_examiner()
            self._held.close()
            shutil.rmtree(self.private, ignore_errors=True)
            raise

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def level(self) -> str:
        """The level of the sandbox."""
        return self.sandbox.level

    def examine(self, plan: Plan, secret: str) -> Outcome:
        """Grade one submission; never raises for anything that it does."""
        begun = time.monotonic()
        try:
            return self._examine(plan, secret)
        except Late:
            self._stop_examiner()
            why = (
                f"To check this submission took longer than {self.limits.total_s + _GRACE_S:g} s, as answers do that "
                "have no end or are enormous; a person has to look."
            )
            return Outcome(self.lab.name, answers=plan.answers, failure=why, seconds=time.monotonic() - begun)
        except (Ended, Refused, OSError) as error:
            self._stop_examiner()
            why = f"The grader itself failed on this submission ({type(error).__name__}: {error})."
            spent = time.monotonic() - begun
            return Outcome(self.lab.name, answers=plan.answers, failure=why, lost=True, seconds=spent)

    def close(self) -> None:
        """End both processes, and remove what they wrote."""
        self._stop_examiner()
        self.sandbox.close()
        if self._kernels is not None:
            self._kernels.close()
        self._held.close()
        shutil.rmtree(self.private, ignore_errors=True)

    def abandon(self) -> None:
        """End the work on a submission from another thread; `examine` then returns at once."""
        if (examiner := self._examiner) is not None:
            with suppress(OSError):
                os.killpg(examiner.pid, signal.SIGKILL)

    def _examine(self, plan: Plan, secret: str) -> Outcome:
        mine, theirs = socket.socketpair()
        with mine:
            with theirs:
                send_socket(self._started(), theirs)
            channel = Channel(mine)
            times = {"call_s": self.limits.call_s, "total_s": self.limits.total_s}
            channel.send({
                "kind": "job", "lab": self.lab.to_json(), "plan": asdict(plan), "secret": secret, "level": self.level,
                "times": times, "paths": self._paths,
                "memory_bytes": max(_CHECKS_BYTES, 2 * self.limits.memory_bytes),
            })  # fmt: skip
            return self._serve(mine, channel, time.monotonic() + self.limits.total_s + _GRACE_S)

    def _serve(self, mine: socket.socket, channel: Channel, deadline: float) -> Outcome:
        guests: dict[str, Guest] = {}
        held_at: float | None = None  # what passes while the student's process is held is no time of the student's
        try:
            while True:
                now = time.monotonic()
                late_at = deadline + (0.0 if held_at is None else min(now - held_at, self.limits.total_s))
                if not select.select([mine], [], [], _LOOK_S)[0]:
                    if now > late_at:
                        raise Late("a check did not end")
                    continue
                head, _ = channel.receive(limit=_LIMIT, deadline=late_at + _LOOK_S)
                if head["kind"] == "outcome":
                    self._teach(head["loaded"])
                    return Outcome.from_json(head["json"])
                what, why = head["what"], ""
                if head["kind"] == "hold":
                    if what in guests:
                        guests[what].hold(head["still"])
                    if head["still"]:
                        held_at = now
                    elif held_at is not None:
                        deadline, held_at = late_at, None
                    channel.send({"kind": "held"})
                    continue
                if what in guests and head.get("reason") == "graded":
                    guests[what].begin_kill("it was no longer needed")  # it ends while the outcome is put together
                elif what in guests:
                    why = guests[what].wait(0.2) or ""
                    guests.pop(what).close()
                if head["kind"] == "start":
                    guests[what] = guest = self._sandbox(what).start({"paths": self._paths})
                    mine.setblocking(True)
                    send_socket(mine, guest.channel)
                    mine.setblocking(False)
                    guest.channel.close()
                else:
                    channel.send({"kind": "ended", "why": why})
        finally:
            for guest in guests.values():
                guest.close()

    def _sandbox(self, what: str) -> Sandbox:
        """The one for the student's code, or the one in which kernels are counted."""
        if what in (STUDENT, PROBE):
            return self.sandbox
        if self._kernels is None:
            self._kernels = self._open("rooflab.grading.kernelguest:serve", {**ENVIRONMENT, **kernelguest.WARM})
        return self._kernels

    def _open(self, entry: str, environment: dict[str, str]) -> Sandbox:
        level = self._asked_level
        return Sandbox(
            self.limits,
            modules=("rooflab.grading.warm",),
            entry=entry,
            read_only=self._paths,
            environment=environment,
            level=level,
            accelerator=self._accelerator,
            unsafe=level == "none",
            folder=self.private,
            hidden=self._hidden,
            processors=self._processors,
        )

    def _teach(self, modules: list[str]) -> None:
        """Let the examiner load, before its next fork, what this one had to load."""
        told = json.dumps([name for name in modules if name not in self._taught]).encode()
        if len(told) < _FEW or len(told) > MOST_LEARNED or self._control is None:
            return
        self._taught |= set(modules)
        # Kept as one message of its own kind of socket, by which the examiner tells it from a submission.
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with mine, theirs, suppress(OSError):
            mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MOST_LEARNED)
            mine.send(told)
            send_socket(self._control, theirs)

    def _started(self) -> socket.socket:
        """The control socket of the examiner, which is started when it is not there."""
        if self._examiner is None or self._examiner.poll() is not None or self._control is None:
            self._start_examiner()
        assert self._control is not None
        if not self._ready:
            self._control.settimeout(300)
            if self._control.recv(1) != b"!":
                told = (self.private / "examiner.log").read_text(errors="replace").strip().splitlines()
                raise Ended(f"the examiner does not start: {told[-1] if told else 'it said nothing'}")
            self._control.settimeout(None)
            self._ready = True
        return self._control

    def _start_examiner(self) -> None:
        """Start it without waiting until it is ready."""
        self._stop_examiner()
        self._control, theirs = socket.socketpair()
        self._ready = False
        self._taught = set()
        package = str(Path(__file__).resolve().parents[2])
        paths = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
        own = {"MPLBACKEND": "Agg", "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore", "IPYTHONDIR": str(self.private)}
        command = [sys.executable, "-P", "-m", "rooflab.grading.examiner", str(theirs.fileno()), str(self.private)]
        with theirs, (self.private / "examiner.log").open("ab") as log:
            self._examiner = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self.private,
                env={**os.environ, **self._environment, **own},
                start_new_session=True,
            )

    def _stop_examiner(self) -> None:
        if self._examiner is not None:  # killed first: an examiner whose connection ends removes the folder
            with suppress(OSError):
                os.killpg(self._examiner.pid, signal.SIGKILL)
            self._examiner.wait()
            self._examiner = None
        if self._control is not None:
            self._control.close()
            self._control = None
