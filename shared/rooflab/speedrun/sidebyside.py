"""How do the curves of two groups of runs lie beside each other? Drawn, with what differs in the legend.

>>> free_name(Path("no such file.svg")).name
'no such file.svg'
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from ..units import format_si
from .finished import Group
from .significance import compared

__all__ = ["draw", "free_name", "label", "title"]

_LABEL = 30  # letters of a curve's name, beside which the curve is seen


def label(own: Sequence[str], others: Sequence[str], group: Group, folder: str) -> str:
    """What a curve is called: rungs of its own, those that it lacks, or else its folder; in a few words.

    Args:
        own: rungs that the other group has not.
        others: those that only the other has.
        group: the one that is named.
        folder: as it was given.
    """
    lacks = f"without {', '.join(others)}" if group.first.rungs else "baseline"
    if len(lacks) > _LABEL:
        lacks = f"without {len(others)} rungs"
    name = ", ".join(own) or (lacks if others else folder)
    return name if len(name) <= _LABEL else f"{len(own)} rungs more" if own else f"{name[: _LABEL - 1]}…"


def free_name(path: Path) -> Path:
    """A name like this one that no file has: curves of an earlier comparison stay."""
    names = itertools.chain([path], (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2)))
    return next(name for name in names if not name.exists())


def draw(path: Path, groups: dict[str, Group], target: float, labels: Sequence[str] = ()) -> None:
    """Draw validation losses over time and over steps, one look for each group; written as SVG or PNG.

    Args:
        path: of the picture.
        groups: by the names that the title has.
        target: bits per byte; 0: none.
        labels: of the curves; default: the names.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    from ..plots.saving import save_figure
    from ..plots.style import BOUND, house_style, series_style, set_axis

    with matplotlib.rc_context(house_style):
        fig = Figure(figsize=(7.6, 3.4), layout="constrained")
        axes = fig.subplots(1, 2, sharey=True)
        for ax, key, label, unit in ((axes[0], "times_s", "training time", "s"), (axes[1], "steps", "steps", "")):
            for number, (name, group) in enumerate(zip(labels or groups, groups.values(), strict=True)):
                for run in group.runs:
                    ax.plot(getattr(run.curve, key), run.curve.bits, markersize=3.5, linewidth=1.4,
                            label=name if run is group.first else None, **series_style(number))  # fmt: skip
            if target:
                ax.axhline(target, linestyle="--", label="target", **dict[str, Any](BOUND))
            set_axis(ax.xaxis, label=label, unit=unit, log=False)
            ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10], integer=not unit))
            ax.set_xlim(left=0)
        axes[0].set_ylabel("validation loss (bits per byte)")
        axes[1].legend()
        fig.suptitle(title(groups, target), x=0.01, ha="left", wrap=True)
        save_figure(fig, path)


def title(groups: dict[str, Group], target: float) -> str:
    """The times to the target, where every run came there, with what a test says of their difference."""
    times = {name: group.times_s(target) for name, group in groups.items()} if target else {}
    if not times or any(len(some) < len(groups[name].runs) for name, some in times.items()):
        return "Validation losses"
    late = {name: "at most " if groups[name].late(target) else "" for name in groups}
    told = ", ".join(f"{name} in {late[name]}{format_si(fmean(some), 's')}" for name, some in times.items())
    return f"{target:.4g} bits per byte: {told}; {_tested(list(times.values()), known=not any(late.values()))}"


def _tested(times: Sequence[Sequence[float]], *, known: bool) -> str:
    """How many seeds there are, p, and whether the groups are told apart; no p of times that are bounds."""
    counts = {len(some) for some in times}
    many = " and ".join(str(len(some)) for some in times) if len(counts) > 1 else f"{max(counts)}"
    seeds = "one seed each" if counts == {1} else f"{many} seeds" + " each" * (len(counts) == 1)
    verdict = compared(*times) if known and len(times) == 2 else None
    if verdict is None:
        return seeds
    return f"{seeds}, p = {verdict.p:.2g}" + ("" if verdict.significant else ", not told apart")
