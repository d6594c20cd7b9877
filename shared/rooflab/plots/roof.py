"""Where does an operation lie under the roof?

>>> from rooflab.costs import matmul
>>> from rooflab.roofline import Ceilings
>>> roofline(Ceilings(1e11, {"fp32": 1e12}), {"mm": matmul(512, 512, 512, "fp32")}, title="Under the roof")
Under the roof. Roofline: 100 GB/s; fp32 1 TFLOP/s, ridge 10 FLOP/byte. 1 mm: intensity 85.3 FLOP/byte, model 1 TFLOP/s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..costs import Work
from ..measurement import Measurement
from ..roofline import Ceilings, attainable, bound
from ..units import format_si
from .style import BOUND, RECORDED, figure, series_style, set_axis

__all__ = ["draw_roof", "roofline"]

Point = Work | Measurement


def draw_roof(ax: Any, ceilings: Ceilings, formats: Sequence[str], span: tuple[float, float], **look: Any) -> None:
    """Draw one roof per format over the intensities ``span``, each flat part named at its right end."""
    style = BOUND | look
    grid = np.geomspace(*span, 400)
    for i, fmt in enumerate(formats):
        roof = [attainable(intensity, ceilings, fmt) for intensity in grid]
        ax.plot(grid, roof, linestyle=("--", ":", "-.", (0, (5, 1)))[i % 4], **style)
        ax.annotate(f"{fmt} {format_si(ceilings.flops_per_s[fmt], 'FLOP/s')}", (span[1], roof[-1]), xytext=(-2, 3),
                    textcoords="offset points", ha="right", fontsize=8.5, color=style["color"])  # fmt: skip


def _work(point: Point) -> Work:
    if isinstance(point, Work):
        return point
    if point.work is None:
        raise ValueError(f"{point.name} has no work: pass work=costs.… to measure() to place it under a roof.")
    return point.work


def roofline(
    ceilings: Ceilings,
    points: Mapping[str, Point],
    *,
    title: str,
    formats: Sequence[str] | None = None,
    recorded: Mapping[str, Mapping[str, float]] | None = None,
    recorded_ceilings: Ceilings | None = None,
    span: tuple[float, float] | None = None,
) -> None:
    """Show operations under the roof: predicted hollow, measured solid, recorded grey; numbered, named at the right.

    Args:
        ceilings: the device's measured ceilings.
        points: name to a ``Work`` (predicted only) or a ``Measurement`` with its work.
        title: the message.
        formats: roofs to draw; default: those that the points use.
        recorded: name to ``{"intensity": FLOP/byte, "flops_per_s": FLOP/s}`` of the reference device.
        recorded_ceilings: the reference device's roof.
        span: intensities to draw, in FLOP/byte; default: what the points need.
    """
    works = {name: _work(point) for name, point in points.items()}
    used = list(dict.fromkeys(work.dtype for work in works.values()))
    formats = list(formats or [fmt for fmt in used if fmt in ceilings.flops_per_s])
    reach = [work.intensity for work in works.values()] + [ceilings.ridge(fmt) for fmt in formats]
    span = span or (min(reach) / 3, max(reach) * 5)
    alt = [f"{title.rstrip('.')}. Roofline: {format_si(ceilings.bytes_per_s, 'B/s')};"]
    alt.append("; ".join(f"{fmt} {format_si(ceilings.flops_per_s[fmt], 'FLOP/s')}, ridge "
                         f"{format_si(ceilings.ridge(fmt), 'FLOP/byte')}" for fmt in formats) + ".")  # fmt: skip
    with figure(title, size=(7.2, 4.4)) as ax:
        if recorded_ceilings is not None:
            draw_roof(ax, recorded_ceilings, [f for f in formats if f in recorded_ceilings.flops_per_s], span,
                      color=RECORDED["color"], linewidth=1.0)  # fmt: skip
        draw_roof(ax, ceilings, formats, span)
        for number, (name, point) in enumerate(points.items(), 1):
            other = (recorded or {}).get(name)
            if other:
                _number(ax, other["intensity"], other["flops_per_s"], number, "#b8b8b8", filled=True)
            alt.append(_place(ax, name, point, works[name], number, ceilings))
        set_axis(ax.xaxis, label="arithmetic intensity (FLOP/byte)", unit="", log=True)
        set_axis(ax.yaxis, label="rate", unit="FLOP/s", log=True)
        _key(ax, list(points), bool(recorded))
        ax.figure.alt = " ".join(alt)


def _place(ax: Any, name: str, point: Point, work: Work, number: int, ceilings: Ceilings) -> str:
    """Draw one operation and say where it lies."""
    predicted = bound(work, ceilings).flops_per_s
    colour = series_style(0)["color"]
    text = (
        f"{number} {name}: intensity {format_si(work.intensity, 'FLOP/byte')}, model {format_si(predicted, 'FLOP/s')}"
    )
    if isinstance(point, Measurement):
        ax.plot([work.intensity] * 2, [predicted, point.flops_per_s], color=colour, linewidth=0.9, zorder=2)
        ax.plot(
            [work.intensity], [predicted], marker="o", markersize=6, color=colour, markerfacecolor="white", zorder=3
        )
        _number(ax, work.intensity, point.flops_per_s, number, colour, filled=True)
        return f"{text}, measured {format_si(point.flops_per_s, 'FLOP/s')}."
    _number(ax, work.intensity, predicted, number, colour, filled=False)
    return f"{text}."


def _number(ax: Any, x: float, y: float, number: int, colour: str, *, filled: bool) -> None:
    """A numbered point: solid when measured, hollow when predicted."""
    ax.plot([x], [y], marker="o", markersize=12, color=colour, markerfacecolor=colour if filled else "white",
            markeredgewidth=1.2, zorder=4 if colour != "#b8b8b8" else 2.5)  # fmt: skip
    ax.annotate(str(number), (x, y), ha="center", va="center_baseline", fontsize=7.5, zorder=5,
                color="white" if filled else colour, fontweight="bold")  # fmt: skip


def _key(ax: Any, names: Sequence[str], recorded: bool) -> None:
    """The list of names beside the axes, and what solid, hollow and grey mean."""
    lines = [f"{number}  {name}" for number, name in enumerate(names, 1)]
    legend = ["● measured", "○ model", "-- roof"] + (["grey: recorded"] if recorded else [])
    ax.annotate("\n".join([*lines, "", *legend]), (1.02, 1.0), xycoords="axes fraction", va="top", fontsize=9,
                linespacing=1.35, annotation_clip=False)  # fmt: skip
