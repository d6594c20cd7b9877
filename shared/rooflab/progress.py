"""How far is it? A bar that moves while a notebook runs; a line now and then where no terminal watches.

>>> import io
>>> log = Progress("u1_step_cost", 2, stream=(out := io.StringIO()))
>>> log.step(1); log.step(2); log.close("done"); print(out.getvalue().splitlines()[0])
u1_step_cost                 cell 1 of 2   0:00
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

__all__ = ["Progress", "clock_time"]

_NAME_WIDTH = 28
_CLOCK_WIDTH = len(" || 1:00:00")  # what stands beside name and bar
_SLOW_S = 2.0  # a step that takes so long shows its own seconds
_SECONDS_WIDTH = len(", 1000 s")


def clock_time(seconds: float) -> str:
    """Seconds as a person reads them: minutes and seconds.

    >>> clock_time(83.4)
    '1:23'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Progress:
    """Name, cell n of m and the time since the start: a tqdm bar on a terminal, else a line every few seconds.

    A cell that takes longer than two seconds shows how many it has taken so far: "cell 18 of 20, 12 s".

    Args:
        name: what is running.
        total: number of steps.
        unit: what a step is called.
        stream: where to write (default: standard error).
        every_s: where no terminal watches, at most one line in this time.
        clock: seconds, monotonic.

    Raises:
        ValueError: the number of steps is no whole number of zero or more.
    """

    def __init__(
        self,
        name: str,
        total: int,
        *,
        unit: str = "cell",
        stream: TextIO | None = None,
        every_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(total, bool) or not isinstance(total, int) or total < 0:
            raise ValueError(f"expected the number of steps as a whole number of zero or more; found {total!r}")
        self.name, self.total, self.unit, self.every_s = name, total, unit, every_s
        self._stream = stream or sys.stderr
        self._clock = clock
        self._start = clock()
        self.current = 0
        self._begun: float | None = None  # when the present step did; of steps in whatever order there is none
        self._next_line_s = 0.0
        self._bar: Any = None
        if self._stream.isatty():
            self._bar = _bar(total, self._stream)
            self._bar.set_description_str(self._label())

    def _label(self) -> str:
        step = f"{self.unit} {self.current} of {self.total}" if self.current else "starting"
        if self._begun is None:
            return f"{self.name:<{_NAME_WIDTH}} {step:<13}"
        taken = self._clock() - self._begun
        if taken >= _SLOW_S:
            step += f", {taken:.0f} s"
        # The bar beside it does not jump when the seconds come.
        width = 13 + _SECONDS_WIDTH * (self._bar is not None)
        return f"{self.name:<{_NAME_WIDTH}} {step:<{width}}"

    def step(self, number: int) -> None:
        """Say that step `number` (from 1) has begun, or still runs."""
        if number != self.current or self._begun is None:
            self._begun = self._clock()
        self.current = number
        if self._bar is not None:
            self._bar.n = max(number - 1, 0)
        self.tick()

    def reach(self, done: int) -> None:
        """Say that so many steps are done, in whatever order."""
        self.current, self._begun = done, None
        if self._bar is not None:
            self._bar.n = done
        self.tick()

    def tick(self) -> None:
        """Show the time that has passed; call it a few times a second."""
        elapsed = self._clock() - self._start
        if self._bar is not None:
            self._bar.set_description_str(self._label())
        elif self.current and elapsed >= self._next_line_s:
            self._next_line_s = elapsed + self.every_s
            print(f"{self._label()} {clock_time(elapsed)}", file=self._stream, flush=True)

    def close(self, outcome: str) -> None:
        """Leave one last line: the name, the outcome and the time it took."""
        elapsed = self._clock() - self._start
        if self._bar is not None:
            self._bar.leave = False
            self._bar.close()
        print(f"{self.name:<{_NAME_WIDTH}} {outcome}   {clock_time(elapsed)}", file=self._stream, flush=True)


def _bar(total: int, stream: TextIO) -> Any:
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[type-arg, unused-ignore]
        monitor_interval = 0  # we refresh the bar ourselves; no second thread

        @property
        def format_dict(self) -> dict[str, Any]:
            """What a line is made of: a bar that is cut off would look like another share, so it has what is left."""
            told: dict[str, Any] = super().format_dict
            room = (told["ncols"] or 80) - len(told["prefix"]) - _CLOCK_WIDTH
            bar = f"|{{bar:{min(room, 24)}}}| " if room >= 4 else ""
            return told | {"bar_format": f"{{desc}} {bar}{{elapsed}}"}

    return Bar(total=total, file=stream, dynamic_ncols=True)
