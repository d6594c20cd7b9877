"""Where do the numbers beside the points stand, so that none hides another?

>>> dots = Dots((1.0, 100.0), (1.0, 100.0))
>>> len(dots.PLACES)
48
"""

from __future__ import annotations

import math
from typing import Any

from matplotlib.patheffects import withStroke

__all__ = ["GREY", "Dots"]

GREY = "#b0b0b0"
_HALO = withStroke(linewidth=2.5, foreground="white")  # a number stays legible on a roof


class Dots:
    """Points at their true places, each with its number beside it where it hides no other point or number.

    Args:
        x_span: left and right end of the axis.
        y_span: lower and upper end.
    """

    # Where a number may stand, in points from its dot: right, left, above, below, then the corners, then farther out.
    PLACES = tuple(
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
            at = max(self.PLACES, key=lambda place: min(1.0, self._room(left, up, place, width)))
            self._taken.append((left + at[0], up + at[1]))
            leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}
            ax.annotate(str(number), (x, y), xytext=at, textcoords="offset points", ha="center", va="center",
                        fontsize=8.5, fontweight="bold", color="#777777" if colour == GREY else colour, zorder=5,
                        arrowprops=leader if math.hypot(*at) > 12 else None, path_effects=[_HALO])  # fmt: skip

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
