"""How do processes of one machine share what only one of them may use at a time, a GPU or some processors?

Whoever uses a thing has bound an abstract Unix socket of its name, of which there can be only one. Nothing is written
anywhere, and the name is free again when the process ends, however that comes.

>>> with contextlib.ExitStack() as one, contextlib.ExitStack() as other:
...     take("doctest", ("0", "1"), one), take("doctest", ("0", "1"), other), take("doctest", ("0", "1"), other)
('0', '1', None)
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable

__all__ = ["take"]


def take(kind: str, names: Iterable[str], held: contextlib.ExitStack) -> str | None:
    """Take the first of these things that nobody of this user has, until the stack is closed; None without one."""
    for name in names:
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0rooflab/{os.getuid()}/{kind}/{name}"[:100])
        except OSError:  # in use
            lock.close()
        else:
            held.enter_context(lock)
            return name
    return None
