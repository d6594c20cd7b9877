"""Does a function hand work to other threads or processes, where a count does not see it?

>>> import threading
>>> with noticing() as seen:
...     thread = threading.Thread(target=print)
...     thread.start(); thread.join()
<BLANKLINE>
>>> seen
['Thread.start']
"""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing.pool
import multiprocessing.process
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["OTHER_THREADS", "noticing"]

OTHER_THREADS = "The function hands work to other threads or processes: what they do is not counted."

_WAYS: tuple[tuple[type, str], ...] = (
    (threading.Thread, "start"),
    (multiprocessing.process.BaseProcess, "start"),
    (concurrent.futures.ThreadPoolExecutor, "submit"),
    (concurrent.futures.ProcessPoolExecutor, "submit"),
    (multiprocessing.pool.Pool, "apply_async"),
    (multiprocessing.pool.Pool, "_map_async"),
    (multiprocessing.pool.Pool, "imap"),
    (multiprocessing.pool.Pool, "imap_unordered"),
    (queue.Queue, "put"),  # to threads that wait since before the count
)
_lock = threading.Lock()
_watched: dict[int, list[list[str]]] = {}  # by thread, the lists to fill
_replaced: dict[tuple[type, str], Callable[..., Any]] = {}


@contextmanager
def noticing() -> Iterator[list[str]]:
    """Collect the ways in which this thread hands work to others while the block runs."""
    seen: list[str] = []
    me = threading.get_ident()
    with _lock:
        if not _watched:
            _replace()
        _watched.setdefault(me, []).append(seen)
    try:
        yield seen
    finally:
        with _lock:
            # By identity: two lists may be equal.
            left = [each for each in _watched.pop(me) if each is not seen]
            if left:
                _watched[me] = left
            if not _watched:
                _restore()


def _replace() -> None:
    for kind, name in _WAYS:
        if original := vars(kind).get(name):
            _replaced[kind, name] = original
            setattr(kind, name, _noticed(original, f"{kind.__name__}.{name}"))


def _restore() -> None:
    for (kind, name), original in _replaced.items():
        setattr(kind, name, original)
    _replaced.clear()


def _noticed(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        for seen in _watched.get(threading.get_ident(), ()):
            seen.append(way)
        return original(*args, **kwargs)

    return call
