"""The picture of a ladder: each step of a kernel under the roofs of its device.

>>> draw_ladder("softmax", {})[1:4]
b'PNG'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .specs import Chip, chip, find_chip
from .units import format_si

__all__ = ["CEILINGS", "PREDICTED", "draw_ladder"]

PREDICTED = "H200"  # of which all predictions are
# Of each ladder.
CEILINGS = {
    "softmax": "a copy of the same size",
    "matmul": "the product of torch, by the vendor's library",
    "attention": "the attention of torch, by the vendor's library where it is there",
}


def draw_ladder(ladder: str, seconds: Mapping[str, float], device: str = "", kind: str = "png") -> bytes:
    """Return a picture: each step at the FLOPs for a byte that its threads ask for, and the rate it reached.

    Args:
        ladder: such as "matmul".
        seconds: of each step, and of the "ceiling"; without any, the predictions are drawn.
        device: on which they were measured (default: an H200). Its roofs are drawn, if its data sheet is known.
        kind: "png" or "svg".
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from .kernels.ladder.predictions import COUNTS, SIZES, flops_of, limit_of, predicted, units
    from .plots.saving import svg
    from .plots.style import house_style, png, series_style, set_axis

    flops, many = flops_of(ladder), units(ladder, SIZES[ladder])
    at = {name: flops / (many * one.asked) for name, one in COUNTS[ladder].items()}
    rates = {name: flops / (seconds[name] if seconds else predicted(ladder, name)) for name in at}
    where = find_chip(device) if seconds and device else chip("h200")
    title = f"The steps of {ladder} " + (f"under the roofs of an {PREDICTED}" if where == chip("h200")
                                         else f"on {device}, without roofs" if where is None
                                         else f"under the roofs of {where.name}'s data sheet")  # fmt: skip
    with matplotlib.rc_context(house_style):
        fig = Figure(figsize=(7.2, 4.4), layout="constrained")
        ax = fig.subplots()
        ax.margins(y=0.09)  # numbers stand below their points
        if where is not None:
            _draw_roofs(ax, ladder, where, min(at.values()) / 3, max(at.values()) * 5)
        style = series_style(0) | {"linewidth": 1.0}
        ax.plot(list(at.values()), list(rates.values()), label="measured" if seconds else "predicted", **style)
        if seconds:
            ceiling = CEILINGS[ladder].partition(", by")[0]
            ax.axhline(flops / seconds["ceiling"], label=ceiling, color="#009E73", linewidth=1.2, zorder=1)
        set_axis(ax.xaxis, label="FLOPs for a byte asked of the nearest cache", unit="", log=True)
        set_axis(ax.yaxis, label="rate", unit="FLOP/s", log=True)
        ax.set_xlim(right=max(ax.get_xlim()[1], 4 * max(at.values())))  # numbers stand on the right of their points
        _draw_numbers(ax, at, rates)
        fig.legend(loc="outside lower center", ncols=2)
        told = [f"{number} {name}\n    {limit_of(ladder, name)}" for number, name in enumerate(at, 1)]
        names = [Line2D([], [], linestyle="none", label=each) for each in told]
        fig.legend(handles=names, loc="outside right center", handlelength=0, handletextpad=0,
                   alignment="left", title="step, and what\nlimits it (predicted)")  # fmt: skip
        fig.suptitle(title, x=0.01, ha="left")
        return svg(fig).encode() if kind == "svg" else png(fig)


def _draw_roofs(ax: Any, ladder: str, where: Chip, first: float, last: float) -> None:
    """Draw the roof of the cache over what is asked of it; those of products and of the memory, if any, are level.

    No data sheet has the cache's rate: of another chip than an H200 there is none. An H200's products are as fast as
    the library's at the size of the ladder, others' as the data sheet says.

    A byte that the cache answers for does not come from the memory: the memory's bytes have no place on this axis.
    """
    import numpy as np

    from .kernels.ladder.predictions import COUNTS, SIZES, flops_of, roofs, units
    from .plots.style import BOUND

    top, grid = roofs(where), np.geomspace(first, last, 300)
    least = min(one.memory for one in COUNTS[ladder].values()) * units(ladder, SIZES[ladder])
    matrix = "the library's product" if where == chip("h200") else "matrix units"
    named = {"cache": ("cache", "B/s"), "matrix": (matrix, "FLOP/s")}
    if not any(one.flops for one in COUNTS[ladder].values()):
        named.pop("matrix")
    label = ", ".join(f"{name} {format_si(top[key], unit)}" for key, (name, unit) in named.items() if key in top)
    if label:
        end = top.get("matrix", np.inf) if "matrix" in named else 3 * flops_of(ladder) * top["memory"] / least
        line = np.minimum(grid * top.get("cache", np.inf), end)
        shown = grid * top.get("cache", 0.0) <= end if "matrix" not in named else slice(None)
        ax.plot(grid[shown], line[shown], linestyle="--", label=label, **BOUND)
    if least:
        label = f"memory {format_si(top['memory'], 'B/s')}, each byte moved once"
        ax.axhline(flops_of(ladder) * top["memory"] / least, linestyle=":", label=label, **BOUND)


def _draw_numbers(ax: Any, at: Mapping[str, float], rates: Mapping[str, float]) -> None:
    """Write the steps' numbers beside their points; those at one place share a label."""
    import math

    from matplotlib.patheffects import withStroke

    groups: list[list[str]] = []
    for name in at:
        near = [each for each in groups if abs(math.log(at[each[0]] / at[name])) < 0.1
                and abs(math.log(rates[each[0]] / rates[name])) < 0.2]  # fmt: skip
        if near:
            near[0].append(name)
        else:
            groups.append([name])
    numbers = {name: str(number) for number, name in enumerate(at, 1)}
    for group in groups:
        x, y = at[group[-1]], rates[group[-1]]
        level = [at[name] / x for name in at if 0.5 < rates[name] / y < 2]
        # Where no other point is; below where there is one on both sides.
        right, left = not any(1.01 < ratio < 1.6 for ratio in level), not any(0.6 < ratio < 0.99 for ratio in level)
        side, shift = ("left", 5) if right else ("right", -5) if left else ("center", 0)
        ax.annotate(
            ", ".join(numbers[name] for name in group), (x, min(rates[name] for name in group)),
            xytext=(shift, -4 - 3 * (shift == 0)), textcoords="offset points", fontsize=9, va="top", ha=side,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip
