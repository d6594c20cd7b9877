"""Who starts and ends the student's process, how long it may take, and what running a cell in it came to.

>>> Times().call_s
10.0
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["KERNEL", "PROBE", "STUDENT", "GuestProvider", "Ran", "Times"]

STUDENT, KERNEL, PROBE = "student", "kernel", "probe"


class GuestProvider(Protocol):
    """Whoever starts and ends the student's process."""

    def start(self, what: str) -> socket.socket:
        """Start a fresh process for a "student", a "kernel" or a "probe"; return the grader's end of its connection."""
        ...

    def hold(self, what: str, still: bool) -> None:
        """Stop all that it runs, or let it go on."""
        ...

    def end(self, what: str, reason: str) -> str:
        """End it; return in a sentence why it ended, if it did so before."""
        ...


@dataclass(frozen=True)
class Times:
    """How long one call or cell, and everything together, may take, in seconds."""

    call_s: float = 10.0
    total_s: float = 60.0


@dataclass
class Ran:
    """What running a cell of the student's came to."""

    error: dict[str, Any] | None = None
    outputs: list[dict[str, Any]] = field(default_factory=list)
