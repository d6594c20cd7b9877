"""What makes a figure one of this book's?

Colours of Okabe and Ito (legible to the colour-blind), a marker and a dash of its own for every series (legible in
grey), SI prefixes on the axes, and an alternative text.

>>> series_style(0)["marker"], series_style(1)["marker"]
('o', 's')
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
import matplotlib.ticker
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..display import show_image
from ..units import format_si
from .given import named, refuse_title

__all__ = ["BOUND", "MOST_SERIES", "RECORDED", "figure", "house_style", "png", "refuse_series", "series_style",
           "set_axis", "show", "title_height"]  # fmt: skip

# Okabe and Ito, "Color universal design", 2008.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LONGEST_TITLE = 180  # characters; three lines
MOST_SERIES = 2 * len(_MARKERS)  # filled and hollow
BOUND = {"color": "#333333", "linewidth": 1.2, "zorder": 1}
RECORDED = {"color": "#9a9a9a", "linewidth": 1.2, "markersize": 4, "zorder": 1.5}
CSS_PIXELS_PER_INCH = 96
PIXELS_PER_INCH = 192  # twice the page's resolution: sharp on any screen

house_style: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "figure.titlesize": 11.5,
    "figure.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "figure.facecolor": "white",
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
}


def series_style(index: int) -> dict[str, Any]:
    """Colour and marker of the index-th series; from the eighth on the marks are hollow.

    Raises:
        ValueError: there is no such many looks that can be told apart, in grey too.
    """
    refuse_series(index + 1)
    turn, place = divmod(index, len(_COLOURS))
    look = {"color": _COLOURS[place], "marker": _MARKERS[(place + 3 * turn) % len(_MARKERS)], "zorder": 3}
    return look | ({"markerfacecolor": "white"} if turn else {})


def refuse_series(count: int) -> None:
    """Refuse more series than have looks of their own."""
    if not 0 <= count <= MOST_SERIES:
        raise ValueError(f"expected at most {MOST_SERIES} series in one figure, as many as can be told apart; "
                         f"found {count}: draw fewer, or a second figure")  # fmt: skip


def set_axis(axis: Any, *, label: str, unit: str, log: bool, whole: bool = False) -> None:
    """Label one axis (``ax.xaxis`` or ``ax.yaxis``) and give its ticks SI prefixes: "10 µs", not "1e-05".

    Args:
        axis: of matplotlib.
        label: what it shows.
        unit: of its values.
        log: logarithmic.
        whole: ticks at whole numbers only; of a linear axis.
    """
    axis.set_label_text(named(label, width=48 if axis.axis_name == "x" else 40, lines=2))
    if log:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        axis.set_major_locator(_LogTicks())
        axis.set_minor_locator(matplotlib.ticker.NullLocator())
    else:
        axis.set_major_locator(matplotlib.ticker.MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=whole))
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: _tick(value, unit)))


class _LogTicks(matplotlib.ticker.LogLocator):
    """Powers of ten, as many as there is room for; on a short axis also 2 and 5, on a very short one even steps."""

    def __init__(self) -> None:
        super().__init__(base=10)

    def tick_values(self, vmin: float, vmax: float) -> Any:
        room = min(9, max(2, self.axis.get_tick_space())) if self.axis is not None else 9
        decades = abs(math.log10(vmax / vmin)) if vmin > 0 and vmax > 0 else math.inf
        if decades < 0.8:
            return matplotlib.ticker.MaxNLocator(min(room, 6), steps=[1, 2, 5, 10]).tick_values(vmin, vmax)
        self.set_params(subs=(1.0, 2.0, 5.0) if decades < min(2.5, room / 3) else (1.0,), numticks=room)
        return super().tick_values(vmin, vmax)


def _tick(value: float, unit: str) -> str:
    """A tick's text; plain numbers from ten thousand on are written 10k, 1M, so that neighbours do not touch."""
    if unit or abs(value) < 10_000 or not math.isfinite(value):
        return format_si(value, unit, digits=3)
    scale, letter = next((s, c) for s, c in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if abs(value) >= s)
    return f"{value / scale:g}{letter}"


def png(fig: Figure, *, pixels_per_inch: int = PIXELS_PER_INCH) -> bytes:
    """The figure as PNG bytes; no date in it, so that equal figures are equal bytes."""
    buffer = io.BytesIO()
    FigureCanvasAgg(fig)
    fig.savefig(buffer, format="png", dpi=pixels_per_inch, metadata={"Software": None})
    return buffer.getvalue()


def show(fig: Figure, *, alt: str) -> None:
    """Put a figure on the page with its alternative text."""
    width, height = (round(inches * CSS_PIXELS_PER_INCH) for inches in fig.get_size_inches())
    show_image(png(fig), alt=alt, width=width, height=height)


def _broken(title: str) -> str:
    """The title with room for a new line in words that are longer than a line."""
    return re.sub(r"(\S{40})(?=\S)", r"\1 ", title)


def title_height(title: str) -> float:
    """Inches that a title of more than a line takes from a figure."""
    return 0.2 * (min(len(title), LONGEST_TITLE) // 66)


@contextmanager
def figure(
    title: str, *, x: str = "", y: str = "", alt: str = "", size: tuple[float, float] = (7.2, 4.0), columns: int = 1
) -> Iterator[Any]:
    """An empty figure in the house style; it is shown when the block ends.

    Args:
        title: the message, as a sentence.
        x: label of the horizontal axis, with its unit.
        y: label of the vertical axis, with its unit.
        alt: what the figure says; default: the title and the labels.
        size: in inches.
        columns: panels side by side; more than one yields a list of axes.

    Raises:
        TypeError: the title is no text.
        ValueError: no panel, or no size.
    """
    refuse_title(title)
    if isinstance(columns, bool) or not isinstance(columns, int) or not 1 <= columns <= 6:
        raise ValueError(f"expected 1 to 6 panels side by side; found {columns!r}")
    if len(size) != 2 or not all(0.5 <= inches <= 40 for inches in size):
        raise ValueError(f"expected a width and a height of 0.5 to 40 inches; found {size!r}")
    with matplotlib.rc_context(house_style):
        fig = Figure(figsize=size, layout="constrained")
        axes = fig.subplots(1, columns, squeeze=False)[0]
        for ax in axes:
            ax.set(xlabel=named(x, width=48, lines=2), ylabel=named(y, width=40, lines=2))
        fig.suptitle(named(_broken(title), width=LONGEST_TITLE, lines=1), x=0.01, ha="left", wrap=True)
        yield axes[0] if columns == 1 else list(axes)
        # A chart that knows its data leaves a fuller text on the figure.
        alt = alt or getattr(fig, "alt", "") or f"{title.rstrip('.')}. {y} over {x}."
        show(fig, alt=alt)
