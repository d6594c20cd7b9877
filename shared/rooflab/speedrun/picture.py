"""What does a run look like? Loss over time, drawn from the log that it leaves.

>>> points([{"step": 1, "time_s": 2.0, "loss": 5.0}, {"step": 1, "time_s": 2.0, "bits_per_byte": 3.0}], "loss")
([2.0], [5.0])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["draw", "points", "save"]


def points(lines: Sequence[Mapping[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """Seconds of training and the values of that key, of the lines that have it."""
    found = [(line["time_s"], line[key]) for line in lines if line.get(key) is not None]
    return [time_s for time_s, _ in found], [value for _, value in found]


def every_loss(lines: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Seconds of training and the loss of every step in bits per byte: a line of the log has those since the last one.

    They are in nats a token; the last of a line stands there in both units.
    """
    times, values, before = [], [], 0.0
    bits = next((line["train_bits_per_byte"] / line["loss"] for line in lines
                 if line.get("loss") and line.get("train_bits_per_byte")), math.nan)  # fmt: skip
    for line in lines:
        losses = line.get("losses") or []
        for number, loss in enumerate(losses, 1):
            if loss is not None:
                times.append(before + (line["time_s"] - before) * number / len(losses))
                values.append(loss * bits)
        before = line["time_s"] if losses else before
    return times, values


def draw(lines: Sequence[Mapping[str, Any]], title: str, *, target: float = 0.0) -> Any:
    """A figure of the training loss and the validation loss, both in bits per byte, over training time."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    from ..plots.style import BOUND, house_style, series_style, set_axis

    with matplotlib.rc_context(house_style):
        fig = Figure(figsize=(7.2, 3.4), layout="constrained")
        left, right = fig.subplots(1, 2, sharex=True, sharey=True)
        bare = series_style(0) | {"marker": "", "linewidth": 1.0}  # a point for each step
        for ax, (times, values), label, style in (
            (left, every_loss(lines), "training loss (bits per byte)", bare),
            (right, points(lines, "bits_per_byte"), "validation loss (bits per byte)", series_style(1)),
        ):
            ax.plot(times, values, markersize=4, **style)
            ax.set_ylabel(label)
            set_axis(ax.xaxis, label="training time", unit="s", log=False)
            ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        left.set_xlim(left=0)  # what is compared is time from the first step
        if len(points(lines, "bits_per_byte")[0]) == 1:
            # In the middle: the point is at the right, and a target at the top or at the bottom.
            right.text(0.46, 0.5, "evaluated once;\n--set eval_every=N shows a curve", transform=right.transAxes,
                       ha="center", va="center", fontsize=9, color="#555555")  # fmt: skip
        if target:
            right.axhline(target, linestyle="--", label=f"target {target:g}", **dict[str, Any](BOUND))
            right.legend()
        fig.suptitle(title, x=0.01, ha="left", wrap=True)
    return fig


def save(folder: Path, lines: Sequence[Mapping[str, Any]], title: str, *, target: float = 0.0) -> None:
    """Write `figure.svg` and `figure.png` into a run's folder."""
    from ..plots.saving import save_figure

    fig = draw(lines, title, target=target)
    for name in ("figure.png", "figure.svg"):
        save_figure(fig, folder / name)
