"""Compiling runs before they are measured: several processes fill torch's caches on disk, from which one then trains.

A ladder has a model to compile for nearly every rung. One after the other that takes longer than the training.

>>> at_a_time(24e9, memory_bytes=150e9, cores=16)
3
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from .config import Config, from_dict

__all__ = ["at_a_time", "compile_ahead", "distinct"]

_CORES = 4  # of a processor, that one compilation keeps busy
_ROOM = 1.5  # what compiling and warming up take, of the forecast of a step: 1.3 was seen


def at_a_time(forecast_bytes: float, *, memory_bytes: float, cores: int) -> int:
    """Return how many runs may be compiled together, each of which holds its model on the device.

    Args:
        forecast_bytes: of the largest run.
        memory_bytes: of the device.
        cores: of the processor.
    """
    return max(1, min(cores // _CORES, int(0.9 * memory_bytes / (_ROOM * forecast_bytes))))


def distinct(configs: Sequence[Config]) -> list[Config]:
    """Return the first of all runs that have the same compiled code.

    >>> from rooflab.speedrun.config import preset
    >>> eager = preset("tiny")
    >>> len(distinct([eager, eager.change(graph=True), eager.change(norm="rms")]))
    2
    """
    same = {"fused_optimizer": False, "loader": "plain", "graph": False, "schedule": "cosine", "lr_factor": 1.0}
    found: dict[Config, Config] = {}
    for config in configs:
        found.setdefault(config.change(**same, rungs=()), config)
    return list(found.values())


def compile_ahead(configs: Sequence[Config], data: str | None, workers: int) -> None:
    """Warm every run up in a process of its own; what fails there will say so where it is measured.

    Args:
        configs: the runs.
        data: name of the text.
        workers: processes at a time.
    """
    tasks = [(config.change(graph=False).to_dict(), data) for config in configs]
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            list(pool.map(_compile, tasks))
        except BrokenProcessPool:
            print(
                "A process that compiled a run has ended early; the rest is compiled as it is needed.", file=sys.stderr
            )


def _compile(task: tuple[dict[str, Any], str | None]) -> str:
    """The reason why a run cannot be warmed up; empty if it can."""
    from .data import corpus
    from .session import free
    from .settings import settings
    from .train import Trainer

    values, data = task
    config = from_dict(values)
    try:
        trainer = Trainer(config, corpus(data))
        with settings(trainer.config):
            trainer.warm_up()
    except Exception as error:  # whatever it is, the measurement meets it again
        return (str(error).splitlines() or [type(error).__name__])[0]
    del trainer
    free()
    return ""
