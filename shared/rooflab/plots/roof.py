"""Where does an operation lie under the roof?

>>> from rooflab.costs import matmul
>>> from rooflab.roofline import Ceilings
>>> roofline(Ceilings(1e11, {"fp32": 1e12}), {"mm": matmul(512, 512, 512, "fp32")}, title="Under the roof")
Under the roof. Roofline: 100 GB/s; fp32 1 TFLOP/s, ridge 10 FLOP/byte. 1 mm: intensity 85.3 FLOP/byte, model 1 TFLOP/s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..costs import Work
from ..logbook import log
from ..measurement import Measurement
from ..records import recorded, reference, short_name
from ..roofline import Ceilings, attainable, bound
from ..units import format_si
from .style import BOUND, RECORDED, figure, say_disturbed, series_style, set_axis

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
    launches: Callable[[int], Work] | None = None,
) -> None:
    """Show operations under the roof: predicted hollow, measured solid, recorded grey; numbered, named at the right.

    Args:
        ceilings: the device's measured ceilings.
        points: name to a ``Work`` (predicted only) or a ``Measurement`` with its work.
        title: the message.
        formats: roofs to draw; default: those that the points use.
        key: under which the picture is logged; the reference record's points and roof of that key are drawn in grey.
        span: intensities to draw, in FLOP/byte; default: what the points need.
        launches: size to the work of one launch; its roof of launches is dotted, where that is the lowest.
    """
    works = {name: _work(point) for name, point in points.items()}
    used = list(dict.fromkeys(work.dtype for work in works.values()))
    formats = list(formats or [fmt for fmt in used if fmt in ceilings.flops_per_s])
    reach = [work.intensity for work in works.values()] + [ceilings.ridge(fmt) for fmt in formats]
    alt = [f"{title.rstrip('.')}. Roofline: {format_si(ceilings.bytes_per_s, 'B/s')};"]
    alt.append("; ".join(f"{fmt} {format_si(ceilings.flops_per_s[fmt], 'FLOP/s')}, ridge "
                         f"{format_si(ceilings.ridge(fmt), 'FLOP/byte')}" for fmt in formats) + ".")  # fmt: skip
    if key:
        log(key, _as_record(ceilings, points, works, formats))
    there = recorded(key) if key else None
    others = there["points"] if there else {}
    reach += [other["intensity"] for name, other in others.items() if name in points]
    span = span or (min(reach) / 3, max(reach) * 5)
    with figure(title, size=(7.2, 4.4)) as ax:
        set_axis(ax.xaxis, label="arithmetic intensity (FLOP/byte)", unit="", log=True)
        set_axis(ax.yaxis, label="rate", unit="FLOP/s", log=True)
        if there:
            draw_roof(ax, Ceilings.from_dict(there["ceilings"]), there["formats"], span, color=RECORDED["color"])
        draw_roof(ax, ceilings, formats, span)
        low, high = _heights(ax, ceilings, points, works, others)
        ax.set(xlim=span, ylim=(low, high))
        if launches is not None:
            _draw_launches(ax, ceilings, launches)
        dots = _Dots(span, (low, high))
        for number, (name, point) in enumerate(points.items(), 1):
            if name in others:
                dots.draw(ax, others[name]["intensity"], others[name]["flops_per_s"], GREY, number=number)
            alt.append(_place(ax, name, point, works[name], number, ceilings, dots))
        dots.number_all(ax)
        _key(ax, points, f"grey: {short_name(reference() or {})}" if there else "")
        ax.figure.alt = " ".join(alt)
    say_disturbed(point for point in points.values() if isinstance(point, Measurement))


def _draw_launches(ax: Any, ceilings: Ceilings, work_of: Callable[[int], Work]) -> None:
    """The rate that a launch allows, over the intensities of a growing work: FLOPs over t0, up to the other roofs."""
    works = [work_of(n) for n in dict.fromkeys(np.geomspace(2, 1e5, 300).astype(int).tolist())]
    bound_here = [work for work in works if bound(work, ceilings).regime == "overhead"]
    if bound_here:
        rates = [bound(work, ceilings).flops_per_s for work in bound_here]
        ax.plot([work.intensity for work in bound_here], rates, color="#333333", linewidth=1, linestyle=":", zorder=1)


def _heights(
    ax: Any, ceilings: Ceilings, points: Mapping[str, Point], works: Mapping[str, Work], others: Mapping[str, Any]
) -> tuple[float, float]:
    """Lower and upper end of the vertical axis: all points with room for their numbers, and the roofs beside them."""
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


def _place(ax: Any, name: str, point: Point, work: Work, number: int, ceilings: Ceilings, dots: _Dots) -> str:
    """Draw one operation and say where it lies."""
    predicted = bound(work, ceilings).flops_per_s
    text = f"{number} {name}: intensity {format_si(work.intensity, 'FLOP/byte')}, "
    text += f"model {format_si(predicted, 'FLOP/s')}"
    if not isinstance(point, Measurement):
        dots.draw(ax, work.intensity, predicted, OWN, number=number, filled=False)
        return f"{text}."
    ax.plot([work.intensity] * 2, [predicted, point.flops_per_s], color=OWN, linewidth=0.9, zorder=2)
    dots.draw(ax, work.intensity, predicted, OWN, filled=False)
    dots.draw(ax, work.intensity, point.flops_per_s, OWN, number=number)
    return f"{text}, measured {format_si(point.flops_per_s, 'FLOP/s')}."


class _Dots:
    """Points at their true places, each with its number beside it where it hides no other point or number.

    Args:
        x_span: left and right end of the axis.
        y_span: lower and upper end.
    """

    # Where a number may stand, in points from its dot: right, left, above, below, then the corners, then farther out.
    _PLACES = tuple(
        (radius * x, radius * y)
        for radius in (11, 19, 29, 40, 52, 65)
        for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (-0.8, -0.8))
    )

    _PAPER = 320, 230  # the axes of this figure in points, about

    def __init__(self, x_span: tuple[float, float], y_span: tuple[float, float]) -> None:
        self._ends = x_span, y_span
        self._taken: list[tuple[float, float]] = []
        self._numbers: list[tuple[float, float, int, str]] = []

    def draw(self, ax: Any, x: float, y: float, colour: str, *, number: int = 0, filled: bool = True) -> None:
        """Draw one dot: solid when measured, hollow when predicted; ``number`` 0 stays without one."""
        if not (x > 0 and y > 0):
            return  # no arithmetic: not on these axes
        ax.plot([x], [y], marker="o", markersize=6, color=colour, markerfacecolor=colour if filled else "white",
                zorder=2.4 if colour == GREY else 3)  # fmt: skip
        self._taken.append(self._on_paper(x, y))
        if number:
            self._numbers.append((x, y, number, colour))

    def number_all(self, ax: Any) -> None:
        """Set the numbers, once all dots are there."""
        for x, y, number, colour in self._numbers:
            left, up = self._on_paper(x, y)
            width = 10 if number < 10 else 15
            at = max(self._PLACES, key=lambda place: min(1.0, self._room(left, up, place, width)))
            self._taken.append((left + at[0], up + at[1]))
            leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}
            ax.annotate(str(number), (x, y), xytext=at, textcoords="offset points", ha="center", va="center",
                        fontsize=8.5, fontweight="bold", color="#777777" if colour == GREY else colour, zorder=5,
                        arrowprops=leader if math.hypot(*at) > 12 else None)  # fmt: skip

    def _room(self, left: float, up: float, place: tuple[float, float], width: float) -> float:
        """How free a place beside a dot is for a number so wide, and the way to it: from 1 on nothing is touched."""
        x, y = left + place[0], up + place[1]
        if not (8 < x < self._PAPER[0] - 8 and 8 < y < self._PAPER[1] - 8):
            return 0.0  # beyond the axes
        others = [(u, v) for u, v in self._taken if (u, v) != (left, up)]
        at_end = min((max(abs(x - u) / width, abs(y - v) / 11) for u, v in others), default=1.0)
        on_the_way = min((math.hypot(left + share * place[0] - u, up + share * place[1] - v) / 6
                          for u, v in others for share in (0.25, 0.5, 0.75)), default=1.0)  # fmt: skip
        return min(at_end, on_the_way)

    def _on_paper(self, x: float, y: float) -> tuple[float, float]:
        """A point's place from the lower left corner, in points."""
        left, up = (paper * math.log(value / low) / math.log(high / low)
                    for value, paper, (low, high) in zip((x, y), self._PAPER, self._ends, strict=True))  # fmt: skip
        return left, up


def _key(ax: Any, points: Mapping[str, Point], grey: str) -> None:
    """The list of names beside the axes, and what solid, hollow and grey mean."""
    lines = [f"{number}  {name}" for number, name in enumerate(points, 1)]
    solid = any(isinstance(point, Measurement) for point in points.values())
    legend = ["● measured"] * solid + ["○ model", "-- roof"] + ([grey] if grey else [])
    ax.annotate("\n".join([*lines, "", *legend]), (1.02, 1.0), xycoords="axes fraction", va="top", fontsize=9,
                linespacing=1.35, annotation_clip=False)  # fmt: skip
