"""How is a figure kept in a file? Drawn in memory first, so that a full disk leaves no half of it.

>>> import pathlib, tempfile
>>> path = save_figure(Figure(figsize=(2, 1)), pathlib.Path(tempfile.mkdtemp()) / "empty.svg")
>>> path.read_text(encoding="utf-8")[:5]
'<?xml'
"""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from ..files import write_atomic
from .style import png

__all__ = ["save_figure", "svg"]


def svg(fig: Figure) -> str:
    """The figure as SVG; no date and no random names in it, so that equal figures are equal texts."""
    buffer = io.StringIO()
    FigureCanvasSVG(fig)
    with matplotlib.rc_context({"svg.hashsalt": "rooflab"}):
        fig.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def save_figure(fig: Figure, path: Path) -> Path:
    """Write the figure as SVG or PNG, as the file's name ends; returns the path.

    Raises:
        ValueError: the name ends otherwise.
        OutputError: the file could not be written; what stood there before is untouched.
    """
    if path.suffix not in (".svg", ".png"):
        raise ValueError(f"expected a figure whose name ends in .svg or .png; found {path}")
    return write_atomic(path, svg(fig) if path.suffix == ".svg" else png(fig))
