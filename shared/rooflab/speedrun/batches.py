"""Which tokens does a step train on? A pure function of seed, step, rank and number of ranks.

The training text is cut into windows of T + 1 tokens that do not overlap; a permutation, drawn from the seed, orders
them, and each step takes the next ones, each rank its share. So nothing repeats, ranks never overlap, two ranks see
what one with twice the batch would, and a run that is resumed goes on where it was.

>>> batches = Batches(np.arange(100), length=4, sequences=2, seed=0)
>>> inputs, targets = batches.at(step=0)
>>> inputs.shape, bool((targets == inputs + 1).all()), batches.steps
((2, 4), True, 10)
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

__all__ = ["Batches", "DataError", "on_device", "validation"]


class DataError(ValueError):
    """There are too few tokens for what is asked; one sentence says by how much."""


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of inputs and targets, [sequences, T] of int64 each, without a repeat.

    Attributes:
        tokens: the training text, one dimension.
        length: T.
        sequences: of each rank and step.
        seed: of the order.
        rank, world: whose share.
    """

    tokens: Any
    length: int
    sequences: int
    seed: int
    rank: int = 0
    world: int = 1

    @property
    def steps(self) -> int:
        """How many steps one pass has."""
        return len(self.order) // (self.sequences * self.world)

    @cached_property
    def order(self) -> np.ndarray:
        """The windows' numbers in the order of training."""
        return np.random.default_rng(self.seed).permutation(len(self.tokens) // (self.length + 1))

    def windows(self, step: int) -> np.ndarray:
        """The numbers of this rank's windows in a step that counts from 0.

        Raises:
            DataError: the pass is over.
        """
        if not 0 <= step < self.steps:
            raise DataError(
                f"The training text has {len(self.tokens):,} tokens, which last for {self.steps:,} steps of "
                f"{self.sequences * self.world:,} sequences of {self.length:,}; step {step + 1:,} would repeat some: "
                "ask for fewer steps, or a smaller batch."
            )
        start = (step * self.world + self.rank) * self.sequences
        return self.order[start : start + self.sequences]

    def at(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of a step."""
        size = self.length + 1
        rows = [np.asarray(self.tokens[w * size : (w + 1) * size]) for w in self.windows(step)]
        whole = np.stack(rows).astype(np.int64)
        return whole[:, :-1], whole[:, 1:]


def validation(tokens: Any, length: int, at_most: int) -> tuple[np.ndarray, np.ndarray]:
    """The first windows of the validation text, the same for all runs of a shape: inputs and targets [n, T].

    Raises:
        DataError: there is not one.
    """
    count = min(max(1, at_most // length), len(tokens) // (length + 1))
    count -= count % 16 if count > 16 else 0  # whole batches, whatever their size
    if not count:
        raise DataError(
            f"The validation text has {len(tokens):,} tokens; expected at least {length + 1:,} for one sequence."
        )
    whole = np.asarray(tokens[: count * (length + 1)]).astype(np.int64).reshape(count, length + 1)
    return whole[:, :-1], whole[:, 1:]


def on_device(batches: Batches, first: int, last: int, device: Any, *, ahead: bool) -> Iterator[tuple[Any, Any]]:
    """The batches of the steps from `first` to before `last`, as tensors on a device.

    Args:
        batches: the source.
        first, last: steps.
        device: torch's.
        ahead: a thread makes the next two, in pinned memory, and the copy does not wait for the device.
    """
    import torch

    pinned = ahead and device.type == "cuda"

    def made(step: int) -> Any:
        pair = torch.from_numpy(np.stack(batches.at(step)))  # [2, sequences, T]: one copy for both
        return pair.pin_memory() if pinned else pair

    pairs = _ahead(made, first, last) if ahead else (made(step) for step in range(first, last))
    with contextlib.closing(pairs):  # also where the reader leaves early: the thread has ended when this has
        for pair in pairs:
            yield pair.to(device, non_blocking=pinned).unbind(0)


def _ahead(made: Callable[[int], Any], first: int, last: int) -> Generator[Any, None, None]:
    """The same values, made by a thread that is two ahead; its errors come out here."""
    worker = ThreadPoolExecutor(1, "speedrun-loader")
    try:
        waiting = deque(worker.submit(made, step) for step in range(first, min(first + 2, last)))
        for step in range(first, last):
            value = waiting.popleft().result()
            if step + 2 < last:
                waiting.append(worker.submit(made, step + 2))
            yield value
    finally:
        worker.shutdown(cancel_futures=True)
