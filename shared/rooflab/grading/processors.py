"""Which processors does a submission run on, so that one that keeps them busy slows nobody else?

>>> shares(2, {0, 1, 2, 3, 4}), shares(8, {4, 6})
([(0, 1), (2, 3)], [(4,), (6,)])
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection

from .held import take

__all__ = ["shares", "taken_share"]


def shares(jobs: int, processors: Collection[int]) -> list[tuple[int, ...]]:
    """Divide processors among submissions that are graded at a time; where these are more, several will have one."""
    known = sorted(processors)
    count = max(1, min(jobs, len(known)))
    size = len(known) // count
    return [tuple(known[n * size : (n + 1) * size]) for n in range(count)]


def taken_share(jobs: int, held: contextlib.ExitStack) -> tuple[int, ...]:
    """Take a share of this process's processors that no other submission has, or else any; until the stack is closed.

    Args:
        jobs: submissions at a time on this machine.
        held: gives it back.
    """
    parts = shares(jobs, os.sched_getaffinity(0))
    names = {str(part[0]): part for part in parts}
    name = take("processors", names, held)
    return parts[os.getpid() % len(parts)] if name is None else names[name]
