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
from typing import Any

from ..progress import Progress, clock_time
from ..units import format_si
from .config import Config

__all__ = ["Teller"]


class Teller:
    """Says where a run is: a bar with loss, rate and time left, or the lines of the log as JSON."""

    def __init__(self, config: Config, place: Any, *, as_json: bool) -> None:
        self.total = config.all_steps(place.ranks.world)
        self.bar = None if as_json or not place.ranks.first else Progress("speedrun", self.total, unit="step")
        self.as_json = as_json
        self._told = "speedrun"

    def __enter__(self) -> Teller:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.bar is not None:
            self.bar.name = self._told
            self.bar.close("done" if kind is None else "stopped")

    def __call__(self, line: dict[str, Any]) -> None:
        """Take a line of the log."""
        if self.as_json:
            print(json.dumps({key: value for key, value in line.items() if key != "losses"}), flush=True)
        if self.bar is None or "loss" not in line:
            return
        left = clock_time((self.total - line["step"]) * line["step_s"])
        loss, rate = f"loss {line['loss']:.3f} nats", format_si(line["tokens_per_s"], "tokens/s", digits=3)
        rate += f", MFU {line['mfu']:.0%}" if "mfu" in line else ""
        self._told = f"{loss}, {rate}"
        self.bar.name = f"{loss}, {left} left, {rate}"  # a narrow terminal shows the beginning
        self.bar.reach(line["step"])
