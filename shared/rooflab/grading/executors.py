"""Where is graded: on this machine, on a Dask cluster, or in the queue of a Slurm cluster?

Each is a `concurrent.futures.Executor`, so that whoever has another one can use it with
:func:`rooflab.grading.dispatch.run_all`.

>>> with open_executor("cloud", 2):
...     pass
Traceback (most recent call last):
ValueError: There is no executor 'cloud'; expected local, dask:ADDRESS (such as dask:tcp://10.0.0.1:8786) or slurm.
"""

from __future__ import annotations

import concurrent.futures as futures
import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rooflab.extras import require
from rooflab.scratch import scratch_folder

from .worker import begin

__all__ = ["EXECUTORS", "open_executor", "slurm_cluster"]

EXECUTORS = "local, dask:ADDRESS (such as dask:tcp://10.0.0.1:8786) or slurm"
_PATIENCE_S = 60.0
_CONNECT_S = 15.0
_SLURM_PATIENCE_S = 3600.0  # jobs wait in a queue


@contextmanager
def open_executor(
    name: str, jobs: int, *, at_end: Callable[[], None] = lambda: None, patience_s: float = _PATIENCE_S
) -> Iterator[futures.Executor]:
    """Open an executor by its name; when the block ends, or is left by an exception, its work is ended with it.

    Args:
        name: "local", "dask:ADDRESS" or "slurm".
        jobs: how many submissions at a time; with Dask the workers decide.
        at_end: called in each worker of a cluster, which lives on; can be pickled.
        patience_s: how long to wait for a cluster's first worker.

    Raises:
        ValueError: there is no such executor, or no cluster there.
        MissingExtra: its library is not installed.
    """
    if name == "local":
        with _local(jobs) as pool:
            yield pool
    elif name.startswith("dask:"):
        with _dask(name.removeprefix("dask:"), at_end, patience_s) as pool:
            yield pool
    elif name == "slurm":
        with slurm_cluster(jobs) as cluster, _dask(cluster, at_end, _SLURM_PATIENCE_S) as pool:
            yield pool
    else:
        raise ValueError(f"There is no executor {name!r}; expected {EXECUTORS}.")


@contextmanager
def _local(jobs: int) -> Iterator[futures.Executor]:
    """Processes of this machine, which end when this one closes its end of a pipe, or is killed."""
    context = multiprocessing.get_context("spawn")  # not forked: this process has threads and open files
    theirs, ours = context.Pipe(duplex=False)
    with scratch_folder("grading") as folder, theirs, ours:
        pool = futures.ProcessPoolExecutor(jobs, context, initializer=begin, initargs=(theirs, str(folder)))
        try:
            yield pool
        except BaseException:
            ours.close()  # what runs is not waited for
            pool.shutdown(cancel_futures=True)
            raise
        pool.shutdown()


@contextmanager
def _dask(where: Any, at_end: Callable[[], None], patience_s: float) -> Iterator[futures.Executor]:
    require("cluster", "distributed")
    from distributed import Client

    try:
        client = Client(where, timeout=min(patience_s, _CONNECT_S))
    except (OSError, ValueError) as error:
        raise ValueError(f"No Dask cluster answers at {where} ({error}): start its scheduler first.") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=patience_s)
        except TimeoutError:
            raise ValueError(f"The Dask cluster at {where} has no worker: start some with `dask worker`.") from None
        try:
            yield client.get_executor(pure=False)
        finally:
            with contextlib.suppress(Exception):  # a worker that has gone has ended what it held
                client.run(at_end, on_error="ignore")


@contextmanager
def slurm_cluster(jobs: int) -> Iterator[Any]:
    """A Dask cluster whose workers are jobs of Slurm, one submission at a time in each.

    What dask-jobqueue reads from its own configuration (queue, account, time limit) is the site's to set; the memory
    of a job is that of the variable ROOFLAB_SLURM_MEMORY, else 4 GB.
    """
    require("cluster", "dask_jobqueue")
    from dask_jobqueue import SLURMCluster

    memory = os.environ.get("ROOFLAB_SLURM_MEMORY", "4GB")
    with SLURMCluster(cores=1, processes=1, memory=memory) as cluster:
        cluster.scale(jobs=jobs)
        yield cluster
