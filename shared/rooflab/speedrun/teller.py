"""How far is a run? A bar in a terminal, or one line of JSON for each line of the log.

>>> import types
>>> from rooflab.speedrun.config import preset
>>> from rooflab.speedrun.ranks import Ranks
>>> with Teller(preset("tiny"), types.SimpleNamespace(ranks=Ranks()), as_json=True) as teller:
...     teller({"step": 1, "loss": 5.5, "losses": [5.5]})
{"step": 1, "loss": 5.5}
"""

from __future__ import annotations

import json
import threading
from typing import Any

from ..progress import Progress, clock_time
from ..units import format_si
from .config import Config

__all__ = ["Teller"]

_TICK_S = 1.0


class Teller:
    """Says where a run is: a bar with loss, rate and time left, or the lines of the log as JSON."""

    def __init__(self, config: Config, place: Any, *, as_json: bool) -> None:
        self.total = config.all_steps(place.ranks.world)
        self.bar = None if as_json or not place.ranks.first else Progress("speedrun", self.total, unit="step")
        self.as_json = as_json
        self._told = "speedrun"
        self._begun = threading.Event()  # with the first line
        self._ticking = threading.Thread(target=self._tick, daemon=True)
        self._compiles = config.compile != "no"

    def __enter__(self) -> Teller:
        if self.bar is not None and self._compiles:
            self.bar.name = "compiling"
            self._ticking.start()
        return self

    def _tick(self) -> None:
        """Let the bar's time run while the compiler works; without a terminal nothing is written."""
        while self.bar is not None and not self._begun.wait(_TICK_S):
            self.bar.tick()

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop_ticking()
        if self.bar is not None:
            self.bar.name = self._told
            self.bar.close("done" if kind is None else "stopped")

    def _stop_ticking(self) -> None:
        self._begun.set()
        if self._ticking.is_alive():
            self._ticking.join()

    def __call__(self, line: dict[str, Any]) -> None:
        """Take a line of the log."""
        self._stop_ticking()
        if self.as_json:
            print(json.dumps({key: value for key, value in line.items() if key != "losses"}), flush=True)
        if self.bar is None or "loss" not in line:
            return
        left = clock_time((self.total - line["step"]) * line["step_s"])
        loss, rate = (
            f"loss {line['train_bits_per_byte']:.3f} bits/byte",
            format_si(line["tokens_per_s"], "tokens/s", digits=3),
        )
        rate += f", MFU {line['mfu']:.0%}" if "mfu" in line else ""
        self._told = f"{loss}, {rate}"
        self.bar.name = f"{loss}, {left} left, {rate}"  # a narrow terminal shows the beginning
        self.bar.reach(line["step"])
