"""Where does an operation lie under the roof?

>>> from rooflab.costs import matmul
>>> from rooflab.roofline import Ceilings
>>> roofline(Ceilings(1e11, {"fp32": 1e12}), {"mm": matmul(512, 512, 512, "fp32")}, title="Under the roof")
Under the roof. Roofline: 100 GB/s; fp32 1 TFLOP/s, ridge 10 FLOP/byte. 1 mm: intensity 85.3 FLOP/byte, model 1 TFLOP/s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from ..costs import Work
from ..display import say_disturbed
from ..logbook import log
from ..measurement import Measurement
from ..records import recorded, reference, short_name
from ..roofline import Ceilings, attainable, bound
from ..units import format_name, format_si
from .dots import GREY, Dots
from .given import named, refuse_title
from .style import BOUND, RECORDED, figure, series_style, set_axis

__all__ = ["draw_roof", "roofline"]

Point = Work | Measurement
OWN = series_style(0)["color"]
MOST_POINTS = 20
_WIDTH = 40  # of a name beside the axes, in characters


def draw_roof(ax: Any, ceilings: Ceilings, formats: Sequence[str], span: tuple[float, float], **look: Any) -> None:
    """Draw one roof per format over the intensities ``span``, each flat part named at its right end.

    Without a format the slope of the bandwidth is all there is.
    """
    style = BOUND | look
    grid = np.geomspace(*span, 400)
    if not formats:
        slope = grid * ceilings.bytes_per_s
        ax.plot(grid, slope, linestyle="--", **style)
        ax.annotate(format_si(ceilings.bytes_per_s, "B/s"), (grid[280], slope[280]), xytext=(8, -10), ha="left",
                    textcoords="offset points", fontsize=8.5, color=style["color"])  # fmt: skip
    for i, fmt in enumerate(formats):
        roof = [attainable(intensity, ceilings, fmt) for intensity in grid]
        ax.plot(grid, roof, linestyle=("--", ":", "-.", (0, (5, 1)))[i % 4], **style)
        ax.annotate(f"{fmt} {format_si(ceilings.flops_per_s[fmt], 'FLOP/s')}", (span[1], roof[-1]), xytext=(-2, 9),
                    textcoords="offset points", ha="right", fontsize=8.5, color=style["color"])  # fmt: skip


def _work(name: str, point: Point) -> Work:
    if isinstance(point, Work):
        return point
    if not isinstance(point, Measurement):
        raise TypeError(f"expected a Work or a Measurement to place under the roof; found a {type(point).__name__} for "
                        f"{name!r}")  # fmt: skip
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

    Without points the roof is drawn alone, in all formats. Work without arithmetic, or without traffic, has no place on
    logarithmic axes: it is named in the list, and said to be not shown.

    Raises:
        ValueError: more points than can be named, a measurement without work, or a span that is none.
        KeyError: the ceilings have no rate for a format.
        TypeError: these are no ceilings, or a point is none.
    """
    refuse_title(title)
    works, formats = _checked(ceilings, points, formats, span)
    alt = [f"{title.rstrip('.')}. Roofline: {format_si(ceilings.bytes_per_s, 'B/s')}" + ("; " if formats else "")
           + "; ".join(f"{fmt} {format_si(ceilings.rate(fmt), 'FLOP/s')}, ridge "
                       f"{format_si(ceilings.ridge(fmt), 'FLOP/byte')}" for fmt in formats) + "."]  # fmt: skip
    if key:
        log(key, _as_record(ceilings, points, works, formats))
    there = _recorded(key) if key else None
    others = there["points"] if there else {}
    reach = [work.intensity for work in works.values()] + [ceilings.ridge(fmt) for fmt in formats]
    reach += [other["intensity"] for name, other in others.items() if name in points]
    seen = [intensity for intensity in reach if 0 < intensity < math.inf] or [1.0]
    span = span or (min(seen) / (3 if works else 30), max(seen) * (5 if works else 30))
    with figure(title, size=(7.2, 4.4)) as ax:
        set_axis(ax.xaxis, label="arithmetic intensity (FLOP/byte)", unit="", log=True)
        set_axis(ax.yaxis, label="rate", unit="FLOP/s", log=True)
        if there:
            draw_roof(ax, Ceilings.from_dict(there["ceilings"]), there["formats"], span, color=RECORDED["color"])
        draw_roof(ax, ceilings, formats, span)
        low, high = _heights(ax, ceilings, points, works, others)
        ax.set(xlim=span, ylim=(low, high))
        dotted = launches is not None and _draw_launches(ax, ceilings, launches)
        dots = Dots(span, (low, high))
        for number, (name, point) in enumerate(points.items(), 1):
            if name in others:
                dots.draw(ax, others[name]["intensity"], others[name]["flops_per_s"], GREY, number=number)
            alt.append(_place(ax, name, point, works[name], number, ceilings, dots))
        dots.number_all(ax)
        grey = f"grey: {short_name(reference() or {})}" if there else ""
        _key(ax, points, works, [*["·· launches"] * dotted, *[grey] * bool(grey)])
        ax.figure.alt = " ".join(alt)
    say_disturbed(point for point in points.values() if isinstance(point, Measurement))


def _checked(ceilings: Any, points: Any, formats: Sequence[str] | None, span: Any) -> tuple[dict[str, Work], list[str]]:
    """The work of each point, and the formats whose roofs are drawn; refuses what cannot be drawn."""
    if not isinstance(ceilings, Ceilings):
        raise TypeError(f"expected Ceilings (of a chip: Ceilings.of_chip(chip)); found a {type(ceilings).__name__}")
    if not isinstance(points, Mapping):
        raise TypeError(f"expected points as name and Work or Measurement; found a {type(points).__name__}")
    if len(points) > MOST_POINTS:
        raise ValueError(f"expected at most {MOST_POINTS} points, as many as can be named; found {len(points)}")
    if span is not None and not _is_span(span):
        raise ValueError(f"expected the lower and the upper end of the intensities, above zero; found {span!r}")
    works = {name: _work(name, point) for name, point in points.items()}
    for work in works.values():
        bound(work, ceilings)  # says which rate is missing
    used = dict.fromkeys(work.dtype for work in works.values()) if works else ceilings.flops_per_s
    chosen = [format_name(fmt) for fmt in formats or ()] or [fmt for fmt in used if fmt in ceilings.flops_per_s]
    return works, sorted(chosen, key=ceilings.rate)


def _is_span(span: Any) -> bool:
    """Whether these are the lower and the upper end of a logarithmic axis."""
    if not isinstance(span, tuple | list) or len(span) != 2 or not all(isinstance(e, Real) for e in span):
        return False
    return bool(0 < span[0] < span[1] < 1e300)


def _recorded(key: str) -> Any:
    """The reference record's picture of that key, if there is one, with its roof raised to what that run reached.

    Raises:
        ValueError: what is recorded under the key is no roofline.
    """
    there = recorded(key)
    try:
        if there is not None:
            roof = Ceilings.from_dict(there["ceilings"])
            [there["ceilings"]["flops_per_s"][fmt] for fmt in there["formats"]]
            [(other["intensity"], other["flops_per_s"]) for other in there["points"].values()]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"The record holds no roofline under {key!r} ({type(error).__name__}: {error}): give the "
                         "figure a key of its own, or record the unit again.") from error  # fmt: skip
    if there is None or len(there["formats"]) != 1:  # a point does not say its format
        return there
    run = (reference() or {}).get("values", {}).values()
    alike = [other for other in run if isinstance(other, dict) and other.get("formats") == there["formats"]]
    reached = [point["flops_per_s"] or 0.0 for other in [there, *alike] for point in other["points"].values()]
    raised = roof.raised(flops_per_s={there["formats"][0]: max(reached, default=0.0)})
    return there | {"ceilings": raised.to_dict()}


def _draw_launches(ax: Any, ceilings: Ceilings, work_of: Callable[[int], Work]) -> bool:
    """The rate that a launch allows, over the intensities of a growing work: FLOPs over t0, up to the other roofs.

    Returns whether there is such a roof here.
    """
    works = [work_of(n) for n in dict.fromkeys(np.geomspace(2, 1e5, 300).astype(int).tolist())]
    bound_here = [work for work in works if bound(work, ceilings).regime == "overhead"]
    if bound_here:
        rates = [bound(work, ceilings).flops_per_s for work in bound_here]
        ax.plot([work.intensity for work in bound_here], rates, color="#333333", linewidth=1, linestyle=":", zorder=1)
    return bool(bound_here)


def _heights(
    ax: Any, ceilings: Ceilings, points: Mapping[str, Point], works: Mapping[str, Work], others: Mapping[str, Any]
) -> tuple[float, float]:
    """Lower and upper end of the vertical axis: all points with room for their numbers, and the roofs beside them."""
    rates = [bound(work, ceilings).flops_per_s for work in works.values()]
    rates += [point.flops_per_s for point in points.values() if isinstance(point, Measurement)]
    rates += [other["flops_per_s"] for other in others.values()]
    roofs = [rate for line in ax.lines for rate in line.get_ydata()]
    there = [rate for rate in [*rates, *roofs] if 0 < rate < math.inf]
    return min(there) / 2, max(there) * 2.5


def _as_record(
    ceilings: Ceilings, points: Mapping[str, Point], works: Mapping[str, Work], formats: Sequence[str]
) -> dict[str, Any]:
    """The picture as the logbook keeps it: roof, and the measured points."""
    placed = {name: {"intensity": works[name].intensity, "flops_per_s": point.flops_per_s}
              for name, point in points.items() if isinstance(point, Measurement)}  # fmt: skip
    return {"ceilings": ceilings.to_dict(), "formats": list(formats), "points": placed}


def _place(ax: Any, name: str, point: Point, work: Work, number: int, ceilings: Ceilings, dots: Dots) -> str:
    """Draw one operation and say where it lies."""
    predicted = bound(work, ceilings).flops_per_s
    if missing := _missing(work):
        return f"{number} {name}: {missing}, not on these axes."
    text = f"{number} {name}: intensity {format_si(work.intensity, 'FLOP/byte')}, "
    text += f"model {format_si(predicted, 'FLOP/s')}"
    if not isinstance(point, Measurement):
        dots.draw(ax, work.intensity, predicted, OWN, number=number, filled=False)
        return f"{text}."
    ax.plot([work.intensity] * 2, [predicted, point.flops_per_s], color=OWN, linewidth=0.9, zorder=2)
    dots.draw(ax, work.intensity, predicted, OWN, filled=False)
    dots.draw(ax, work.intensity, point.flops_per_s, OWN, number=number)
    return f"{text}, measured {format_si(point.flops_per_s, 'FLOP/s')}."


def _missing(work: Work) -> str:
    """Why work has no place on logarithmic axes; empty for work that has one."""
    return "no FLOP" if not work.flops else "no byte" if not work.bytes else ""


def _key(ax: Any, points: Mapping[str, Point], works: Mapping[str, Work], others: Sequence[str]) -> None:
    """The list of names beside the axes, and what solid, hollow, dashed and ``others`` mean."""
    notes = {
        name: f"\n    ({missing}: not shown)" if (missing := _missing(work)) else "" for name, work in works.items()
    }
    long = sum(2 if len(str(name)) > _WIDTH or notes[name] else 1 for name in points) > MOST_POINTS
    lines = [f"{number}  " + named(name, width=_WIDTH, lines=1 if long else 2).replace("\n", "\n    ") + notes[name]
             for number, name in enumerate(points, 1)]  # fmt: skip
    solid = any(isinstance(point, Measurement) for point in points.values())
    legend = ["● measured"] * solid + ["○ model"] * bool(points) + ["-- roof", *others]
    text = "\n".join([*lines, *[""] * bool(lines), *legend])
    ax.annotate(text, (1.02, 1.0), xycoords="axes fraction", va="top", fontsize=9, linespacing=1.35,
                annotation_clip=False)  # fmt: skip
