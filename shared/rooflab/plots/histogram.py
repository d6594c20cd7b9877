"""How do we draw the distribution of samples?

>>> distribution([1e-3, 2e-3, 3e-3], title="Three calls")
Three calls. Histogram of 3 calls: median 2 ms, mean 2 ms, p20 1.4 ms, p80 2.6 ms, longest 3 ms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..measurement import Measurement, quantile
from ..units import format_si
from .given import numbers, refuse_title
from .style import figure, set_axis

__all__ = ["distribution"]

_BANDS = 8  # the axis goes on for at most so many widths of the p20 to p80 band


def distribution(
    times_s: Sequence[float], *, title: str, x: str = "time per call", bins: int = 60, clip: float = 0.99
) -> None:
    """Show samples as a histogram with mean, median and the p20 to p80 band.

    Args:
        times_s: one entry a call.
        title: the message.
        x: label of the horizontal axis.
        bins: number of bars.
        clip: the axis ends at this quantile, or before where the slowest calls would leave no room for the others; the
            calls beyond are counted in a note, not hidden.

    Raises:
        ValueError: no times, one that is not finite, no bars, or a clip that is no quantile.
        TypeError: the times are no numbers; of a ``Measurement`` they are its ``times_s``.
    """
    refuse_title(title)
    if isinstance(times_s, Measurement):
        raise TypeError("expected the times of calls; found a Measurement: pass its times_s")
    samples = numbers("the times", times_s)
    if not len(samples):
        raise ValueError("expected the times of at least one call; found none")
    if not np.isfinite(samples).all():
        bad = int((~np.isfinite(samples)).sum())
        raise ValueError(f"expected times that are all finite; found {bad} of {len(samples)} that are not")
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1 or not 0 < clip <= 1:
        raise ValueError(f"expected bins of 1 or more and a clip above 0 and up to 1; found {bins!r} and {clip!r}")
    times_s = samples.tolist()
    mean, median = float(np.mean(times_s)), quantile(times_s, 0.5)
    p20, p80, end = (quantile(times_s, q) for q in (0.2, 0.8, clip))
    end = max(min(end, p80 + _BANDS * (p80 - p20)), 1.05 * mean, 1.05 * p80)
    beyond = sum(t > end for t in times_s)
    with figure(title) as ax:
        ax.axvspan(p20, p80, color="#0072B2", alpha=0.13, linewidth=0, label="p20 to p80")
        ax.hist([t for t in times_s if t <= end], bins=bins, color="#7fb3d5", edgecolor="white", linewidth=0.3)
        ax.axvline(median, color="#0072B2", label=f"median {format_si(median, 's')}")
        ax.axvline(mean, color="#D55E00", linestyle="--", label=f"mean {format_si(mean, 's')}")
        set_axis(ax.xaxis, label=x, unit="s", log=False)
        ax.set_ylabel("calls")
        if beyond:
            noun = "call" if beyond == 1 else "calls"
            note = f"{beyond} slower {noun} beyond,\nup to {format_si(max(times_s), 's')}"
            ax.annotate(note, (0.985, 0.3), xycoords="axes fraction", ha="right", fontsize=9, color="#555555")
        ax.legend(loc="upper right")
        ax.figure.alt = (f"{title.rstrip('.')}. Histogram of {len(times_s)} calls: median {format_si(median, 's')}, "
                         f"mean {format_si(mean, 's')}, p20 {format_si(p20, 's')}, p80 {format_si(p80, 's')}, longest "
                         f"{format_si(max(times_s), 's')}.")  # fmt: skip
