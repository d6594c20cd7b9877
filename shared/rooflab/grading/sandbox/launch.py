"""How is a fork server started, asked for guests, and ended with all of them?

>>> environment({})["OMP_NUM_THREADS"]
'1'
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import wire
from .limits import SandboxUnavailable
from .plan import Errand, Plan
from .seal import variables
from .server import BOOT

__all__ = ["ForkServer", "ServerGone", "Started", "environment"]

_START_S = 30.0
_IMPORT_S = 300.0
_PASSED_ON = ("LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_PASSED_ON_TO_GPUS = ("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


class ServerGone(RuntimeError):
    """The fork server has ended or does not answer; it can be started again."""


@dataclass(frozen=True)
class Started:
    """A guest that has sealed itself: the grader's ends, and who is who among the grader's processes."""

    channel: socket.socket
    report: socket.socket
    output: int
    keeper: int
    pid: int
    held: Mapping[str, Any]


def environment(given: Mapping[str, str], *, accelerator: bool = False) -> dict[str, str]:
    """The whole environment of a fork server: nothing else of the grader's own is handed on."""
    names = _PASSED_ON + (_PASSED_ON_TO_GPUS if accelerator else ())
    path = [str(Path(sys.prefix, "bin")), "/usr/local/bin", "/usr/bin", "/bin"]
    return {
        "LANG": "C.UTF-8",
        **{name: os.environ[name] for name in names if name in os.environ},
        "PATH": os.pathsep.join(dict.fromkeys(path)),
        "USER": "student",
        "LOGNAME": "student",
        "TERM": "dumb",
        "MPLBACKEND": "Agg",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MALLOC_ARENA_MAX": "4",  # each reserves 64 MiB of the address space, which is limited
        # The probe of the ceilings is on the same GPU, all of whose memory JAX would take.
        **({"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if accelerator else {}),
        **variables("/tmp", given),
        # A fork takes no threads with it: none may run before, whatever guests are to have.
        **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")},
    }


class ForkServer:
    """The grader's side of one fork server; guests may be asked for by several threads at a time."""

    def __init__(
        self,
        plan: Plan,
        wrapper: Sequence[str],
        *,
        folder: Path,
        search: Sequence[str],
        variables: Mapping[str, str],
        starter: Executor,
    ) -> None:
        """Start it.

        Args:
            plan: how guests are held.
            wrapper: the command that runs it, up to its own; empty for none.
            folder: for its log.
            search: what ``sys.path`` is to be.
            variables: its whole environment.
            starter: has one thread that stays: what it starts may be told to end with that thread.
        """
        self._plan = plan
        self._log = folder / "server.log"
        self._sending = threading.Lock()
        self._control, theirs = socket.socketpair()
        command = [*wrapper, sys.executable, "-I", "-S", "-B", "-c", BOOT, str(theirs.fileno()), *search]

        def start() -> subprocess.Popen[bytes]:
            with self._log.open("ab") as log:
                return subprocess.Popen(
                    command, env=dict(variables), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                    stdout=log, stderr=log, start_new_session=True, cwd="/",
                )  # fmt: skip

        try:
            self._process = starter.submit(start).result()
            prefix = [sys.prefix, sys.exec_prefix]
            wire.send(self._control, {"plan": plan.to_dict(), "prefix": prefix})
        except OSError as error:
            self._control.close()
            raise ServerGone(f"{command[0]} cannot be started: {error}") from error
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        """The process that was started: the fork server, or what wraps it."""
        return self._process.pid

    def load(self, modules: Sequence[str]) -> int:
        """Let it import modules; returns how many threads it has then, more than one being a danger.

        Raises:
            SandboxUnavailable: one cannot be imported.
            ServerGone: it has ended.
        """
        try:
            wire.send(self._control, {"modules": list(modules)})
            self._control.settimeout(_IMPORT_S)
            told, _ = wire.receive(self._control)
        except (OSError, EOFError) as error:
            raise ServerGone(self._last_words(error)) from error
        finally:
            with contextlib.suppress(OSError):
                self._control.settimeout(None)
        if "error" in told:
            raise SandboxUnavailable(
                f"The sandbox cannot import {told['module']} ({told['error']}): install it for {sys.executable}, or "
                "add the folder that it lies in to read_only and to PYTHONPATH in the sandbox's environment."
            )
        return int(told["threads"])

    def fork(self, errand: Errand, argument: Any) -> Started:
        """Start a guest and wait until it has sealed itself.

        The argument goes by a file that only the guest reads: what the fork server had read, later guests could find in
        the memory that they inherit.

        Raises:
            ServerGone: no guest came: what answered instead, or that nothing did.
            SandboxUnavailable: a step of the sealing failed.
        """
        ours, channel = socket.socketpair()
        report, line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        report.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        output, written = os.pipe()
        os.set_blocking(output, False)
        letter = os.memfd_create("argument")
        try:
            try:
                with open(letter, "wb", closefd=False) as file:
                    file.write(json.dumps(argument).encode())
                ends = [channel.fileno(), written, line.fileno(), letter]
                with self._sending:
                    wire.send(self._control, {"errand": asdict(errand)}, ends)
            except OSError as error:
                raise ServerGone(self._last_words(error)) from error
            finally:
                channel.close()
                line.close()
                os.close(written)
                os.close(letter)
            _, keeper = self._next(report, "keeper")
            held, pid = self._next(report, "sealed")
            return Started(ours, report, output, keeper, pid, held)
        except BaseException:
            ours.close()
            report.close()
            os.close(output)
            raise

    def _next(self, report: socket.socket, name: str) -> tuple[Any, int]:
        waiting = select.poll()
        waiting.register(report, select.POLLIN)
        until = time.monotonic() + _START_S
        while not waiting.poll(100):
            if self._process.poll() is not None or time.monotonic() > until:
                raise ServerGone(self._last_words(None))
        data, sender = wire.sender(report)
        if not data:
            raise ServerGone(self._last_words(None))
        told = json.loads(data)
        if "failed" in told:
            raise SandboxUnavailable(f"A submission could not be sealed off: {told['failed']}.")
        return told[name], sender

    def _last_words(self, error: BaseException | None) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else f"the fork server ended without a word ({error or self._process.returncode})"

    def close(self) -> None:
        """End it and, with it, every guest that is left."""
        self._control.close()
        if self._plan.outer:
            self._process.kill()  # the PID namespace goes with it
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
