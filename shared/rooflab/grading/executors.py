"""Where is graded: on this machine, on a Dask cluster, or in the queue of a Slurm cluster?

Each is a `concurrent.futures.Executor`, so that whoever has another one can use it with :func:`run_all`, which hands
out the tasks, keeps no more in flight than needed, and gives a task whose worker died to another one.

>>> threads = lambda: futures.ThreadPoolExecutor(2)
>>> sorted((key, result) for key, result, error in run_all(threads, abs, [("a", -1), ("b", -2)], ahead=2))
[('a', 1), ('b', 2)]
"""

from __future__ import annotations

import concurrent.futures as futures
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rooflab.extras import MissingExtra

__all__ = ["EXECUTORS", "open_executor", "run_all"]

EXECUTORS = "local, dask:ADDRESS (such as dask:tcp://10.0.0.1:8786) or slurm"
_TRIES = 3

Open = Callable[[], AbstractContextManager[futures.Executor]]


@contextmanager
def open_executor(name: str, jobs: int) -> Iterator[futures.Executor]:
    """Open an executor by its name.

    Args:
        name: "local", "dask:ADDRESS" or "slurm".
        jobs: how many submissions at a time; with Dask the workers decide.

    Raises:
        ValueError: there is no such executor.
        MissingExtra: its library is not installed.
    """
    if name == "local":
        # Spawned, not forked: this process has threads and open files.
        with futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            yield pool
    elif name.startswith("dask:"):
        client = _dask().Client(name.removeprefix("dask:"))
        try:
            yield client.get_executor(pure=False, retries=_TRIES)
        finally:
            client.close()
    elif name == "slurm":
        with slurm_cluster(jobs) as cluster:
            client = _dask().Client(cluster)
            try:
                yield client.get_executor(pure=False, retries=_TRIES)
            finally:
                client.close()
    else:
        raise ValueError(f"There is no executor {name!r}; expected {EXECUTORS}.")


@contextmanager
def slurm_cluster(jobs: int) -> Iterator[Any]:
    """A Dask cluster whose workers are jobs of Slurm, one submission at a time in each.

    What dask-jobqueue reads from its own configuration (queue, account, memory, time limit) is the site's to set.
    """
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError:
        raise MissingExtra('Slurm needs dask-jobqueue: pip install "rooflab[cluster]"') from None
    with SLURMCluster(cores=1, processes=1, memory=os.environ.get("ROOFLAB_SLURM_MEMORY", "4GB")) as cluster:
        cluster.scale(jobs=jobs)
        yield cluster


def _dask() -> Any:
    try:
        import distributed
    except ImportError:
        raise MissingExtra('Dask is not installed: pip install "rooflab[cluster]"') from None
    return distributed


def run_all(
    open_pool: Open,
    function: Callable[[Any], Any],
    tasks: Iterable[tuple[Any, Any]],
    ahead: int,
) -> Iterator[tuple[Any, Any, BaseException | None]]:
    """Run tasks and give (key, result, error) as each is done.

    A pool whose worker has died is opened anew, and what it had not finished runs again; a task that has seen its
    worker die several times is given up with the error.

    Args:
        open_pool: opens the executor.
        function: what each task is given to.
        tasks: pairs of a key and a task; taken from as needed.
        ahead: most tasks in flight.
    """
    waiting = iter(tasks)
    again: list[tuple[Any, Any, int]] = []
    finished = False
    while not finished:
        with open_pool() as pool:
            running: dict[futures.Future[Any], tuple[Any, Any, int]] = {}
            broken = False
            while not broken:
                while len(running) < ahead:
                    entry = again.pop() if again else next(((*pair, 0) for pair in waiting), None)
                    if entry is None:
                        break
                    running[pool.submit(function, entry[1])] = entry
                if not running:
                    finished = True
                    break
                done, _ = futures.wait(running, return_when=futures.FIRST_COMPLETED)
                for future in done:
                    key, task, tries = running.pop(future)
                    error = future.exception()
                    if isinstance(error, futures.BrokenExecutor):
                        broken = True
                        if tries + 1 < _TRIES:
                            again.append((key, task, tries + 1))
                            continue
                    yield key, None if error else future.result(), error
            if broken:
                again += [(key, task, tries) for key, task, tries in running.values()]
