"""Which GPU may a submission use, so that nothing else is timed on it meanwhile?

>>> visible_gpus({"CUDA_VISIBLE_DEVICES": "2,3"})
('2', '3')
>>> with held_gpu(()) as found:
...     found
''
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .held import take

__all__ = ["NAMES", "held_gpu", "visible_gpus"]

NAMES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_LOOK_S = 0.1


def visible_gpus(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the GPUs that may be used, as the variables of :data:`NAMES` call them, without waking them."""
    for name in NAMES:
        if name in environment:
            return tuple(filter(None, (part.strip() for part in environment[name].split(","))))
    nvidia = list(Path("/dev").glob("nvidia[0-9]*"))
    nodes = Path("/sys/class/kfd/kfd/topology/nodes").glob("*/gpu_id")  # a CPU is a node too, of the number 0
    return tuple(map(str, range(len(nvidia) or sum(_read(node) not in ("", "0") for node in nodes))))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


@contextlib.contextmanager
def held_gpu(gpus: Sequence[str]) -> Iterator[str]:
    """Wait until one of these GPUs is free, and hold it; gives its name, or "" where there is none to hold."""
    if not gpus:
        yield ""
        return
    with contextlib.ExitStack() as held:
        while (name := take("gpu", gpus, held)) is None:
            time.sleep(_LOOK_S)
        yield name
