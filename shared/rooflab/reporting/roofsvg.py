"""How are measured ceilings drawn without any library?

>>> roofline_svg({"bytes_per_s": 2e10, "flops_per_s": {"fp32": 1e11}, "label": "CPU"}).startswith("<svg")
True
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import Any

from ..units import format_si

__all__ = ["roofline_svg"]

_WIDTH, _HEIGHT = 520, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 112, 54, 18, 50
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8a6500", "#2b7fb0")  # Okabe and Ito, two of them darkened
_DASHES = ("", "7 4", "2 4", "9 3 2 3", "12 4", "4 2")


def roofline_svg(ceilings: Mapping[str, Any]) -> str:
    """Draw the roofs of one device: attainable FLOP/s over FLOP/byte, both axes logarithmic.

    Args:
        ceilings: as `Ceilings.to_dict` gives them; without a matmul rate nothing is drawn.
    """
    rates = dict(sorted(ceilings["flops_per_s"].items(), key=lambda item: item[1]))
    if not rates:
        return ""
    beta = ceilings["bytes_per_s"]
    ridges = [rate / beta for rate in rates.values()]
    x_range = (math.floor(math.log10(min(ridges)) - 1), math.ceil(math.log10(max(ridges)) + 0.7))
    y_range = (math.log10(beta) + x_range[0], math.ceil(math.log10(max(rates.values())) * 2 + 0.2) / 2)
    draw = _Axes(x_range, y_range)
    parts = [*draw.grid(), _slope(draw, beta, max(ridges))]
    for index, (fmt, rate) in enumerate(rates.items()):
        parts += _roof(draw, fmt, rate, beta, index)
    parts.append(_slope_label(draw, beta, x_range[0]))
    told = ", ".join(f"{fmt} {format_si(rate, 'FLOP/s')}" for fmt, rate in rates.items())
    alt = f"Measured roofline: memory bandwidth {format_si(beta, 'B/s')}; matmul rates {told}."
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{html.escape(alt)}" class="roof">'
        f"{''.join(parts)}</svg>"
    )


class _Axes:
    """Logarithmic axes; ranges are exponents of ten."""

    def __init__(self, x_range: tuple[float, float], y_range: tuple[float, float]) -> None:
        self.x_range, self.y_range = x_range, y_range

    def x(self, value: float) -> float:
        low, high = self.x_range
        return _LEFT + (math.log10(value) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return _HEIGHT - _BOTTOM - (math.log10(value) - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    def grid(self) -> list[str]:
        parts = []
        for exponent in range(math.ceil(self.x_range[0]), math.floor(self.x_range[1]) + 1):
            at = self.x(10.0**exponent)
            label = f"{10.0**exponent:g}"
            parts.append(f'<line x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{_HEIGHT - _BOTTOM}" class="grid"/>')
            parts.append(_text(at, _HEIGHT - _BOTTOM + 19, label))
        for exponent in range(math.ceil(self.y_range[0]), math.floor(self.y_range[1]) + 1):
            at = self.y(10.0**exponent)
            parts.append(f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{_WIDTH - _RIGHT}" y2="{at:.1f}" class="grid"/>')
            parts.append(_text(_LEFT - 8, at + 4, format_si(10.0**exponent, "FLOP/s"), anchor="end"))
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        parts.append(_text(middle, _HEIGHT - 8, "arithmetic intensity, FLOP/byte", css="axis"))
        return parts


def _roof(draw: _Axes, fmt: str, rate: float, beta: float, index: int) -> list[str]:
    """The flat part of one format's roof, from its ridge point to the right end."""
    ridge, high = rate / beta, 10.0 ** draw.x_range[1]
    colour, dash = _COLOURS[index % len(_COLOURS)], _DASHES[index % len(_DASHES)]
    x, end, y = draw.x(ridge), draw.x(high), draw.y(rate)
    return [
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{end:.1f}" y2="{y:.1f}" class="line" stroke="{colour}" '
        f'stroke-dasharray="{dash}"/>',
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>',
        _text(end + 6, y + 4, fmt, anchor="start", colour=colour),
    ]


def _slope(draw: _Axes, beta: float, ridge: float) -> str:
    low = 10.0 ** draw.x_range[0]
    ends = (
        f'x1="{draw.x(low):.1f}" y1="{draw.y(beta * low):.1f}" x2="{draw.x(ridge):.1f}" y2="{draw.y(beta * ridge):.1f}"'
    )
    return f'<line {ends} class="line" stroke="#333"/>'


def _slope_label(draw: _Axes, beta: float, low: float) -> str:
    at = 10.0 ** (low + 0.45)
    x, y = draw.x(at), draw.y(beta * at)
    rise = math.degrees(math.atan2(draw.y(beta * at) - draw.y(beta * at * 2), draw.x(at * 2) - draw.x(at)))
    return (
        f'<text x="{x:.1f}" y="{y - 9:.1f}" transform="rotate({-rise:.1f} {x:.1f} {y:.1f})" class="tick">'
        f"{html.escape(format_si(beta, 'B/s'))}</text>"
    )


def _text(x: float, y: float, text: str, *, anchor: str = "middle", colour: str = "", css: str = "tick") -> str:
    fill = f' fill="{colour}" font-weight="600"' if colour else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} class="{css}"{fill}>{html.escape(text)}</text>'
