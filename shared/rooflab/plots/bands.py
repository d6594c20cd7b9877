"""How do we draw ranges that overlap, so that each can be seen, in grey too?

>>> bands([1, 10], {"noisy": ([1e-6, 2e-6], [5e-6, 3e-6])}, title="The range narrows", x="samples", y="median")
The range narrows. Bands of median over samples. noisy: 1 µs to 5 µs at 1, 2 µs to 3 µs at 10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..display import say
from ..units import format_si
from .charts import legend, positions
from .given import LeftOut, all_whole, named, numbers, refuse_log, refuse_map, refuse_title
from .style import figure, refuse_series, series_style, set_axis

__all__ = ["bands"]

_HATCHES = ("", "////", "....", r"\\\\")
_STROKES = ("-", "--", "-.", ":")


def bands(
    xs: Sequence[float],
    ranges: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    title: str,
    x: str,
    y: str,
    unit: str = "s",
    x_unit: str = "",
    log: str = "x",
    ticks: bool = False,
) -> None:
    """Show ranges over a common horizontal axis; each has its own hatching and outline, so that all can be seen.

    Where two overlap both stay visible, in grey too: the fill lets the one behind shine through.

    Args:
        xs: positions, one per point.
        ranges: label to its lower and its upper ends.
        title: the message.
        x: label of the horizontal axis.
        y: label of the vertical axis.
        unit: of the values.
        x_unit: of the positions.
        log: the axes to draw logarithmically.
        ticks: a tick at each position and nowhere else.

    Raises:
        ValueError: nothing that can be drawn, lengths that do not fit, or a lower end above its upper one.
        TypeError: something is no number.
    """
    refuse_title(title)
    refuse_log(log)
    refuse_map("ranges", ranges)
    where, left_out = numbers("the positions", xs), LeftOut(log)
    if not len(where) or not ranges:
        raise ValueError("expected at least one range over one position; found none")
    refuse_series(len(ranges))
    drawn = {label: _ends(label, where, ends, left_out) for label, ends in ranges.items()}
    log = left_out.refuse_nothing()
    alt = [f"{title.rstrip('.')}. Bands of {y} over {x}."]
    with figure(title) as ax:
        for i, (label, (px, low, high)) in enumerate(drawn.items()):
            colour = series_style(i)["color"]
            ax.fill_between(px, low, high, facecolor=(colour, 0.15), hatch=_HATCHES[i % 4], edgecolor=(colour, 0.55),
                            linewidth=0, label=named(label), zorder=2)  # fmt: skip
            for end in (low, high):
                ax.plot(px, end, color=colour, linewidth=1.6, linestyle=_STROKES[i % 4], zorder=3)
            alt.append(_summary(label, px, low, high, unit, x_unit))
        set_axis(ax.xaxis, label=x, unit=x_unit, log="x" in log, whole=all_whole([where]))
        set_axis(ax.yaxis, label=y, unit=unit, log="y" in log)
        if ticks:
            ax.set_xticks(where, [format_si(float(position), x_unit) for position in where])
        legend(ax)
        ax.figure.alt = " ".join(filter(None, [*alt, left_out.sentence()]))
    if sentence := left_out.sentence():
        say(sentence)


def _ends(label: str, where: np.ndarray, ends: Any, left_out: LeftOut) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The positions, lower and upper ends of one range."""
    if not isinstance(ends, tuple | list | np.ndarray) or getattr(ends, "ndim", 1) == 0 or len(ends) != 2:
        raise ValueError(
            f"expected the lower and the upper ends of {label!r}, two lists; found a {type(ends).__name__}"
        )
    (px, low), (_, high) = (
        left_out.of(label, at, numbers(label, end)) for at, end in (positions(label, where, end) for end in ends)
    )
    if len(low) != len(high):
        raise ValueError(f"{label!r} has {len(low)} lower and {len(high)} upper ends.")
    if upside_down := np.flatnonzero(low > high).tolist():
        i = upside_down[0]
        raise ValueError(f"expected lower ends of {label!r} below its upper ends; found {low[i]:g} and {high[i]:g}")
    return px, low, high


def _summary(label: str, x: np.ndarray, low: np.ndarray, high: np.ndarray, unit: str, x_unit: str) -> str:
    there = [i for i in range(len(x)) if np.isfinite([x[i], low[i], high[i]]).all()]
    parts = [
        f"{format_si(float(low[i]), unit)} to {format_si(float(high[i]), unit)} at {format_si(float(x[i]), x_unit)}"
        for i in dict.fromkeys([*there[:1], *there[-1:]])
    ]
    return f"{label}: {', '.join(parts) or 'no points'}."
