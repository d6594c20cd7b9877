"""What changes when we drag?

Two explorers: the three regimes of a step, and the roofline of any chip. Where nobody is there to drag, each shows
panels of chosen settings instead, so that a printed page tells the same story.

>>> from rooflab.roofline import Ceilings
>>> regimes(Ceilings(1e11, {"fp32": 1e12}, launch_s=1e-6))  # doctest: +ELLIPSIS
Three steps on one device, three regimes. a small product: ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from . import costs
from .explorer import SHARED, choice, explore, slider
from .knees import matmul_leaves_overhead
from .roofline import REGIMES, Ceilings, attainable, bound
from .specs import chips
from .units import FORMATS, format_si

__all__ = ["explore", "regimes", "roofline"]

# What the explorer of regimes runs on n x n matrices.
STEPS: Mapping[str, Callable[[int, str], costs.Work]] = {
    "product": lambda n, fmt: costs.matmul(n, n, n, fmt),
    "matrix-vector product": lambda n, fmt: costs.matvec(n, n, fmt),
    "addition in place": lambda n, fmt: costs.elementwise(n * n, dtype=fmt),
}


def regimes(ceilings: Ceilings, dtype: str = "fp32") -> None:
    """Explore t = max(t0, bytes / beta, flops / pi) for a step on n x n matrices: three terms and the winner.

    Args:
        ceilings: where the sliders start; usually the device's own.
        dtype: format of the matrices.

    Raises:
        KeyError: the ceilings have no rate for the format.
        TypeError: these are no ceilings.
    """
    _refuse(ceilings)
    peak, prefix = (1e12, "T") if ceilings.rate(dtype) >= 1e12 else (1e9, "G")
    start = {"overhead_us": max(ceilings.launch_s * 1e6, 0.01), "gb_per_s": ceilings.bytes_per_s / 1e9,
             "flops_per_s": ceilings.rate(dtype) / peak}  # fmt: skip

    def draw(ax: Any, step: str, overhead_us: float, gb_per_s: float, flops_per_s: float, n: float) -> str:
        device = Ceilings(gb_per_s * 1e9, {dtype: flops_per_s * peak}, launch_s=overhead_us * 1e-6)
        return _draw_regimes(ax, step, device, dtype, int(n))

    panels = {
        "a small product": start | {"step": "product", "n": _knee(ceilings, dtype) / 8},
        "a large addition": start | {"step": "addition in place", "n": 16384},
        "a large product": start | {"step": "product", "n": 16384},
    }
    controls = {
        "step": choice("step", [(name, name) for name in STEPS], "product"),
        "overhead_us": slider("overhead t₀ (µs)", start["overhead_us"], -2, 3),
        "gb_per_s": slider("bandwidth β (GB/s)", start["gb_per_s"], 0, 4.5),
        "flops_per_s": slider(f"peak π ({prefix}FLOP/s)", start["flops_per_s"], -1, 4),
        "n": slider("side n", 512, 2, 15, base=2),
    }
    explore(draw, controls, panels, title="Three steps on one device, three regimes")


# In grey the dash tells the terms apart, and the thick line is the winner.
_DASHES = ("-", "--", ":")


def _draw_regimes(ax: Any, step: str, device: Ceilings, dtype: str, n: int) -> str:
    """The three terms over the side, the winner thick, and the step at side n; returns what it says."""
    from .plots.style import series_style, set_axis

    sides, work = np.unique(np.geomspace(4, 32768, 400).astype(int)).tolist(), STEPS[step]
    bounds = [bound(work(side, dtype), device) for side in sides]
    wins = np.array([b.regime for b in bounds])
    for i, regime in enumerate(REGIMES):
        style = series_style(i) | {"marker": ""}
        times = np.array([getattr(b, f"{regime}_s") for b in bounds])
        ax.plot(sides, times, label=regime, linestyle=_DASHES[i], linewidth=1.4, **style)
        ax.plot(sides, np.where(wins == regime, times, np.nan), linewidth=3.6, **style)
    here = bound(work(n, dtype), device)
    ax.plot([], [], color="#777777", linewidth=3.6, label="the model's time: the longest of the three")
    ax.plot([n], [here.time_s], marker="o", markersize=9, linestyle="", color="black", zorder=5, label="this step's")
    set_axis(ax.xaxis, label="side n", unit="", log=True)
    set_axis(ax.yaxis, label="time of the step, by the model", unit="s", log=True)
    ax.set_ylim(min(1e-7, here.time_s / 3), max(here.time_s, *(b.time_s for b in bounds)) * 3)
    ax.legend(loc="upper left")
    return (f"{step}, n = {n:,}: {here.regime}-bound, {format_si(here.time_s, 's')}; "
            f"{format_si(here.flops_per_s / device.rate(dtype), '%')} of the peak.")  # fmt: skip


def _knee(ceilings: Ceilings, dtype: str) -> int:
    """The side at which a product leaves the overhead regime; at least 32, where launches are free."""
    return max(32, int(matmul_leaves_overhead(ceilings, dtype)))


OPERATIONS: Mapping[str, Callable[[int, int, str], costs.Work]] = {
    "matrix product, batch × n × n": lambda batch, n, fmt: costs.matmul(batch, n, n, fmt),
    "softmax of batch rows of n": lambda batch, n, fmt: costs.softmax(batch, n, fmt),
    "layer norm of batch rows of n": lambda batch, n, fmt: costs.layer_norm(batch, n, fmt),
    "attention over n tokens, head 64": lambda batch, n, fmt: costs.attention(batch, 16, n, n, 64, fmt),
}


def roofline(ceilings: Ceilings | None = None, *, chip: str = "h100-sxm") -> None:
    """Explore the roofline: pick a chip, a format and sizes, and see the point move and the regime flip.

    Args:
        ceilings: the reader's own measured ceilings, offered as the chip "this device".
        chip: where the explorer starts when there are none.

    Raises:
        ValueError: the ceilings have no rate in any format.
        KeyError: there is no such chip.
        TypeError: these are no ceilings.
    """
    if ceilings is not None:
        _refuse(ceilings)
    roofs = {f"{row.name} (datasheet)": Ceilings.of_chip(row) for row in chips() if row.flops_per_s}
    if ceilings is not None:
        roofs = {f"this device: {ceilings.label} (measured)": ceilings} | roofs
    names = list(roofs)
    first = names[0] if ceilings is not None else next(n for n in names if roofs[n] == _of(chip))

    def draw(ax: Any, where: str, dtype: str, operation: str, batch: float, n: float) -> str:
        roof = roofs[where]
        if dtype not in roof.flops_per_s:
            known = ", ".join(sorted(roof.flops_per_s, key=roof.rate))
            ax.set_axis_off()
            ax.text(0.5, 0.5, f"no rate in {dtype} here\n(but in {known})", transform=ax.transAxes, ha="center")
            return f"{where} has no rate in {dtype}; pick one of {known}."
        return _draw_point(ax, roof, OPERATIONS[operation](int(batch), int(n), dtype))

    formats = _by_rate({fmt for roof in roofs.values() for fmt in roof.flops_per_s})
    start_format = next(fmt for fmt in ("bf16", "fp32", *formats) if fmt in roofs[first].flops_per_s)
    product = next(iter(OPERATIONS))
    base = {"where": first, "dtype": start_format, "operation": product, "n": 4096}
    panels = {f"batch {b}": base | {"batch": b} for b in (1, 64, 4096)}
    controls = {
        "where": choice("chip", [(name, name) for name in names], first),
        "dtype": choice("format", [(fmt, fmt) for fmt in formats], start_format),
        "operation": choice("operation", [(name, name) for name in OPERATIONS], product),
        "batch": slider("batch", 1, 0, 16, base=2),
        "n": slider("n", 4096, 4, 16, base=2),
    }
    explore(draw, controls, panels, title="The batch moves a matrix product along the roof")


_USED: dict[str, Any] = {"linestyle": "-", "color": "#333333", "linewidth": 2, "zorder": 2}
_DOTTED: dict[str, Any] = {"linestyle": ":", "color": "#8a8a8a", "linewidth": 1.2, "zorder": 1}


def _by_rate(formats: Collection[str]) -> list[str]:
    """Formats from slow to fast: on every chip fewer bits are as fast or faster."""
    return sorted(formats, key=lambda fmt: (-FORMATS[fmt], list(FORMATS).index(fmt)))


def _name_roofs(ax: Any, roof: Ceilings, used: str) -> None:
    """Name each roof at its right end, beside the axes; roofs of one rate together, and none over another."""
    by_rate: dict[str, list[str]] = {}
    for fmt in sorted(_by_rate(roof.flops_per_s), key=roof.rate):
        by_rate.setdefault(format_si(roof.rate(fmt), "FLOP/s"), []).append(fmt)
    low, high = (math.log10(end) for end in ax.get_ylim())
    height = ax.get_position().height * ax.figure.get_figheight() * 72
    wanted = [(math.log10(roof.rate(fmts[0])) - low) / (high - low) * height for fmts in by_rate.values()]
    for (rate, fmts), at in zip(by_rate.items(), spread(wanted, gap=9.5, top=height), strict=True):
        look = {"color": "#333333", "fontweight": "bold"} if used in fmts else {"color": "#666666"}
        text, place = f"{', '.join(fmts)}: {rate}", 10 ** (low + at / height * (high - low))
        ax.annotate(text, (1.0, place), xycoords=("axes fraction", "data"), annotation_clip=False, xytext=(3, 0),
                    textcoords="offset points", va="center", fontsize=8, gid=SHARED, **look)  # fmt: skip


def spread(wanted: Sequence[float], *, gap: float, top: float) -> list[float]:
    """Places in rising order as near to those wanted as a gap between neighbours and the top allow.

    >>> spread([10, 11, 30], gap=5, top=32)
    [10, 15, 30]
    >>> spread([28, 30, 31], gap=5, top=32)
    [22, 27, 32]
    """
    places: list[float] = []
    for at in wanted:
        places.append(max(at, places[-1] + gap) if places else at)
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], top - gap * (len(places) - 1 - i))
    return places


def _draw_point(ax: Any, roof: Ceilings, work: costs.Work) -> str:
    """The roof, and one operation under it; returns what it says."""
    from .plots.style import series_style, set_axis

    grid = np.geomspace(min(0.05, work.intensity / 3), max(2e4, work.intensity * 3), 300)
    for fmt in sorted(roof.flops_per_s, key=roof.rate):
        ax.plot(grid, attainable(grid, roof, fmt), **(_USED if fmt == work.dtype else _DOTTED))
    here, ridge = bound(work, roof), roof.ridge(work.dtype)
    ax.axvline(ridge, color="#777777", linewidth=0.9, linestyle=(0, (1, 2)))
    colour = series_style(REGIMES.index(here.regime))["color"]
    ax.plot([work.intensity], [here.flops_per_s], marker="o", markersize=11, color=colour, zorder=5)
    # Off its roof: below the point at the right; above it, to the left, where the axes end.
    at, side = ((9, -13), "left") if work.intensity <= grid[len(grid) // 2] else ((-8, 7), "right")
    halo = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 0.8}
    ax.annotate(here.regime, (work.intensity, here.flops_per_s), xytext=at, color=colour, fontsize=9,
                textcoords="offset points", ha=side, fontweight="bold", bbox=halo, zorder=4)  # fmt: skip
    set_axis(ax.xaxis, label="intensity (FLOP/byte)", unit="", log=True)
    set_axis(ax.yaxis, label="rate, by the model", unit="FLOP/s", log=True)
    ax.set_xlim(grid[0], grid[-1])
    ax.set_ylim(min(roof.bytes_per_s * 0.05, here.flops_per_s / 3), max(roof.flops_per_s.values()) * 3)
    _name_roofs(ax, roof, work.dtype)
    low, high = (math.log10(end) for end in ax.get_ylim())
    foot = (math.log10(here.flops_per_s) - low) / (high - low) > 0.25  # the point and its name are well above
    ax.annotate(f"ridge {format_si(ridge)}", (ridge, 0.03 if foot else 0.97), xycoords=("data", "axes fraction"),
                fontsize=9, xytext=(4, 0), textcoords="offset points", color="#555555",
                va="bottom" if foot else "top")  # fmt: skip
    return (f"{here.regime}-bound: intensity {format_si(work.intensity)} against a ridge of {format_si(ridge)} "
            f"FLOP/byte; at best {format_si(here.flops_per_s, 'FLOP/s')}, "
            f"{format_si(here.flops_per_s / roof.rate(work.dtype), '%')} of the peak.")  # fmt: skip


def _refuse(ceilings: Any) -> None:
    if not isinstance(ceilings, Ceilings):
        raise TypeError(f"expected Ceilings (of a chip: Ceilings.of_chip(chip)); found a {type(ceilings).__name__}")
    if not ceilings.flops_per_s:
        raise ValueError("expected ceilings with a rate in one format or more, such as measured_ceilings(); found a "
                         f"bandwidth alone ({format_si(ceilings.bytes_per_s, 'B/s')})")  # fmt: skip


def _of(chip_id: str) -> Ceilings:
    from .specs import chip

    return Ceilings.of_chip(chip(chip_id))
