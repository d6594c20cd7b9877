"""Where does an operation lie under the roof?

>>> from rooflab.costs import matmul
>>> from rooflab.roofline import Ceilings
>>> roofline(Ceilings(1e11, {"fp32": 1e12}), {"mm": matmul(512, 512, 512, "fp32")}, title="Under the roof")
Under the roof. Roofline: 100 GB/s; fp32 1 TFLOP/s, ridge 10 FLOP/byte. 1 mm: intensity 85.3 FLOP/byte, model 1 TFLOP/s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..costs import Work
from ..logbook import log
from ..measurement import Measurement
from ..records import recorded, reference, short_name
from ..roofline import Ceilings, attainable, bound
from ..units import format_si
from .style import BOUND, RECORDED, figure, series_style, set_axis

__all__ = ["draw_roof", "roofline"]

Point = Work | Measurement
OWN = series_style(0)["color"]
GREY = "#b0b0b0"


def draw_roof(ax: Any, ceilings: Ceilings, formats: Sequence[str], span: tuple[float, float], **look: Any) -> None:
    """Draw one roof per format over the intensities ``span``, each flat part named at its right end."""
    style = BOUND | look
    grid = np.geomspace(*span, 400)
    for i, fmt in enumerate(formats):
        roof = [attainable(intensity, ceilings, fmt) for intensity in grid]
        ax.plot(grid, roof, linestyle=("--", ":", "-.", (0, (5, 1)))[i % 4], **style)
        ax.annotate(f"{fmt} {format_si(ceilings.flops_per_s[fmt], 'FLOP/s')}", (span[1], roof[-1]), xytext=(-2, 9),
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
    key: str = "",
    span: tuple[float, float] | None = None,
) -> None:
    """Show operations under the roof: predicted hollow, measured solid, recorded grey; numbered, named at the right.

    Args:
        ceilings: the device's measured ceilings.
        points: name to a ``Work`` (predicted only) or a ``Measurement`` with its work.
        title: the message.
        formats: roofs to draw; default: those that the points use.
        key: under which the picture is logged; the reference record's points and roof of that key are drawn in grey.
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
    if key:
        log(key, _as_record(ceilings, points, works, formats))
    there = recorded(key) if key else None
    with figure(title, size=(7.2, 4.4)) as ax:
        set_axis(ax.xaxis, label="arithmetic intensity (FLOP/byte)", unit="", log=True)
        set_axis(ax.yaxis, label="rate", unit="FLOP/s", log=True)
        if there:
            draw_roof(ax, Ceilings.from_dict(there["ceilings"]), there["formats"], span, color=RECORDED["color"])
        draw_roof(ax, ceilings, formats, span)
        others = there["points"] if there else {}
        low, high = _heights(ax, ceilings, points, works, others)
        ax.set(xlim=span, ylim=(low, high))
        badges = _Badges(span[1] / span[0], high / low)
        for number, (name, point) in enumerate(points.items(), 1):
            if name in others:
                badges.place(ax, others[name]["intensity"], others[name]["flops_per_s"], number, GREY)
            alt.append(_place(ax, name, point, works[name], number, ceilings, badges))
        _key(ax, points, f"grey: {short_name(reference() or {})}" if there else "")
        ax.figure.alt = " ".join(alt)


def _heights(
    ax: Any, ceilings: Ceilings, points: Mapping[str, Point], works: Mapping[str, Work], others: Mapping[str, Any]
) -> tuple[float, float]:
    """Lower and upper end of the vertical axis: all points with room for their badges, and the roofs beside them."""
    rates = [bound(work, ceilings).flops_per_s for work in works.values()]
    rates += [point.flops_per_s for point in points.values() if isinstance(point, Measurement)]
    rates += [other["flops_per_s"] for other in others.values()]
    roofs = [rate for line in ax.lines for rate in line.get_ydata()]
    there = [rate for rate in rates if 0 < rate < math.inf] or roofs
    return min([*there, *roofs]) / 2, max([*there, *roofs]) * 2.5


def _as_record(
    ceilings: Ceilings, points: Mapping[str, Point], works: Mapping[str, Work], formats: Sequence[str]
) -> dict[str, Any]:
    """The picture as the logbook keeps it: roof, and the measured points."""
    placed = {name: {"intensity": works[name].intensity, "flops_per_s": point.flops_per_s}
              for name, point in points.items() if isinstance(point, Measurement)}  # fmt: skip
    return {"ceilings": ceilings.to_dict(), "formats": list(formats), "points": placed}


def _place(ax: Any, name: str, point: Point, work: Work, number: int, ceilings: Ceilings, badges: _Badges) -> str:
    """Draw one operation and say where it lies."""
    predicted = bound(work, ceilings).flops_per_s
    text = f"{number} {name}: intensity {format_si(work.intensity, 'FLOP/byte')}, "
    text += f"model {format_si(predicted, 'FLOP/s')}"
    if not isinstance(point, Measurement):
        badges.place(ax, work.intensity, predicted, number, OWN, filled=False)
        return f"{text}."
    ax.plot([work.intensity] * 2, [predicted, point.flops_per_s], color=OWN, linewidth=0.9, zorder=2)
    ax.plot([work.intensity], [predicted], marker="o", markersize=6, color=OWN, markerfacecolor="white", zorder=3)
    badges.place(ax, work.intensity, point.flops_per_s, number, OWN)
    return f"{text}, measured {format_si(point.flops_per_s, 'FLOP/s')}."


class _Badges:
    """Numbered points: solid when measured, hollow when predicted. One that would hide another is set beside it.

    Args:
        x_span: right end of the axis over its left end.
        y_span: upper end over lower end.
    """

    def __init__(self, x_span: float, y_span: float) -> None:
        # Points on paper per decade; the axes of this figure are about 320 by 230 points.
        self._scale = 320 / math.log10(x_span), 230 / math.log10(y_span)
        self._taken: list[tuple[float, float]] = []

    def place(self, ax: Any, x: float, y: float, number: int, colour: str, *, filled: bool = True) -> None:
        if not (x > 0 and y > 0):
            return  # no arithmetic: not on these axes
        left, up = self._scale[0] * math.log10(x), self._scale[1] * math.log10(y)
        shift = 0.0  # in points; the line to the model stays at the true intensity
        while any(math.hypot(left + shift - u, up - v) < 14 for u, v in self._taken):
            shift = -shift if shift > 0 else -shift + 4
        self._taken.append((left + shift, up))
        circle = {"boxstyle": "circle,pad=0.18", "facecolor": colour if filled else "white", "edgecolor": colour}
        ax.plot([x], [y], marker=".", markersize=3, color=colour, zorder=2.4 if colour == GREY else 3)
        ax.annotate(f"{number:>2}" if number > 9 else f" {number} ", (x, y), xytext=(shift, 0), fontsize=7, bbox=circle,
                    textcoords="offset points", ha="center", va="center", fontweight="bold",
                    color="white" if filled else colour, zorder=2.5 if colour == GREY else 4)  # fmt: skip


def _key(ax: Any, points: Mapping[str, Point], grey: str) -> None:
    """The list of names beside the axes, and what solid, hollow and grey mean."""
    lines = [f"{number}  {name}" for number, name in enumerate(points, 1)]
    solid = any(isinstance(point, Measurement) for point in points.values())
    legend = ["● measured"] * solid + ["○ model", "-- roof"] + ([grey] if grey else [])
    ax.annotate("\n".join([*lines, "", *legend]), (1.02, 1.0), xycoords="axes fraction", va="top", fontsize=9,
                linespacing=1.35, annotation_clip=False)  # fmt: skip
