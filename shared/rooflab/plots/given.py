"""Can this be drawn, and how is it named?

What cannot be drawn is refused in one sentence before a figure is begun; what a logarithmic axis cannot show is left
out and counted, so that the figure can say so.

>>> numbers("a", [1, None, float("inf")])
array([ 1., nan, inf])
>>> print(named("a label that is much too long for a legend", width=16, lines=2))
a label that is
much too long…
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["LeftOut", "all_whole", "named", "numbers", "one_number", "refuse_log", "refuse_map", "refuse_rows",
           "refuse_title"]  # fmt: skip

MOST_ROWS = 60


def named(label: object, *, width: int = 44, lines: int = 3) -> str:
    """A name in lines short enough to leave room for the chart; a dollar is a dollar and begins no formula."""
    text = " ".join(str(label).split()).replace("$", r"\$")
    wrapped = textwrap.wrap(text, width, max_lines=lines, placeholder="…") or [""]
    shown = "\n".join(wrapped)
    return f" {shown}" if shown.startswith("_") else shown  # matplotlib hides names that begin with an underscore


def one_number(label: object, value: Any) -> float:
    """A value as a float; None is not-a-number.

    Raises:
        TypeError: it is no number.
    """
    if value is None:
        return math.nan
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        shown = repr(value) if isinstance(value, int | float | str | complex) else f"a {type(value).__name__}"
        raise TypeError(f"expected numbers for {label!r}; found {shown[:60]}") from None


def numbers(label: object, values: Any) -> np.ndarray:
    """A list of values as an array of floats; None is not-a-number, a gap.

    Raises:
        TypeError: these are no numbers in one row.
    """
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "fiub":
        return values.astype(float)
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__") or getattr(values, "ndim", 1) != 1:
        shape = f" of shape {tuple(values.shape)}" if hasattr(values, "shape") else ""
        raise TypeError(f"expected a list of numbers for {label!r}; found a {type(values).__name__}{shape}")
    return np.array([one_number(label, value) for value in values], dtype=float)


def refuse_title(title: Any) -> None:
    """Refuse a title that is no text."""
    if not isinstance(title, str):
        raise TypeError(f"expected a title that states the message; found {title!r:.60}")


def refuse_map(what: str, given: Any) -> None:
    """Refuse what is no table of labels and values, nor left out."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"expected {what} as label and value; found a {type(given).__name__}")


def refuse_rows(rows: Any, what: str) -> None:
    """Refuse a chart of rows without a row, or with more than a page holds."""
    if not isinstance(rows, Mapping):
        raise TypeError(f"expected {what} as label and value; found a {type(rows).__name__}")
    if not rows:
        raise ValueError(f"expected at least one row of {what}; found none")
    if len(rows) > MOST_ROWS:
        raise ValueError(f"expected at most {MOST_ROWS} rows of {what}; found {len(rows)}: draw those that matter")


def refuse_log(log: Any) -> None:
    """Refuse what names no axes."""
    if not isinstance(log, str) or set(log) - {"x", "y"}:
        raise ValueError(f"expected log as 'xy', 'x', 'y' or '', the axes to draw logarithmically; found {log!r}")


class LeftOut:
    """What of the data is not on the axes: infinite values, and on logarithmic axes those of zero and below.

    >>> left_out = LeftOut("xy")
    >>> left_out.of("a", [1, 2, 3], [0, 1, float("inf")])[1]
    array([nan,  1., nan])
    >>> left_out.sentence()
    "Not on these axes: 2 of 3 points of 'a' (zero, negative or infinite)."
    """

    def __init__(self, log: str) -> None:
        self._log = log
        self._counts: dict[str, tuple[int, int]] = {}
        self._shown = 0

    def of(self, label: str, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """The points with gaps in place of those that cannot be drawn, which are counted."""
        xs, ys = np.array(x, dtype=float), np.array(y, dtype=float)
        missing = np.isnan(xs) | np.isnan(ys)
        hidden = self._hidden(xs, "x") | self._hidden(ys, "y")
        if count := int((hidden & ~missing).sum()):
            self._counts[label] = count, len(xs)
        self._shown += int((~hidden & ~missing).sum())
        return np.where(hidden, np.nan, xs), np.where(hidden, np.nan, ys)

    def _hidden(self, values: np.ndarray, axis: str) -> np.ndarray:
        return np.isinf(values) | ((values <= 0) if axis in self._log else False)

    def refuse_nothing(self) -> str:
        """Refuse data of which not a single point can be drawn; returns the logarithmic axes, none without any data."""
        if self._counts and not self._shown:
            names = ", ".join(map(repr, self._counts))
            raise ValueError("expected a point that can be drawn; found only zero, negative or infinite ones "
                             f"({names}): logarithmic axes begin above zero, so pass log=''")  # fmt: skip
        return self._log if self._shown else ""

    def sentence(self) -> str:
        """What is left out; empty where nothing is."""
        if not self._counts:
            return ""
        parts = [f"{count} of {total} points of {label!r}" for label, (count, total) in self._counts.items()]
        return f"Not on these axes: {', '.join(parts)} (zero, negative or infinite)."


def all_whole(arrays: Iterable[np.ndarray]) -> bool:
    """Whether all these values are whole numbers."""
    return all(float(value).is_integer() for array in arrays for value in array)
