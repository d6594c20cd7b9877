"""How are the scores of a class drawn without any library?

>>> bins([0, 1, 1, 2], 2)
[1, 0, 2, 0, 0, 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["bars_svg", "bins"]

_LABELS = ("none", "to ¼", "to ½", "to ¾", "below all", "all")
_WORDS = ("no points", "up to a quarter", "up to half", "up to three quarters", "more, but not all", "all points")
_CLASSES = ("none", "some", "some", "some", "some", "all")


def bins(scores: Sequence[float], points: float) -> list[int]:
    """How many scores are none, up to a quarter, a half, three quarters, below all, and all of the points."""
    found = [0] * len(_LABELS)
    for score in scores:
        share = score / points if points else 1.0
        place = 0 if share <= 0 else 5 if share >= 1 - 1e-9 else next(n for n in (1, 2, 3, 4) if share <= n / 4 + 1e-9)
        found[place] += 1
    return found


def bars_svg(scores: Sequence[float], points: float, title: str, *, wide: bool = False) -> str:
    """Draw how many students got how much.

    Args:
        scores: of the students.
        points: the most that one could get.
        title: what was graded; part of the alternative text.
        wide: larger, for the head of a page.
    """
    counts = bins(scores, points)
    step, height, foot = (96, 150, 26) if wide else (54, 58, 20)
    width, top = step * len(counts), 18
    told = ", ".join(f"{count} got {words}" for count, words in zip(counts, _WORDS, strict=True) if count)
    alt = f"{title}: of {len(scores)} students {told or 'none was graded'} (of {points:g})."
    parts = []
    most = max([*counts, 1])
    for number, (count, label, css) in enumerate(zip(counts, _LABELS, _CLASSES, strict=True)):
        tall = (height - top) * count / most
        left, middle = number * step + step * 0.14, number * step + step / 2
        if count:
            parts.append(
                f'<rect class="{css}" x="{left:.1f}" y="{height - tall:.1f}" width="{step * 0.72:.1f}" '
                f'height="{tall:.1f}" rx="2"/>'
                f'<text class="count" x="{middle:.1f}" y="{height - tall - 5:.1f}">{count}</text>'
            )
        parts.append(f'<text class="tick" x="{middle:.1f}" y="{height + foot - 6}">{label}</text>')
    line = f'<line class="base" x1="0" y1="{height}" x2="{width}" y2="{height}"/>'
    size = f'width="{width}" height="{height + foot}" viewBox="0 0 {width} {height + foot}"'
    kind = "bars wide" if wide else "bars"
    return f'<svg class="{kind}" {size} role="img" aria-label="{escape(alt)}">{line}{"".join(parts)}</svg>'
