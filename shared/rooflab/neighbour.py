"""What happens to a measurement when somebody else wants the same device?

>>> with busy_neighbour(cores=1):
...     total = sum(range(1000))
>>> total
499500
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .device import find_device
from .probe import own_cores

__all__ = ["busy_neighbour"]

# The child ends with its parent even if the parent is killed: it watches for being handed to another one.
_SPIN = "import os\np = os.getppid()\nwhile os.getppid() == p:\n    for _ in range(100000):\n        pass"


@contextmanager
def busy_neighbour(after_s: float = 0.0, *, cores: int | None = None) -> Iterator[None]:
    """Keep the device busy with somebody else's work, from ``after_s`` seconds on until the block ends.

    On a CPU: two spinning processes for each core. On a GPU that torch drives: large products on a stream
    of their own.

    Args:
        after_s: seconds of quiet first.
        cores: number of processes; default: two for each core.

    Raises:
        ValueError: fewer than one process.
    """
    if cores is not None and cores < 1:
        raise ValueError(f"cores is {cores}; expected 1 or more.")
    gone = threading.Event()
    work = _spin_gpu if find_device().torch == "cuda" and cores is None else _spin_cpu
    thread = threading.Thread(target=lambda: gone.wait(after_s) or work(gone, cores), daemon=True)
    thread.start()
    try:
        yield
    finally:
        gone.set()
        thread.join()


def _spin_cpu(gone: threading.Event, cores: int | None) -> None:
    # Two a core: a scheduler lets a process that mostly waits pass a single neighbour unharmed.
    count = cores or 2 * own_cores()
    children = [subprocess.Popen([sys.executable, "-S", "-c", _SPIN]) for _ in range(count)]
    gone.wait()
    for child in children:
        child.kill()
        child.wait()


def _spin_gpu(gone: threading.Event, _: Any) -> None:
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        a = torch.randn(2048, 2048, device="cuda")
        while not gone.is_set():
            a @ a
            stream.synchronize()  # waits without holding the interpreter's lock
