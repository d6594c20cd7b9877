"""Compiling before anything is measured: many processes fill the caches on disk from which one process then runs.

Triton's compiler and torch's keep what they compile on disk, so that the benchmark, which must be alone on the GPU,
does not wait for them.

>>> list(shares_of(7, 3))
[range(0, 7, 3), range(1, 7, 3), range(2, 7, 3)]
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

__all__ = ["compile_candidates", "shares_of", "spread"]

Task = tuple[list[str], str | None, int, int]


def compile_candidates(kernels: list[str], size: str | None = None) -> None:
    """Call every candidate of the benchmark's cases once, in processes of their own.

    Args:
        kernels: names of the benchmark's cases.
        size: only this one, such as "16384 x 1024".
    """
    spread(_compile, kernels, size)


def spread(work: Callable[[Task], None], kernels: list[str], size: str | None) -> None:
    """Have parts of a task done by as many processes as there are cores but one.

    A process that a library's fault ends takes the others with it: what is not compiled then is compiled later.
    """
    workers = max(1, (os.cpu_count() or 2) - 1)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            list(pool.map(work, [(kernels, size, part, workers) for part in range(workers)]))
        except BrokenProcessPool:
            print(
                "A process that compiled kernels has ended early; the rest is compiled as it is needed.",
                file=sys.stderr,
            )


def shares_of(count: int, parts: int) -> Iterator[range]:
    """Yield the numbers of the things that each part has, taken in turn, since neighbours take alike."""
    yield from (range(part, count, parts) for part in range(parts))


def _compile(task: Task) -> None:
    import torch

    from .catalogue import every_case

    kernels, size, part, parts = task
    cases = [case for case in every_case(kernels) if size in (None, case.size)]
    for number in list(shares_of(len(cases), parts))[part]:
        inputs = cases[number].inputs(0)
        for call in cases[number].candidates.values():
            _called(call, inputs)
            torch.cuda.empty_cache()


def _called(call: Callable[..., Any], inputs: tuple[Any, ...]) -> bool:
    """Whether a candidate runs; where it does not, the measurement says so, whose business it is."""
    try:
        call(*inputs)
    except Exception:  # of a rival, whatever it is
        return False
    return True
