"""How do we compare things that have names?

>>> bars({"copy": 1e-3, "product": 3e-3}, title="A product takes longer", y="time")
A product takes longer. Bars of time. copy: 1 ms. product: 3 ms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.patches import Patch

from ..measurement import Ratio
from ..units import format_si
from .charts import legend
from .given import named, numbers, one_number, refuse_map, refuse_rows, refuse_title
from .style import BOUND, MOST_SERIES, figure, series_style, set_axis, title_height

__all__ = ["bars", "intervals"]


def _row(label: object) -> str:
    """A row's name, in lines short enough to leave room for the chart."""
    return named(label, width=26)


def intervals(
    rows: Mapping[str, Ratio | tuple[float, float, float]],
    *,
    title: str,
    x: str,
    truth: float | None = None,
    unit: str = "",
    interval: str = "bar: p20 to p80",
) -> None:
    """Show each row as a point with its interval, of a ``Ratio`` p20 to p80, and the true value as a dashed line.

    Args:
        rows: label to a ``Ratio`` or to (low, middle, high).
        title: the message.
        x: label of the horizontal axis.
        truth: where the right answer lies.
        unit: of the values.
        interval: what the bars are, for the legend.

    Raises:
        ValueError: no rows, more than a page holds, or ends in the wrong order.
        TypeError: something is no number.
    """
    refuse_title(title)
    refuse_rows(rows, "intervals")
    ends = {label: _interval(label, row) for label, row in rows.items()}
    alt = [f"{title.rstrip('.')}."]
    with figure(title, size=(7.2, 1.1 + title_height(title) + 0.55 * len(rows))) as ax:
        if truth is not None:
            ax.axvline(truth, linestyle="--", label=f"truth: {format_si(truth, unit)}", **BOUND)
            alt.append(f"The truth is {format_si(truth, unit)}.")
        for i, (label, (low, middle, high)) in enumerate(ends.items()):
            look = series_style(i % MOST_SERIES)  # named at the axis: none has to be told by its mark
            ax.plot([low, high], [i, i], color=look["color"], linewidth=5, alpha=0.35, solid_capstyle="butt")
            ax.plot([middle], [i], linestyle="", **look)
            alt.append(f"{label}: {format_si(middle, unit)} ({format_si(low, unit)} to {format_si(high, unit)}).")
        ax.set_yticks(range(len(rows)), [_row(label) for label in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        set_axis(ax.xaxis, label=x, unit=unit, log=False)
        handles, labels = ax.get_legend_handles_labels()
        bar = Patch(color=BOUND["color"], alpha=0.35, linewidth=0)
        ax.legend([*handles, bar], [*labels, named(interval)], loc="center left", bbox_to_anchor=(1.01, 0.5))
        ax.figure.alt = " ".join(alt)


def _interval(label: str, row: Any) -> tuple[float, float, float]:
    if isinstance(row, Ratio):
        return row.p20, float(row), row.p80
    values = numbers(label, row)
    if len(values) != 3 or values[0] > values[1] or values[1] > values[2]:
        raise ValueError(f"expected (low, middle, high) in this order for {label!r}; found {row!r}")
    low, middle, high = np.where(np.isfinite(values), values, np.nan).tolist()
    return low, middle, high


def bars(
    values: Mapping[str, float],
    *,
    title: str,
    y: str,
    unit: str = "s",
    bounds: Mapping[str, float] | None = None,
    recorded: Mapping[str, float] | None = None,
    marks: Mapping[str, float] | None = None,
    log: bool = False,
) -> None:
    """Show one bar a row, with its bound as a dashed tick and the recorded value as a grey bar beside it.

    Args:
        values: label to value.
        title: the message.
        y: label of the value axis.
        unit: of the values.
        bounds: label to the model's value.
        recorded: label to the reference record's value.
        marks: label to a value to mark with a line across all bars.
        log: draw the value axis logarithmically; a bar of zero or below is then a note at the axis.

    Raises:
        ValueError: no bars, more than a page holds, a bound without its bar, or no bar that a
            logarithmic axis could show.
        TypeError: something is no number.
    """
    refuse_title(title)
    refuse_rows(values, "bars")
    for what, more in (("bounds", bounds), ("recorded values", recorded), ("marks", marks)):
        refuse_map(what, more)
    if strangers := [name for name in bounds or {} if name not in values]:
        raise ValueError(f"expected bounds of the bars, {_list(values)}; found one of {_list(strangers)}")
    lengths = {name: one_number(name, value) for name, value in values.items()}
    there = {name: one_number(f"recorded: {name}", value) for name, value in (recorded or {}).items()}
    models = {name: one_number(f"model: {name}", value) for name, value in (bounds or {}).items()}
    if log and not any(_fits(value, log=True) for value in lengths.values()) and any(v <= 0 for v in lengths.values()):
        raise ValueError("expected a bar above zero on a logarithmic axis; found none: pass log=False")
    thick = 0.38 if there else 0.6
    alt = [f"{title.rstrip('.')}. Bars of {y}."]
    height = 1.3 + title_height(title) + (0.55 if there else 0.33) * len(lengths)
    log = log and any(_fits(value, log=True) for value in lengths.values())
    with figure(title, size=(7.2, height)) as ax:
        seen: set[str] = set()
        for i, (name, length) in enumerate(lengths.items()):
            _bar(ax, i, length, thick, "#0072B2", _once("yours", seen), unit, log=log)
            if name in there:
                _bar(ax, i + thick, there[name], thick, "#b5b5b5", _once("recorded", seen), unit, log=log)
            if _fits(models.get(name, math.nan), log=log):
                ax.plot([models[name]] * 2, [i - thick * 0.7, i + thick * 0.7], linestyle=(0, (2, 1)), color="black",
                        linewidth=2, zorder=3, label=_once("model", seen))  # fmt: skip
            alt.append(f"{name}: {'no value' if math.isnan(length) else format_si(length, unit)}.")
        ax.set_yticks([i + (thick / 2 if there else 0) for i in range(len(lengths))], [_row(name) for name in lengths])
        alt += _lines(ax, marks or {}, unit, log=log)
        ax.set_ylim(len(lengths) - 1 + thick * (1.6 if there else 0.6), -thick * 0.6 - 0.1)
        ax.grid(axis="y", visible=False)
        set_axis(ax.xaxis, label=y, unit=unit, log=log)
        legend(ax)
        ax.figure.alt = " ".join(alt)


def _list(names: Iterable[object]) -> str:
    return ", ".join(map(repr, names))[:80]


def _fits(value: float, *, log: bool) -> bool:
    """Whether a value can be drawn on the axis."""
    return math.isfinite(value) and (value > 0 or not log)


def _once(name: str, seen: set[str]) -> str | None:
    """The name for the legend, the first time it is asked for."""
    if name in seen:
        return None
    seen.add(name)
    return name


def _bar(
    ax: Any, at: float, value: float, thick: float, colour: str, label: str | None, unit: str, *, log: bool
) -> None:
    """One bar; where it cannot be drawn, its value stands at the axis."""
    if _fits(value, log=log):
        ax.barh(at, value, height=thick, color=colour, zorder=2, label=label)
        return
    # Nothing to see, but the row and its name in the legend stay.
    ax.barh(at, math.nan, height=thick, color=colour, label=label)
    note = "–" if math.isnan(value) else format_si(value, unit) + (": not on a logarithmic axis" if log else "")
    ax.annotate(note, (0, at), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
                va="center", fontsize=8.5, color="#555555")  # fmt: skip


def _lines(ax: Any, marks: Mapping[str, float], unit: str, *, log: bool) -> list[str]:
    """Draw a named line across all bars at each value; returns a sentence about each."""
    said = []
    for i, (label, given) in enumerate(marks.items()):
        value = one_number(label, given)
        if not _fits(value, log=log):
            said.append(f"Line at {label}: {format_si(value, unit)}, not on these axes.")
            continue
        ax.axvline(value, color="#D55E00", linewidth=1.3, linestyle="--", zorder=3)
        # The names of neighbours stand at two heights above the axes.
        ax.annotate(named(label, width=40, lines=1), (value, 1.0), xycoords=("data", "axes fraction"),
                    xytext=(0, 3 + 12 * (i % 2)), ha="center", textcoords="offset points", fontsize=9,
                    color="#D55E00")  # fmt: skip
        said.append(f"Line at {label}: {format_si(value, unit)}.")
    return said
