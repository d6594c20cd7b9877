"""How is a class handed out to workers that may die, so that everybody is graded, or given up with a reason?

When a worker dies, nobody knows which of the tasks in flight has killed it. So each of them runs again alone: the one
that kills its worker again is found out, and the others lose nothing.

>>> threads = lambda: futures.ThreadPoolExecutor(2)
>>> sorted((key, result) for key, result, error in run_all(threads, abs, [("a", -1), ("b", -2)], ahead=2))
[('a', 1), ('b', 2)]
"""

from __future__ import annotations

import concurrent.futures as futures
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["TRIES", "run_all"]

TRIES = 3
_LOOK_S = 0.5

Open = Callable[[], AbstractContextManager[futures.Executor]]
Done = tuple[Any, Any, BaseException | None]


@dataclass
class _Entry:
    key: Any
    task: Any
    deaths: int = 0  # of workers that had it


@dataclass
class _Work:
    """What is to be done: `suspects` were in flight when a worker died, and run alone."""

    function: Callable[[Any], Any]
    ahead: int
    wait: Callable[[], None]
    entries: Generator[_Entry, None, None]
    suspects: list[_Entry] = field(default_factory=list)
    running: dict[futures.Future[Any], _Entry] = field(default_factory=dict)

    def hand_out(self, pool: futures.Executor) -> bool:
        """Fill the pool; False when it is broken."""
        while len(self.running) < (1 if self.suspects else self.ahead):
            entry = self.suspects.pop(0) if self.suspects else next(self.entries, None)
            if entry is None:
                break
            try:
                self.running[pool.submit(self.function, entry.task)] = entry
            except futures.BrokenExecutor:
                self.suspects.append(entry)
                return False
            if entry.deaths:
                break
        return True

    def collect(self) -> Generator[Done, None, bool]:
        """Give what is done; returns False when the pool is broken."""
        alone = len(self.running) == 1
        done: set[futures.Future[Any]] = set()
        while not done:
            done, _ = futures.wait(self.running, _LOOK_S, return_when=futures.FIRST_COMPLETED)
            self.wait()
        whole = True
        for future in done:
            entry = self.running.pop(future)
            result, error = _outcome(future)
            if error is not None and _death(error):
                broken = isinstance(error, futures.BrokenExecutor)
                whole = whole and not broken
                entry.deaths += 1
                # A cluster that reports a killer has tried it several times itself.
                if entry.deaths < TRIES and (broken or not alone):
                    self.suspects.append(entry)
                    continue
            yield entry.key, result, error
        return whole


def run_all(
    open_pool: Open,
    function: Callable[[Any], Any],
    tasks: Iterable[tuple[Any, Any]],
    ahead: int,
    wait: Callable[[], None] = lambda: None,
) -> Generator[Done, None, None]:
    """Run tasks and give (key, result, error) as each is done.

    A pool whose worker has died is opened anew. A task that has seen three workers die is given up with the error.
    Close the generator when you leave it early: that ends the pool.

    Args:
        open_pool: opens the executor.
        function: what each task is given to.
        tasks: pairs of a key and a task; taken from as needed.
        ahead: most tasks in flight.
        wait: called now and then, also while nothing is done.
    """
    work = _Work(function, ahead, wait, (_Entry(key, task) for key, task in tasks))
    while True:
        with open_pool() as pool:
            whole = True
            while whole:
                whole = work.hand_out(pool)
                if not work.running:
                    break
                whole = (yield from work.collect()) and whole
            if whole:
                return
        for entry in work.running.values():
            entry.deaths += 1
            work.suspects.append(entry)
        work.running.clear()


def _outcome(future: futures.Future[Any]) -> tuple[Any, BaseException | None]:
    try:
        error = future.exception()
    except futures.CancelledError as cancelled:  # a cluster that has lost its scheduler
        return None, cancelled
    return (None, error) if error is not None else (future.result(), None)


def _death(error: BaseException) -> bool:
    return isinstance(error, futures.BrokenExecutor) or type(error).__name__ == "KilledWorker"
