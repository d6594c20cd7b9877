"""How is a notebook run by a kernel of the running interpreter, and what is said when the kernel dies?

>>> failure = Failure("u1_step_cost", 7, 15, "m = measure(f)", "ValueError: f returned None")
>>> print(failure)
u1_step_cost, code cell 7 of 15 (m = measure(f)): ValueError: f returned None
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .footprint import Footprint

__all__ = ["Failure", "NotebookRun", "kernel_environment"]


@dataclass(frozen=True)
class Failure:
    """Where a notebook stopped: its name, the code cell (from 1; 0 when the kernel did not start), and why."""

    notebook: str
    cell: int
    cells: int
    first_line: str
    message: str

    def __str__(self) -> str:
        if not self.cell:
            return f"{self.notebook}: {self.message}"
        return f"{self.notebook}, code cell {self.cell} of {self.cells} ({self.first_line}): {self.message}"


def kernel_environment(extra: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Variables of the kernel: headless, with this very package, and with nothing of the user's IPython profile."""
    package = str(Path(__file__).resolve().parents[1])
    search = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    return {
        **os.environ,
        "PYTHONPATH": search,
        "PYTHONUTF8": "1",  # whatever the locale, a notebook prints and reads what Jupyter shows
        "IPYTHONDIR": str(scratch / "ipython"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "TQDM_MININTERVAL": "1",
        "ROOFLAB_HEADLESS": "1",
        **extra,
    }


class NotebookRun:
    """One kernel and one notebook, run by an event loop of its own."""

    def __init__(self, source: Path, notebook: Any, *, timeout_s: int, env: dict[str, str], scratch: Path) -> None:
        self.source, self.notebook, self.timeout_s, self.env, self.scratch = source, notebook, timeout_s, env, scratch
        self.name = source.stem
        self.cells = sum(_runs(cell) for cell in notebook.cells)
        self.number = 0
        self.cell_seconds: list[float] = []
        self.errors: list[Failure] = []
        self.memory: Footprint | None = None
        self.crash: BaseException | None = None
        self.done = threading.Event()
        self._line = ""
        self._log = scratch / "kernel.log"
        self._process: Any = None
        self._ready = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False

    def main(self) -> None:
        """Run every cell; what went wrong is in `errors`, and what should not happen in `crash`."""
        try:
            asyncio.run(self._run())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # handed to the thread that waits
            self.crash = error
        finally:
            self.done.set()

    def cancel(self) -> None:
        """End the run from another thread: the cell is given up and the kernel killed."""
        self._cancelled = True
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just ended by itself
                self._loop.call_soon_threadsafe(self._task.cancel)

    async def _run(self) -> None:
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        manager = _kernel_manager(self.scratch)
        client = NotebookClient(self.notebook, km=manager, timeout=self.timeout_s, startup_timeout=120)
        client.log.setLevel("CRITICAL")  # what went wrong is told once, in `errors`
        client.reset_execution_trackers()
        try:
            # What the kernel's process itself writes (not its cells) stays off the reader's terminal.
            with self._log.open("wb") as log:
                folder = str(self.source.parent)
                await client.async_start_new_kernel(env=self.env, cwd=folder, stdout=log, stderr=log)
            self._process = manager.provisioner.process
            self.memory = Footprint(self._process.pid)
            await client.async_start_new_kernel_client()
            self._ready = True
            await self._cells(client)
        except CellExecutionError as error:
            self._fail(f"{error.ename}: {error.evalue}")
        except CellTimeoutError:
            self._fail(f"the cell took longer than {self.timeout_s} s and was stopped")
        except DeadKernelError:
            if not self._cancelled:
                self._fail(self._death())
        except RuntimeError as error:
            if self._ready:
                raise
            self._fail(f"the kernel did not start: {self._last_words() or error}")
        finally:
            await self._end(client, manager)

    async def _cells(self, client: Any) -> None:
        assert self.memory is not None
        for index, cell in enumerate(self.notebook.cells):
            if not _runs(cell):
                continue
            self.number += 1
            self._line = next((line for line in cell.source.splitlines() if line.strip()), "").strip()
            start = time.monotonic()
            try:
                await client.async_execute_cell(cell, index, execution_count=self.number)
            finally:
                self.cell_seconds.append(time.monotonic() - start)
                self.memory.sample()
        client.set_widgets_metadata()

    def _fail(self, message: str) -> None:
        message = " ".join(message.split())
        self.errors.append(Failure(self.name, self.number, self.cells, self._line[:80], message[:400]))

    def _death(self) -> str:
        code = self._process.poll() if self._process is not None else None
        used = f" (it had used {self.memory.peak_bytes / 1e9:.1f} GB)" if self.memory and self.memory.peak_bytes else ""
        if code == -getattr(signal, "SIGKILL", 9):
            return f"the kernel was killed{used}: most likely the machine ran out of memory; use smaller sizes"
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        return f"the kernel died {how}{used}"

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n") if self._log.is_file() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    async def _end(self, client: Any, manager: Any) -> None:
        """End the kernel: politely when all went well, at once when a cell may hang; and all that it started."""
        now = bool(self.errors) or self._cancelled
        if client.kc is not None:
            client.kc.stop_channels()
        if manager.has_kernel:
            await manager.shutdown_kernel(now=now)
        self.kill()

    def kill(self) -> None:
        """Kill the kernel and its process group: ranks and workers of the notebook, of which none may outlive it."""
        if self._process is not None and hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _runs(cell: Any) -> bool:
    return cell.cell_type == "code" and bool(cell.source.strip())


def _kernel_manager(scratch: Path) -> Any:
    """A manager whose only kernel is the running interpreter, whatever kernels are installed on the machine."""
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    options = ["--HistoryManager.enabled=False", "--log-level=ERROR"]
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", *options]

    class RunningInterpreter(KernelSpecManager):
        def get_kernel_spec(self, kernel_name: str) -> Any:
            return KernelSpec(argv=argv, display_name="Python 3", language="python")

    # The connection file does not go into the home folder, which may be read-only. Sockets in our own scratch folder
    # are out of reach of other users, which TCP ports are not; Linux allows their paths 107 bytes, others fewer.
    sockets = str(scratch / "socket")
    ipc = {"transport": "ipc", "ip": sockets} if os.name == "posix" and len(os.fsencode(sockets)) < 95 else {}
    return AsyncKernelManager(
        kernel_spec_manager=RunningInterpreter(),
        kernel_name="python3",
        connection_file=str(scratch / "kernel.json"),
        **ipc,
    )
