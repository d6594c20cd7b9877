"""How are losses over time drawn without any library, legible on light pages and on dark ones?

Text and grid take the colour of the page's text; lines have colours of middle lightness and dashes of their own.

>>> curves_svg([Line("a run", (0.0, 10.0), (5.0, 3.0))], x="training time", unit="s", y="loss")[:5]
'<svg '
>>> ticks(0.0, 10.0, 5)
[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ..units import format_si

__all__ = ["LOOKS", "Line", "curves_svg", "small_svg", "ticks"]

# Okabe and Ito's colours, moved to where each stands out from white (3:1) as well as from a dark page.
_COLOURS = ("#2f86c9", "#d9640a", "#149b74", "#b8659a", "#7b48e8", "#7f7f7f")
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2")
LOOKS = len(_COLOURS)  # lines that can be told apart
_APART = 56  # pixels between two numbers below an axis, as wide as "500 ms"
_MOST_POINTS = 400
_LEFT, _SIGN, _LETTER = 56.0, 46, 6.9  # where a row of the legend begins; what sign and gaps, and what a letter takes


@dataclass(frozen=True)
class Line:
    """One curve: its name, horizontal and vertical values, its look; a mark for each point, or a line through them."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    look: int = 0
    marks: bool = False

    def thinned(self) -> tuple[list[float], list[float]]:
        """At most `_MOST_POINTS` of the points, the last among them; values that are none are left out."""
        pairs = [(x, y) for x, y in zip(self.xs, self.ys, strict=True) if math.isfinite(x) and math.isfinite(y)]
        step = -(-len(pairs) // _MOST_POINTS) or 1
        kept = pairs[::-1][::step][::-1]
        return [x for x, _ in kept], [y for _, y in kept]


class _Frame:
    """Where values lie in a picture."""

    def __init__(
        self, lines: Sequence[Line], target: float, box: tuple[float, float, float, float], log: bool = False
    ) -> None:
        self.left, self.top, self.right, self.bottom = box
        xs = [x for line in lines for x in line.thinned()[0]] or [0.0, 1.0]
        ys = [y for line in lines for y in line.thinned()[1]] + ([target] if target else []) or [0.0, 1.0]
        self.log = log and min(xs) > 0
        self.x0, self.x1 = (min(xs) * 0.9 if self.log else 0.0), max(xs) or 1.0
        room = max(0.06 * (max(ys) - min(ys)), 1e-3 * max(map(abs, ys))) or 0.5
        self.y0, self.y1 = min(ys) - room, max(ys) + room

    def x(self, value: float) -> float:
        share = (value - self.x0) / (self.x1 - self.x0)
        if self.log:
            share = math.log(value / self.x0) / math.log(self.x1 / self.x0)
        return self.left + share * (self.right - self.left)

    def x_ticks(self) -> list[float]:
        if not self.log:
            return ticks(self.x0, self.x1, 6)
        first, last = (math.floor(math.log10(end)) for end in (self.x0, self.x1))
        found = [digit * 10.0**power for power in range(first, last + 1) for digit in (1, 2, 5)]
        inside = [value for value in found if self.x0 <= value <= self.x1]
        # Within a decade there may be one of these, or none: numbers in even steps say more.
        if len(inside) < 3:
            return ticks(self.x0, self.x1, 6)
        kept: list[float] = []
        for value in inside:  # in a narrow picture not all of them have room
            if not kept or self.x(value) - self.x(kept[-1]) >= _APART:
                kept.append(value)
        return kept

    def y(self, value: float) -> float:
        return self.bottom - (value - self.y0) / (self.y1 - self.y0) * (self.bottom - self.top)

    def path(self, line: Line, width: float) -> str:
        xs, ys = line.thinned()
        colour, dash = _COLOURS[line.look % LOOKS], _DASHES[line.look % LOOKS]
        places = [(self.x(x), self.y(y)) for x, y in zip(xs, ys, strict=True)]
        if line.marks or len(places) == 1:
            return "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width + 1.4:.1f}" fill="{colour}"/>'
                           for x, y in places)  # fmt: skip
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        return (f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" '
                f'stroke-linejoin="round" stroke-dasharray="{dash}"/>')  # fmt: skip

    def target(self, value: float) -> str:
        y = self.y(value)
        return (f'<line x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
                f'stroke-width="1.2" stroke-dasharray="5 4" opacity="0.75"/>')  # fmt: skip


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high, about as many as asked for."""
    rough = (high - low) / max(most, 1)
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(s for s in (1, 2, 2.5, 5, 10) if s * scale >= rough * 0.999) * scale
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def curves_svg(
    lines: Sequence[Line], *, x: str, y: str, unit: str = "", target: float = 0.0, alt: str = "",
    log: bool = False, size: tuple[int, int] = (680, 300), goal: str = "target",
) -> str:  # fmt: skip
    """Draw curves with axes, a dashed line at the target and a legend below; lines of one name share its entry.

    Args:
        lines: what is drawn, the most important last.
        x, y: labels of the axes.
        unit: of the horizontal values, which begin at 0.
        log: horizontal axis in decades instead.
        target: 0: there is none.
        alt: what the picture says; default: the labels and the last value of each line.
        size: in pixels, legend included.
        goal: what the target is called.
    """
    width, height = size
    known = any(line.thinned()[0] for line in lines)  # before there is a value, numbers on the axes would be made up
    names = {_fitting(line.name, width): line for line in lines if line.name}
    rows = _legend_rows(list(names), width)
    frame = _Frame(lines, target, (56, 22, width - 14, height - 46 - 20 * len(rows)), log)
    parts = []
    for value in frame.x_ticks() if known else []:
        at = frame.x(value)
        parts += [_rule(at, frame.top, at, frame.bottom), _text(at, frame.bottom + 17, format_si(value, unit, 4))]
    for value in ticks(frame.y0, frame.y1, 5) if known else []:
        at = frame.y(value)
        parts += [_rule(frame.left, at, frame.right, at), _text(frame.left - 8, at + 4, f"{value:g}", anchor="end")]
    if target:
        # The words stand where the curves have not come yet.
        parts += [frame.target(target), _text(frame.left + 6, frame.y(target) - 5, f"{goal} {target:.4g}", "start")]
    parts += [frame.path(line, 2.0) for line in lines]
    parts += [_text(frame.left - 46, 12, y, "start", bold=True)]
    parts += [_text((frame.left + frame.right) / 2, frame.bottom + 34, x, bold=True)]
    for number, row in enumerate(rows):
        for at, name in row:
            parts += _key(at, frame.bottom + 56 + 20 * number, names[name], name)
    return _picture("".join(parts), width, height, alt or _told(lines, x, y, target))


def small_svg(
    lines: Sequence[Line], among: Sequence[Line], *, target: float = 0.0, alt: str = "", log: bool = False
) -> str:
    """Draw a curve alone, as small as a word, in the frame that all of `among` would need."""
    width, height = 132, 40
    frame = _Frame(among, target, (2, 3, width - 2, height - 3), log)
    parts = [frame.target(target)] if target else []
    parts += [frame.path(one, 1.6) for one in lines]
    return _picture("".join(parts), width, height, alt, fixed=True)


def _fitting(name: str, width: int) -> str:
    """A name that has room in a row of the legend; of a longer one the beginning."""
    most = int((width - 10 - _LEFT - _SIGN) / _LETTER)
    return name if len(name) <= most else name[: most - 1].rstrip(" ,") + "…"


def _legend_rows(names: Sequence[str], width: int) -> list[list[tuple[float, str]]]:
    """Places of the names from left to right, in as many rows as they need."""
    rows: list[list[tuple[float, str]]] = []
    at = float(width)
    for name in names:
        need = _SIGN + _LETTER * len(name)
        if at + need > width - 10:
            rows.append([])
            at = _LEFT
        rows[-1].append((at, name))
        at += need
    return rows


def _key(x: float, y: float, line: Line, name: str) -> list[str]:
    colour, dash = _COLOURS[line.look % LOOKS], _DASHES[line.look % LOOKS]
    sign = (f'<circle cx="{x + 12:.1f}" cy="{y - 4:.1f}" r="3.4" fill="{colour}"/>' if line.marks else
            f'<line x1="{x:.1f}" x2="{x + 24:.1f}" y1="{y - 4:.1f}" y2="{y - 4:.1f}" stroke="{colour}" '
            f'stroke-width="2.4" stroke-dasharray="{dash}"/>')  # fmt: skip
    return [sign, _text(x + 30, y, name, "start")]


def _told(lines: Sequence[Line], x: str, y: str, target: float) -> str:
    ends = [f"{line.name} ends at {ys[-1]:.4g}" for line in lines if line.name and (ys := line.thinned()[1])]
    return f"{y} over {x}: {'; '.join(ends)}." + (f" Target {target:.4g}." if target else "")


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {place} stroke="currentColor" stroke-width="1" opacity="0.14"/>'


def _text(x: float, y: float, text: str, anchor: str = "middle", *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="12.5" fill="currentColor"{weight}>'
            f"{escape(text)}</text>")  # fmt: skip


def _picture(parts: str, width: int, height: int, alt: str, *, fixed: bool = False) -> str:
    size = f'width="{width}" height="{height}"' if fixed else f'style="width:100%;max-width:{width}px;height:auto"'
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size} role="img" '
            f'aria-label="{escape(alt)}">{parts}</svg>')  # fmt: skip
