"""How is a run going? A plot in a notebook that grows while the run trains, and one figure where nobody looks on.

>>> from rooflab.speedrun import preset, run_once
>>> from rooflab.speedrun.data import corpus
>>> config, text = preset("tiny").change(steps=4, log_every=2), corpus("stdlib")
>>> with watch_live(config, text) as plot:
...     result = run_once(config, text, say=plot)  # doctest: +ELLIPSIS
tiny: ... bits per byte after 4 steps...
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from ..display import escape, is_headless, show_text
from ..units import format_si
from .config import Config
from .curvesvg import Line, curves_svg
from .data import Corpus

__all__ = ["LivePlot", "watch_live"]

_PAUSE_S = 0.25  # between two pictures: a faster one would not be seen


def watch_live(config: Config, data: Corpus) -> LivePlot:
    """A plot of losses over training time, with the target, for `run_once(..., say=plot)` inside `with`.

    Args:
        config: of the run; its target is a dashed line.
        data: what is trained on, whose name is told before the first losses come.
    """
    return LivePlot(config, data)


class LivePlot:
    """Takes the lines of a run's log and shows them: training losses as a line, validation losses as marks.

    A picture is text of some ten kB that takes a millisecond to write, so that the run hardly waits for it.
    """

    def __init__(self, config: Config, data: Corpus) -> None:
        self.config, self.text = config, data.name
        self.lines: list[Mapping[str, Any]] = []
        self._picture: Any = None
        self._drawn_s = 0.0

    def __enter__(self) -> LivePlot:
        if not is_headless():
            import ipywidgets
            from IPython.display import display

            self._picture = ipywidgets.HTML(layout={"width": "100%", "max_width": "720px"})
            self._picture.add_class("rooflab-live")
            self._show()
            display(self._picture)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._picture is not None:
            self._show()
        elif self.lines:
            show_text(self.told(), html=self.picture())

    def __call__(self, line: Mapping[str, Any]) -> None:
        """Take a line of the log."""
        self.lines.append(line)
        if self._picture is not None and time.monotonic() - self._drawn_s > _PAUSE_S:
            self._show()

    def _show(self) -> None:
        self._picture.value = self.picture()
        self._drawn_s = time.monotonic()

    def picture(self) -> str:
        """What is known so far, as HTML."""
        trained = [line for line in self.lines if "train_bits_per_byte" in line]
        measured = [line for line in self.lines if line.get("bits_per_byte") is not None]
        curves = [
            Line("training", [line["time_s"] for line in trained],
                 [line["train_bits_per_byte"] for line in trained], 0),
            Line("validation", [line["time_s"] for line in measured], [line["bits_per_byte"] for line in measured], 1,
                 marks=True),
        ]  # fmt: skip
        svg = curves_svg(curves, x="training time", unit="s", y="loss, bits per byte", target=self.config.target,
                         alt=self.told(), goal="target (validation)")  # fmt: skip
        return f'<div>{svg}<p style="margin:0 0 0 56px" role="status">{escape(self.told())}</p></div>'

    def told(self) -> str:
        """The same in one sentence."""
        name = self.config.rungs[-1] if self.config.rungs else self.config.preset
        if not self.lines:
            return f"{name} on {self.text}: getting ready; the first losses come after {self.config.log_every} steps."
        last = self.lines[-1]
        measured = next((line for line in reversed(self.lines) if line.get("bits_per_byte") is not None), None)
        rate = next((line["tokens_per_s"] for line in reversed(self.lines) if "tokens_per_s" in line), None)
        speed = f", {format_si(rate, 'tokens/s')}" if rate is not None else ""
        so_far = f"{last['step']:,} steps, {format_si(last['time_s'], 's')} of training{speed}."
        if measured is None:
            return f"{name}: training loss {last['train_bits_per_byte']:.3f} bits per byte after {so_far}"
        loss = f"{name}: {measured['bits_per_byte']:.4f} bits per byte after "
        return loss + (so_far if measured["step"] == last["step"] else f"{measured['step']:,} steps; now {so_far}")
