"""How long does a step take? A clock that runs while steps do, and what came of a run.

>>> from rooflab.device import find_device
>>> clock = Clock(find_device())
>>> clock.start(0); clock.look(2); clock.train_s == 2 * clock.intervals[0]
True
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from statistics import median

from ..device import Device

__all__ = ["Clock", "Result"]


@dataclass(frozen=True)
class Result:
    """What came of a run.

    Attributes:
        steps, tokens: how far it went.
        bits_per_byte: of the validation set, at the end.
        train_s: seconds of training, without what came before the first step and without evaluations.
        start_s: seconds before the first step: compiling, warming up, capturing.
        step_s: median of a step.
        tokens_per_s: of all ranks, at that median.
        peak_bytes: most memory of a GPU that was in use; 0 where nobody counts it.
        reached: whether the target was.
    """

    steps: int
    tokens: int
    bits_per_byte: float
    train_s: float
    start_s: float
    step_s: float
    tokens_per_s: float
    peak_bytes: float = 0.0
    reached: bool = False


@dataclass
class Clock:
    """Seconds of training, and of a step in each stretch between two looks; the device is waited for at both ends."""

    device: Device
    train_s: float = 0.0
    intervals: list[float] = field(default_factory=list)
    _mark: float = 0.0
    _step: int = 0

    def start(self, step: int) -> None:
        """Begin a stretch after this many steps."""
        self.device.sync()
        self._mark, self._step = time.perf_counter(), step

    def look(self, step: int) -> None:
        """Add what has passed, and begin the next stretch."""
        self.device.sync()
        now = time.perf_counter()
        self.train_s += now - self._mark
        if step > self._step:
            self.intervals.append((now - self._mark) / (step - self._step))
        self._mark, self._step = now, step

    @property
    def step_s(self) -> float:
        """The median of a step."""
        return median(self.intervals) if self.intervals else math.nan
