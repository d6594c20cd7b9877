"""A process that runs nothing but one kernel that was found to be pure Triton, and counts what it moves.

It is forked from a server in which Triton interprets. It answers one request:

    traffic {source, name, grid}, (args, constants)  ->  done {error}, value: the fields of Traffic

>>> from rooflab.grading.guest import describe
>>> describe(ValueError("no"))["builtin"]
'ValueError'
"""

from __future__ import annotations

import importlib.util
import socket
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .channel import Channel
from .guest import describe
from .warm import REHEARSE

__all__ = ["WARM", "rehearse", "serve"]

# What its server loads; the variable makes Triton interpret.
WARM = {"TRITON_INTERPRET": "1", REHEARSE: "rooflab.grading.kernelguest:rehearse"}
_LIMIT = 2**31
_REHEARSED = """
import triton
import triton.language as tl

@triton.jit
def copy(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i))
"""


def serve(descriptor: int, argument: dict[str, Any]) -> None:
    """Count one kernel, and end."""
    channel = Channel(socket.socket(fileno=descriptor))
    head, (args, constants) = channel.receive(limit=_LIMIT)
    try:
        found = _count(str(head["source"]), str(head["name"]), tuple(head["grid"]), args, constants)
    except Exception as error:  # a kernel may be wrong in any way
        channel.send({"kind": "done", "error": describe(error)})
    else:
        channel.send({"kind": "done", "error": None}, found)


def rehearse() -> None:
    """Count a kernel once, so that all that counting loads is there before the first fork."""
    import numpy as np

    _count(_REHEARSED, "copy", (1,), [np.zeros(16, np.float32), np.zeros(16, np.float32)], {"N": 16})


def _count(source: str, name: str, grid: tuple[int, ...], args: list[Any], constants: dict[str, Any]) -> dict[str, Any]:
    from rooflab.counters.triton_memory import Memory
    from rooflab.traffic import measure_traffic

    Memory.strict = True
    # Triton reads the text of a kernel from its file.
    path = Path(tempfile.mkdtemp()) / "kernel_of_student.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return asdict(measure_traffic(getattr(module, name), grid, args, constants))
