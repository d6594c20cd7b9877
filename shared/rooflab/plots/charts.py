"""How do we draw a sweep, a distribution, a comparison?

>>> curves([1, 10], {"waited": [1e-6, 1e-3]}, title="Time grows", x="side n", y="time per call", unit="s")
Time grows. Chart of time per call over side n. waited: 1 µs at 1 to 1 ms at 10.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..logbook import log_curves
from ..measurement import Measurement, Ratio, quantile
from ..records import recorded_curves
from ..units import format_si
from .style import BOUND, RECORDED, figure, say_disturbed, series_style, set_axis

__all__ = ["bars", "curves", "distribution", "intervals"]

Series = Sequence[float] | Sequence[Measurement]
# A series over the common positions, or with positions of its own.
Line = Series | tuple[Sequence[float], Series]


def _bands(values: Series, attribute: str) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Middle, low and high of a series; plain numbers have no band."""
    if len(values) and isinstance(values[0], Measurement):
        ms: Any = values
        if attribute == "median_s":
            return tuple(np.array([getattr(m, a) for m in ms]) for a in ("median_s", "p20_s", "p80_s"))  # type: ignore[return-value]
        middle = np.array([getattr(m, attribute) for m in ms])  # a rate: the band turns over
        return middle, middle * [m.median_s / m.p80_s for m in ms], middle * [m.median_s / m.p20_s for m in ms]
    return np.array(values, dtype=float), None, None


def _positions(label: str, xs: Sequence[float], line: Any) -> tuple[Sequence[float], Any]:
    """The positions and values of a line; without positions of its own it starts at the first common one."""
    own = isinstance(line, tuple) and len(line) == 2 and hasattr(line[0], "__len__")
    where, values = line if own else (xs[: len(line)], line)
    if len(where) != len(values):
        raise ValueError(f"{label!r} has {len(values)} values for {len(where)} positions.")
    return where, values


def _summary(label: str, x: Sequence[float], y: np.ndarray, unit: str, x_unit: str) -> str:
    there = [i for i in range(len(y)) if np.isfinite(y[i])]
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

    Args:
        xs: positions, one per point.
        series: label to numbers, or to measurements (drawn with their p20 to p80 band); a pair (positions, values)
            has positions of its own.
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
    """
    models = {label: _positions(label, xs, line) for label, line in (bounds or {}).items()}
    lines = {label: _positions(label, xs, line) for label, line in series.items()}
    if key:
        log_curves(key, {label: (px, _bands(v, attribute)[0].tolist()) for label, (px, v) in lines.items()})
    there = recorded_curves(key) if key else {}
    stroke = "" if points else "-"
    alt = [f"{title.rstrip('.')}. Chart of {y} over {x}."]
    with figure(title, alt="") as ax:
        for i, (label, (where, model)) in enumerate(models.items()):
            ax.plot(where, model, linestyle=("--", ":", "-.")[i % 3], label=label, **BOUND)
        for i, (label, other) in enumerate(there.items()):
            values = np.array(other["y"], dtype=float)
            ax.plot(other["x"], values, label=label, marker=("o", "s", "^", "D")[i % 4], markerfacecolor="white",
                    linestyle=stroke, **RECORDED)  # fmt: skip
            alt.append(_summary(label, other["x"], values, unit, x_unit))
        for i, (label, (where, line)) in enumerate(lines.items()):
            middle, low, high = _bands(line, attribute)
            look = series_style(i)
            ax.plot(where, middle, label=label, linestyle=stroke, **look)
            if low is not None and high is not None:
                ax.fill_between(where, low, high, color=look["color"], alpha=0.18, linewidth=0, zorder=2)
            alt.append(_summary(label, where, middle, unit, x_unit))
        alt += _mark(ax, marks or {}, x_unit)
        whole = all(float(position).is_integer() for where, _ in lines.values() for position in where)
        set_axis(ax.xaxis, label=x, unit=x_unit, log="x" in log, whole=whole)
        set_axis(ax.yaxis, label=y, unit=unit, log="y" in log)
        ax.set_ylim(*ylim)
        _legend(ax)
        ax.figure.alt = " ".join(alt)
    say_disturbed(value for _, values in lines.values() for value in values if isinstance(value, Measurement))


def _mark(ax: Any, marks: Mapping[str, float], unit: str) -> list[str]:
    """Draw a named vertical line at each position; returns a sentence about each."""
    for i, (label, where) in enumerate(marks.items()):
        ax.axvline(where, color="#777777", linewidth=0.9, linestyle=(0, (1, 2)), zorder=0.5)
        at = (where, (0.98, 0.55)[i % 2])  # neighbours at two heights, so that their names do not touch
        halo = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.5}
        ax.annotate(label, at, xycoords=("data", "axes fraction"), rotation=90, xytext=(-3, 0), va="top", bbox=halo,
                    textcoords="offset points", ha="right", fontsize=8.5, color="#444444", zorder=4)  # fmt: skip
    return [f"Line at {label}: {format_si(where, unit)}." for label, where in marks.items()]


def _name(label: str) -> str:
    """A row's name, in lines short enough to leave room for the chart."""
    return textwrap.fill(label, 26)


def _legend(ax: Any) -> None:
    handles, labels = ax.get_legend_handles_labels()
    if len(labels) > 1:
        ax.legend(handles, labels, loc="center left", bbox_to_anchor=(1.01, 0.5))


def distribution(
    times_s: Sequence[float], *, title: str, x: str = "time per call", bins: int = 60, clip: float = 0.99
) -> None:
    """Show samples as a histogram with mean, median and the p20 to p80 band.

    Args:
        times_s: one entry a call.
        title: the message.
        x: label of the horizontal axis.
        bins: number of bars.
        clip: the axis ends at this quantile; the calls beyond are counted in a note, not hidden.
    """
    if not len(times_s):
        raise ValueError("expected the times of at least one call; found none")
    mean, median = float(np.mean(times_s)), quantile(times_s, 0.5)
    p20, p80, end = (quantile(times_s, q) for q in (0.2, 0.8, clip))
    end = max(end, 1.05 * mean)
    beyond = sum(t > end for t in times_s)
    with figure(title) as ax:
        ax.axvspan(p20, p80, color="#0072B2", alpha=0.13, linewidth=0, label="p20 to p80")
        ax.hist([t for t in times_s if t <= end], bins=bins, color="#7fb3d5", edgecolor="white", linewidth=0.3)
        ax.axvline(median, color="#0072B2", label=f"median {format_si(median, 's')}")
        ax.axvline(mean, color="#D55E00", linestyle="--", label=f"mean {format_si(mean, 's')}")
        set_axis(ax.xaxis, label=x, unit="s", log=False)
        ax.set_ylabel("calls")
        if beyond:
            noun = "call" if beyond == 1 else "calls"
            note = f"{beyond} slower {noun} beyond,\nup to {format_si(max(times_s), 's')}"
            ax.annotate(note, (0.985, 0.3), xycoords="axes fraction", ha="right", fontsize=9, color="#555555")
        ax.legend(loc="upper right")
        ax.figure.alt = (f"{title.rstrip('.')}. Histogram of {len(times_s)} calls: median {format_si(median, 's')}, "
                         f"mean {format_si(mean, 's')}, p20 {format_si(p20, 's')}, p80 {format_si(p80, 's')}, longest "
                         f"{format_si(max(times_s), 's')}.")  # fmt: skip


def intervals(
    rows: Mapping[str, Ratio | tuple[float, float, float]],
    *,
    title: str,
    x: str,
    truth: float | None = None,
    unit: str = "",
) -> None:
    """Show each row as a point with its p20 to p80 interval, and the true value as a dashed line.

    Args:
        rows: label to a ``Ratio`` or to (low, middle, high).
        title: the message.
        x: label of the horizontal axis.
        truth: where the right answer lies.
        unit: of the values.
    """
    alt = [f"{title.rstrip('.')}."]
    with figure(title, size=(7.2, 1.1 + 0.55 * len(rows))) as ax:
        if truth is not None:
            ax.axvline(truth, linestyle="--", label=f"truth: {format_si(truth, unit)}", **BOUND)
            alt.append(f"The truth is {format_si(truth, unit)}.")
        for i, (label, row) in enumerate(rows.items()):
            low, middle, high = (row.p20, float(row), row.p80) if isinstance(row, Ratio) else row
            look = series_style(i)
            ax.plot([low, high], [i, i], color=look["color"], linewidth=5, alpha=0.35, solid_capstyle="butt")
            ax.plot([middle], [i], linestyle="", **look)
            alt.append(f"{label}: {format_si(middle, unit)} ({format_si(low, unit)} to {format_si(high, unit)}).")
        ax.set_yticks(range(len(rows)), [_name(label) for label in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        set_axis(ax.xaxis, label=x, unit=unit, log=False)
        if truth is not None:
            ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        ax.figure.alt = " ".join(alt)


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
        log: draw the value axis logarithmically.
    """
    names, there = list(values), recorded or {}
    thick = 0.38 if there else 0.6
    alt = [f"{title.rstrip('.')}. Bars of {y}."]
    with figure(title, size=(7.2, 1.3 + (0.55 if there else 0.33) * len(names))) as ax:
        for i, name in enumerate(names):
            ax.barh(i, values[name], height=thick, color="#0072B2", zorder=2, label="yours" if i == 0 else None)
            if name in there:
                ax.barh(i + thick, there[name], height=thick, color="#b5b5b5", zorder=2,
                        label="recorded" if name == next(iter(there)) else None)  # fmt: skip
            if bounds and name in bounds:
                ax.plot([bounds[name]] * 2, [i - thick * 0.7, i + thick * 0.7], linestyle=(0, (2, 1)), color="black",
                        linewidth=2, zorder=3, label="model" if name == next(iter(bounds)) else None)  # fmt: skip
            alt.append(f"{name}: {format_si(values[name], unit)}.")
        ax.set_yticks([i + (thick / 2 if there else 0) for i in range(len(names))], [_name(name) for name in names])
        for i, (label, value) in enumerate((marks or {}).items()):
            ax.axvline(value, color="#D55E00", linewidth=1.3, linestyle="--", zorder=3)
            # The names of neighbours stand at two heights above the axes.
            ax.annotate(label, (value, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 3 + 12 * (i % 2)),
                        ha="center", textcoords="offset points", fontsize=9, color="#D55E00")  # fmt: skip
            alt.append(f"Line at {label}: {format_si(value, unit)}.")
        ax.invert_yaxis()
        ax.grid(axis="y", visible=False)
        set_axis(ax.xaxis, label=y, unit=unit, log=log)
        _legend(ax)
        ax.figure.alt = " ".join(alt)
