"""How much may one submission take of the machine, and what is said where nothing can hold it?

>>> Limits().memory_bytes == 2**30
True
>>> Limits(processes=0)
Traceback (most recent call last):
ValueError: expected processes of more than zero; found 0
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

__all__ = ["Limits", "SandboxUnavailable"]


class SandboxUnavailable(RuntimeError):
    """Student code cannot be held here; the message says in one sentence what to install or to switch on."""


@dataclass(frozen=True)
class Limits:
    """The limits of one guest.

    Attributes:
        call_s: the longest that one call into student code may take; enforced by the one who makes the call.
        total_s: the longest that a guest may live; enforced by the one who started it. The processor time of each
            process is bounded by the same number for each core.
        memory_bytes: of all processes of the guest together (sampled), and of the address space of each beyond what
            was mapped when it was forked.
        processes: processes and threads.
        file_bytes: the size of any one file.
        disk_bytes: the size of all files together; they live in memory where namespaces are available.
        output_bytes: how much of standard output and standard error is kept; the rest is dropped.
    """

    call_s: float = 10.0
    total_s: float = 60.0
    memory_bytes: int = 2**30
    processes: int = 64
    file_bytes: int = 64 * 2**20
    disk_bytes: int = 256 * 2**20
    output_bytes: int = 2**20

    @property
    def files(self) -> int:
        """How many files and folders there may be: names alone cost about 1 KiB each, and must not add up either."""
        return max(1024, self.disk_bytes // 8192)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < math.inf:
                raise ValueError(f"expected {field.name} of more than zero; found {value!r}")
