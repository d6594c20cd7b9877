"""How do we draw a sweep?

>>> curves([1, 10], {"waited": [1e-6, 1e-3]}, title="Time grows", x="side n", y="time per call", unit="s")
Time grows. Chart of time per call over side n. waited: 1 µs at 1 to 1 ms at 10.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.patches import Patch

from ..display import say, say_disturbed
from ..logbook import log_curves
from ..measurement import Measurement
from ..records import recorded_curves
from ..units import format_si
from .given import LeftOut, all_whole, named, numbers, refuse_log, refuse_map, refuse_title
from .style import BOUND, MOST_SERIES, RECORDED, figure, refuse_series, series_style, set_axis

__all__ = ["curves", "legend", "positions", "summary"]

Series = Sequence[float] | Sequence[Measurement]
# A series over the common positions, or with positions of its own.
Line = Series | tuple[Sequence[float], Series]
_DASHES = ("--", ":", "-.", (0, (5, 1)), (0, (1, 3)))
_ATTRIBUTES = ("median_s", "flops_per_s", "bytes_per_s")


def _bands(values: Any, attribute: str, label: str = "") -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Middle, low and high of a series; plain numbers have no band."""
    if not any(isinstance(value, Measurement) for value in values):
        return numbers(label, values), None, None
    if not all(isinstance(value, Measurement) for value in values):
        raise TypeError(f"expected numbers or measurements for {label!r}; found both")
    ms: Any = values
    if attribute == "median_s":
        return tuple(np.array([getattr(m, a) for m in ms]) for a in ("median_s", "p20_s", "p80_s"))  # type: ignore[return-value]
    middle = np.array([getattr(m, attribute) for m in ms])  # a rate: the band turns over
    return middle, middle * [m.median_s / m.p80_s for m in ms], middle * [m.median_s / m.p20_s for m in ms]


def positions(label: str, xs: np.ndarray, line: Any) -> tuple[np.ndarray, Any]:
    """The positions and values of a line; without positions of its own it starts at the first common one."""
    own = isinstance(line, tuple) and len(line) == 2 and hasattr(line[0], "__len__")
    if not own and (isinstance(line, str) or not hasattr(line, "__len__")):
        raise TypeError(f"expected a list of numbers or measurements for {label!r}; found a {type(line).__name__}")
    where, values = (numbers(label, line[0]), line[1]) if own else (xs[: len(line)], line)
    if not hasattr(values, "__len__"):
        raise TypeError(f"expected a list of numbers or measurements for {label!r}; found a {type(values).__name__}")
    if len(where) != len(values):
        raise ValueError(f"{label!r} has {len(values)} values for {len(where)} positions.")
    return where, values


def _refuse_looks(title: Any, log: Any, marks: Any) -> None:
    refuse_title(title)
    refuse_log(log)
    refuse_map("marks", marks)


def _checked(xs: Any, lines: Any, bounds: Any, attribute: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The lines and bounds with their positions; refuses what cannot be drawn."""
    for what, given in (("series", lines), ("bounds", bounds or {})):
        if not isinstance(given, Mapping):
            raise TypeError(f"expected {what} as label and values, as in {{'waited': [1e-6, 1e-3]}}; "
                            f"found a {type(given).__name__}")  # fmt: skip
        refuse_series(len(given))
    if attribute not in _ATTRIBUTES:
        raise ValueError(
            f"expected the attribute of a measurement, one of {', '.join(_ATTRIBUTES)}; found {attribute!r}"
        )
    common = numbers("the positions", xs)
    placed = {label: positions(label, common, line) for label, line in lines.items()}
    models = {label: positions(label, common, line) for label, line in (bounds or {}).items()}
    if not any(len(where) for where, _ in (*placed.values(), *models.values())):
        raise ValueError("expected at least one point to draw; found none")
    return placed, models


def summary(label: str, x: np.ndarray, y: np.ndarray, unit: str, x_unit: str) -> str:
    """What the alternative text says of a line: its first point and its last."""
    there = [i for i in range(len(y)) if np.isfinite(y[i]) and np.isfinite(x[i])]
    if not there:
        return f"{label}: no points."
    first, last = (f"{format_si(float(y[i]), unit)} at {format_si(float(x[i]), x_unit)}" for i in (there[0], there[-1]))
    return f"{label}: {first} to {last}."


def curves(
    xs: Sequence[float],
    series: Mapping[str, Line],
    *,
    title: str,
    x: str,
    y: str,
    unit: str = "s",
    x_unit: str = "",
    attribute: str = "median_s",
    bounds: Mapping[str, Line] | None = None,
    key: str = "",
    marks: Mapping[str, float] | None = None,
    log: str = "xy",
    points: bool = False,
    ylim: tuple[float | None, float | None] = (None, None),
) -> None:
    """Show one or more series over a common horizontal axis.

    What cannot be on the axes (zero and below on a logarithmic one, infinity) is left out, and a line below says so.

    Args:
        xs: positions, one per point.
        series: label to numbers, or to measurements (drawn with their p20 to p80 band); a pair (positions, values)
            has positions of its own. At most ``style.MOST_SERIES``.
        title: the message.
        x: label of the horizontal axis.
        y: label of the vertical axis.
        unit: of the values; ticks get SI prefixes.
        x_unit: of the positions.
        attribute: what to draw of a measurement ("median_s", "bytes_per_s", "flops_per_s").
        bounds: label to a model's values; dashed, drawn first.
        key: under which the sweep is logged; the reference record's sweep of the same key is drawn in grey.
        marks: label to a position to mark with a vertical line.
        log: the axes to draw logarithmically: "xy", "x", "y" or "".
        points: dots only, no line.
        ylim: lower and upper end of the vertical axis; None leaves it open.

    Raises:
        ValueError: nothing that can be drawn, more series than can be told apart, or lengths that do not fit.
        TypeError: something is no number.
    """
    _refuse_looks(title, log, marks)
    lines, models = _checked(xs, series, bounds, attribute)
    drawn = {label: (where, *_bands(line, attribute, label)) for label, (where, line) in lines.items()}
    if "y" in log and any(end is not None and end <= 0 for end in ylim):
        raise ValueError(f"expected a logarithmic axis to begin above zero; found ylim={ylim!r}: or pass log='x'")
    left_out = LeftOut(log)
    shown = {label: left_out.of(label, where, middle) for label, (where, middle, *_) in drawn.items()}
    below = {label: left_out.of(label, where, numbers(label, model)) for label, (where, model) in models.items()}
    log = left_out.refuse_nothing()
    if key:
        log_curves(key, {label: (px.tolist(), middle.tolist()) for label, (px, middle, *_) in drawn.items()})
    there = recorded_curves(key) if key else {}
    stroke = "" if points else "-"
    alt = [f"{title.rstrip('.')}. Chart of {y} over {x}."]
    with figure(title, alt="") as ax:
        for i, (label, (where, model)) in enumerate(below.items()):
            ax.plot(where, model, linestyle=_DASHES[i % len(_DASHES)], label=named(label), **BOUND)
        for i, (label, (where, middle)) in enumerate(shown.items()):
            look, (low, high) = series_style(i), drawn[label][2:]
            ax.plot(where, middle, label=named(label), linestyle=stroke, **look)
            if low is not None and high is not None:
                ax.fill_between(where, low, high, color=look["color"], alpha=0.18, linewidth=0, zorder=2)
            alt.append(summary(label, where, middle, unit, x_unit))
        said, swatches = _draw_recorded(ax, there, list(lines), stroke, LeftOut(log), unit, x_unit)
        alt += said + _mark(ax, marks or {}, x_unit, log="x" in log)
        set_axis(ax.xaxis, label=x, unit=x_unit, log="x" in log, whole=all_whole(px for px, _ in lines.values()))
        set_axis(ax.yaxis, label=y, unit=unit, log="y" in log)
        ax.set_ylim(*ylim)
        legend(ax, swatches)
        ax.figure.alt = " ".join(filter(None, [*alt, left_out.sentence()]))
    if sentence := left_out.sentence():
        say(sentence)
    say_disturbed(value for _, values in lines.values() for value in values if isinstance(value, Measurement))


def _draw_recorded(
    ax: Any, there: Mapping[str, Any], own: list[str], stroke: str, left_out: LeftOut, unit: str, x_unit: str
) -> tuple[list[str], list[Any]]:
    """Draw the reference device's lines in grey; those of the reader's own have their marks, and one name for all.

    Returns what the alternative text says of each, and that name as a swatch of grey: it belongs to no mark.
    """
    said = []
    swatches: dict[str, Any] = {}
    more = itertools.count(len(own))
    for label, other in there.items():
        device, _, line = label.partition(": ")
        twin = line in own
        if twin:
            swatches[device] = Patch(color=RECORDED["color"], label=f"{named(device)}: the same, in grey")
        where, values = left_out.of(label, numbers(label, other["x"]), numbers(label, other["y"]))
        marker = series_style((own.index(line) if twin else next(more)) % MOST_SERIES)["marker"]
        name = None if twin else named(label)
        ax.plot(where, values, label=name, marker=marker, markerfacecolor="white", linestyle=stroke, **RECORDED)
        said.append(summary(label, where, values, unit, x_unit))
    return said, list(swatches.values())


def _mark(ax: Any, marks: Mapping[str, float], unit: str, *, log: bool) -> list[str]:
    """Draw a named vertical line at each position; returns a sentence about each."""
    said = []
    order = sorted(marks, key=lambda label: float(numbers(label, [marks[label]])[0]))
    for i, label in enumerate(order):
        where = float(numbers(label, [marks[label]])[0])
        # Of two each is named on its own side; of more, neighbours stand at two heights.
        side, height = (("right", "left")[i], 0) if len(order) == 2 else ("center", 12 * (i % 2))
        if not np.isfinite(where) or (log and where <= 0):
            said.append(f"Line at {label}: {format_si(where, unit)}, not on these axes.")
            continue
        # Solid, since models are dashed; named above the axes, where no data is.
        ax.axvline(where, color="#777777", linewidth=0.9, zorder=0.5)
        ax.annotate(named(label, width=36, lines=1), (where, 1.0), xycoords=("data", "axes fraction"), ha=side,
                    xytext=(0, 3 + height), textcoords="offset points", fontsize=8.5,
                    color="#444444")  # fmt: skip
        said.append(f"Line at {label}: {format_si(where, unit)}.")
    return said


def legend(ax: Any, last: Sequence[Any] = ()) -> None:
    """Name the lines at the right, then ``last``, where there is more than one name; many names get a line each."""
    handles, labels = ax.get_legend_handles_labels()
    handles, labels = [*handles, *last], [*labels, *(handle.get_label() for handle in last)]
    if len(labels) > 1:
        if sum(label.count("\n") + 1 for label in labels) > 16:
            labels = [named(label.replace(r"\$", "$"), width=44, lines=1) for label in labels]
        ax.legend(handles, labels, loc="center left", bbox_to_anchor=(1.01, 0.5))
