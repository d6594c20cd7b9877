"""What does one row of the leaderboard say: what was switched on, the time it took, the lead over the next?

>>> quiet("one seed")
'<br><span class="quiet">one seed</span>'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean
from typing import Any

from ..reporting.markup import Html
from ..units import format_si
from .config import PRESETS, Config
from .curvesvg import LOOKS, Line, small_svg
from .finished import Group
from .naming import short, title
from .rungs import RUNGS
from .significance import LEVEL, compared, interval, least_p

__all__ = ["Entry", "deviations", "name_of", "places", "quiet", "rank", "row"]

_UNSAID = ("seed", "target", "log_every", "threads", "vocabulary", "rungs", "preset", "eval_every", "eval_tokens")
_SHORT = 60  # letters: two lines of the column


@dataclass(frozen=True, eq=False)
class Entry:
    """One line of a table: a group of runs, and its seconds to the target, one for each seed that came there.

    Attributes:
        group: of the runs.
        times_s: to the target.
        look: of its curves.
        late: whether a run was below the target at its first evaluation: the times are only the most they can be.
    """

    group: Group
    times_s: tuple[float, ...]
    look: int = 0
    late: bool = False

    @property
    def all_reached(self) -> bool:
        """Whether every seed came to the target."""
        return len(self.times_s) == len(self.group.runs)

    @property
    def order(self) -> tuple[float, ...]:
        """By time; behind that, by the seeds that missed the target and by the loss at the end.

        The mean of some seeds of a group is no time to order by: that of those that missed it is not in it.
        """
        missed = 1 - len(self.times_s) / len(self.group.runs)
        return missed, 0.0 if missed else fmean(self.times_s), self.group.mean("bits_per_byte")


def deviations(group: Group) -> dict[str, Any]:
    """Switches that are neither as the preset has them nor as the rungs set them."""
    config = group.first.config
    if config["preset"] not in PRESETS:
        return {}
    expected = PRESETS[config["preset"]].to_dict()
    for rung in RUNGS:
        if rung.name in config["rungs"]:
            expected |= rung.change
    return {name: value for name, value in config.items()
            if name in Config.__dataclass_fields__ and name not in _UNSAID and value != expected[name]}  # fmt: skip


def name_of(group: Group) -> str:
    """What an entry is called in a legend."""
    changes = title((), deviations(group))[1]
    return ", ".join([short(group.first.rungs), *changes]) + (" (JAX)" if group.first.framework == "jax" else "")


def rank(number: int, entry: Entry, target: float) -> str:
    """What stands before an entry's name; no number where a seed missed the target."""
    return f"{number}." if entry.all_reached or not target else "–"


def places(group: Group) -> tuple[str, str, str]:
    """Device, library and code of a group."""
    run = group.first
    library = f"{run.framework} {run.told['versions'].get(run.framework, '')}".strip()
    return run.device, library, run.code


def row(
    number: int, entry: Entry, below: Sequence[Entry], among: Sequence[Line], target: float, *, own: Sequence[bool]
) -> list[str]:
    """The cells of a row, as HTML.

    Args:
        number: of the row.
        entry: that it shows.
        below: the next one, if there is one.
        among: all curves of the table, in whose frame the small one is drawn.
        target: 0: there is none.
        own: which of `places` differ within the table; there is a column for those.
    """
    group = entry.group
    lines = [Line("", each.curve.times_s, each.curve.bits, entry.look % LOOKS) for each in group.runs]
    count, came = len(group.runs), len(entry.times_s)
    seeds = f"{count}" if came == count or not target else f"{came} of {count} came there"
    where = [escape(part) for part, each in zip(places(group), own, strict=True) if each]
    cells = [
        rank(number, entry, target).rstrip("."), _what(group), _time(entry, first=number == 1),
        seeds + quiet(f"loss {group.mean('bits_per_byte'):.4f}"), _against(entry, below), _rate(group),
        *["<br>".join(where)] * any(own),
        small_svg(lines, among, target=target, log=True, alt=f"Loss of entry {number} over time"),
    ]  # fmt: skip
    return [Html(cell) for cell in cells]


def _what(group: Group) -> str:
    run, default, name = group.first, next(iter(PRESETS)), short(group.first.rungs)
    shape = "" if run.config["preset"] == default else run.config["preset"]
    changes, every = title((), deviations(group))[1], ", ".join(run.rungs)
    few = ", ".join(filter(None, (shape, *changes)))
    others = quiet(few) if len(few) <= _SHORT else quiet(shape) + _folded("switches", changes)
    rungs = "" if name in (every, "baseline") else _folded("rungs", run.rungs)
    return f"<strong>{escape(name)}</strong>{others}{rungs}"


def _folded(what: str, names: Sequence[str]) -> str:
    """A list that is too long for a row: how many, and the list when it is asked for."""
    return f"<details><summary>{len(names)} {what}</summary>{escape(', '.join(names))}</details>"


def _rate(group: Group) -> str:
    used, peak = group.first.outcome.get("mfu_hfu") or (0.0, 0.0), group.mean("peak_bytes")
    more = [f"MFU {used[0]:.1%}"] * bool(used[0]) + [format_si(peak, "B")] * bool(peak)
    return format_si(group.mean("tokens_per_s"), "tokens/s") + quiet(", ".join(more))


def quiet(text: str) -> str:
    """A line of smaller letters below another."""
    return f'<br><span class="quiet">{escape(text)}</span>' if text else ""


def _time(entry: Entry, *, first: bool) -> str:
    """The mean time and how sure it is; none where a seed missed the target."""
    times = entry.times_s
    if not times or not entry.all_reached:
        return "–"
    shown = "at most " * entry.late + format_si(fmean(times), "s", digits=4)
    low, high = interval(times)
    spread = quiet(f"± {format_si((high - low) / 2, 's', digits=2)}, 95 %" if len(times) > 1 else "one seed")
    if entry.late:
        spread = quiet("at its first evaluation")
    others = sum(bool(run.outcome.get("disturbed")) for run in entry.group.runs)
    spread += quiet(f"disturbed: {others} of {len(entry.group.runs)}") if others else ""
    return f'<span class="{"first" if first else ""}">{escape(shown)}</span>{spread}'


def _against(entry: Entry, below: Sequence[Entry]) -> str:
    """The lead over the next entry, and whether it is more than chance; neither where a time is only a bound."""
    if not below or not (entry.all_reached and below[0].all_reached and entry.times_s):
        return ""
    if entry.late or below[0].late:
        return f'<span class="pill open">{"" if entry.late else "the next has "}only a bound: no test</span>'
    lead = fmean(below[0].times_s) - fmean(entry.times_s)
    told = quiet(f"{format_si(lead, 's')} sooner, {fmean(below[0].times_s) / fmean(entry.times_s):.2f} ×")
    verdict = compared(entry.times_s, below[0].times_s)
    if verdict is None:
        who = "" if len(entry.times_s) < 2 else "the next has "
        return f'<span class="pill open">{who}one seed: no test</span>{told}'
    few = least_p(len(entry.times_s), len(below[0].times_s)) >= LEVEL
    said = "" if verdict.significant else ", too few seeds" if few else ", not told apart"
    return f'<span class="pill {"good" if verdict.significant else "open"}">p = {verdict.p:.2g}{said}</span>{told}'
