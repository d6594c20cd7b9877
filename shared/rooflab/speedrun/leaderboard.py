"""The command `rooflab speedrun leaderboard`: which runs came to the target first? One page, made from their folders.

>>> title(["tf32", "bf16"], {})
('up to bf16', [])
>>> title(["bf16", "muon"], {"lr": 0.001})
('bf16, muon', ['lr = 0.001'])
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import fmean
from typing import Any

from ..files import output_folder, write_atomic
from ..reporting.markup import Html, document, table
from ..units import format_si
from .asked import positive
from .compare import mean_text
from .config import PRESETS, Config
from .curvesvg import LOOKS, Line, curves_svg, small_svg
from .finished import Group, RunsError, grouped, read_runs
from .naming import title
from .rungs import RUNGS
from .significance import LEVEL, compared, interval, least_p

__all__ = ["Entry", "add_leaderboard_options", "leaderboard", "page", "title"]

_UNSAID = ("seed", "target", "log_every", "threads", "vocabulary", "rungs", "preset", "eval_every", "eval_tokens")
_CSS = """
body { display: block; }
main { max-width: 90rem; margin: 0 auto; }
nav { position: static; min-height: 0; border-right: 0; border-bottom: 1px solid var(--line); max-height: none;
      display: flex; gap: 1.6rem; align-items: baseline; padding: .8rem clamp(1rem, 4vw, 3.5rem); }
nav .brand { margin: 0; } nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; }
section .scroll > table td, section .scroll > table th { vertical-align: middle; padding-top: .6rem; }
.board td { text-align: left; white-space: nowrap; } .board thead th { text-align: left; vertical-align: bottom; }
.board tr > :nth-child(3), .board tr > :nth-child(6) { text-align: right !important; }
.board table { font-size: .89rem; } .board td, .board th { padding-right: 1.1rem !important; }
.board th:first-child { padding-right: .9rem; color: var(--quiet); font-weight: 600; }
.board td:nth-child(2) { white-space: normal !important; min-width: 11rem; max-width: 26rem; }
.board td:nth-child(7) { white-space: normal !important; min-width: 7.5rem; }
.board .quiet, .board details { color: var(--quiet); font-size: .85rem; font-weight: 400; }
.board summary { cursor: pointer; } .board strong { font-weight: 650; }
.narrow { display: none; } .narrow > svg { max-width: 40rem !important; }
@media (max-width: 60rem) { .wide { display: none; } .narrow { display: block; } }
.board .first { font-size: 1.12rem; font-weight: 650; }
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --ink: #e4e8ec; --quiet: #a2acb6; --line: #363d45; --ground: #15191d; --shade: #1c2126;
          --link: #7db8f0; --good: #8fdca8; --good-ground: #173a24; --bad: #f3a29b; --bad-ground: #46201d; }
  .pill.open { color: #f0d08a; background: #41350f; }
}
@media print { nav { display: none; } }
"""


@dataclass(frozen=True, eq=False)
class Entry:
    """One line of a table: a group of runs, and its seconds to the target, one for each seed that came there."""

    group: Group
    times_s: tuple[float, ...]
    look: int = 0

    @property
    def all_reached(self) -> bool:
        """Whether every seed came to the target."""
        return len(self.times_s) == len(self.group.runs)

    @property
    def order(self) -> tuple[float, ...]:
        """First those whose seeds all came there, the sooner the better; then by the loss at the end."""
        missed = 1 - len(self.times_s) / len(self.group.runs)
        return missed, fmean(self.times_s) if self.times_s else 0.0, self.group.mean("bits_per_byte")


def add_leaderboard_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab speedrun leaderboard`."""
    parser.set_defaults(call=leaderboard)
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="of runs, or with runs in them")
    parser.add_argument("--html", type=Path, metavar="FILE", help="the page (default: .rooflab/speedrun.html)")
    parser.add_argument("--target", type=positive(float), default=0.0, metavar="BPB",
                        help="bits per byte to which all runs are timed (default: each to its own target)")  # fmt: skip


def leaderboard(options: argparse.Namespace) -> int:
    """Write the page, and say in one line for each table who leads; returns the exit code."""
    runs = {run.path.resolve(): run for folder in options.folders for run in read_runs(folder, leave_out=_tell)}
    boards = tables(grouped(runs.values(), by_target=not options.target), options.target)
    path = options.html or Path(".rooflab/speedrun.html")
    output_folder(path.parent)
    write_atomic(path, page(boards, len(runs)))
    for (_, target), entries in boards.items():
        print(f"{_heading(entries, target)}: {_leader(entries[0], target)}, of {len(entries)}.")
    print(f"The page is {path}.")
    return 0


def _tell(why: str) -> None:
    print(f"Left out: {why}", file=sys.stderr)


def _leader(entry: Entry, target: float) -> str:
    name = title(entry.group.first.rungs, _deviations(entry.group))[0]
    if not target:
        return f"{name} leads by its loss at the end, {entry.group.mean('bits_per_byte'):.4f} bits per byte"
    if not entry.all_reached:
        return "none came there with all of its seeds"
    spread = " (standard deviation)" if len(entry.times_s) > 1 else ""
    return f"{name} leads with {mean_text(entry.times_s, 's')}{spread}"


def tables(groups: Sequence[Group], target: float = 0.0) -> dict[tuple[Any, float], list[Entry]]:
    """Groups whose losses can be compared, and that have one target, sorted by their time to it.

    Args:
        groups: of runs.
        target: for all of them; 0: each group's own.
    """
    found: dict[tuple[Any, float], list[Entry]] = {}
    for group in groups:
        goal = target or group.first.config["target"]
        found.setdefault((group.first.text, goal), []).append(Entry(group, tuple(group.times_s(goal) if goal else ())))
    return {key: [Entry(entry.group, entry.times_s, look) for look, entry in
                  enumerate(sorted(entries, key=lambda entry: entry.order))]
            for key, entries in sorted(found.items(), key=lambda item: -len(item[1]))}  # fmt: skip


# --- what an entry is called


def _deviations(group: Group) -> dict[str, Any]:
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


# --- the page


def page(boards: Mapping[tuple[Any, float], Sequence[Entry]], runs: int) -> str:
    """The whole page as HTML, which needs no network and runs no scripts.

    Raises:
        RunsError: there is nothing to show.
    """
    if not boards:
        raise RunsError("expected at least one run that has ended for a leaderboard; found none")
    today = datetime.date.today()
    names = [_heading(entries, target) for (_, target), entries in boards.items()]
    links = "".join(f'<li><a href="#board-{n}">{escape(name)}</a></li>' for n, name in enumerate(names, 1))
    facts = f"{today.day} {today:%B %Y} · {runs} run{'s' if runs > 1 else ''} · time of training to the target loss"
    parts = [f'<header><h1>Speedrun leaderboard</h1><p class="facts">{facts}</p></header>']
    for number, (((text, target), entries), name) in enumerate(zip(boards.items(), names, strict=True), 1):
        parts.append(f'<section id="board-{number}"><h2>{escape(name)}</h2>{_board(entries, text, target)}</section>')
    contents = f'<nav aria-label="Contents"><p class="brand">Rooflab</p><ul>{links}</ul></nav>'
    return document("Speedrun leaderboard", contents, "\n".join(parts), css=_CSS)


def _heading(entries: Sequence[Entry], target: float) -> str:
    data = entries[0].group.first.told["data"].get("name", "")
    return f"{data} to {target:.4g} bits per byte" if target else f"{data}, without a target"


def _board(entries: Sequence[Entry], text: tuple[Any, ...], target: float) -> str:
    lines = [Line("", run.curve.times_s, run.curve.bits, entry.look % LOOKS)
             for entry in entries[:LOOKS] for run in entry.group.runs]  # fmt: skip
    named = [Line(f"{_rank(number, entry, target)} {_name(entry.group)}", (), (), entry.look)
             for number, entry in enumerate(entries[:LOOKS], 1)]  # fmt: skip
    charts = {"wide": _chart(lines, named, target, (1240, 350)), "narrow": _chart(lines, named, target, (440, 400))}
    card = "".join(f'<div class="{name}">{chart}</div>' for name, chart in charts.items())
    everything = [Line("", run.curve.times_s, run.curve.bits) for entry in entries for run in entry.group.runs]
    rows = [_row(number, entry, entries[number : number + 1], everything, target)
            for number, entry in enumerate(entries, 1)]  # fmt: skip
    header = ("", "what was switched on", "time to the target", "seeds", "against the next", "rate", "where",
              "loss over time")  # fmt: skip
    body = table(header, rows).replace('class="scroll"', 'class="scroll board"', 1)
    data = entries[0].group.first.told["data"]
    times = (
        "Times are means over seeds with their 95 % interval (Student's t); they leave out compiling and evaluation. "
        f"Against the next: the permutation test on these times, two-sided; a lead counts where p is below {LEVEL:g}."
    ) if target else "These runs had no target: they are in the order of their loss at the end."  # fmt: skip
    if any(run.outcome.get("disturbed") for entry in entries for run in entry.group.runs):
        times += " Disturbed: beside so many of the runs others used the processor's cores, and they took longer."
    note = (
        f"Text {data.get('name')} ({text[0][:12]}), validation windows of {text[1]:,} tokens. {times} "
        "The axis of time is logarithmic, here and in the table. Losses are in bits per byte."
    )
    return f'<div class="card">{card}</div>{body}<p class="note">{escape(note)}</p>'


def _chart(lines: Sequence[Line], named: Sequence[Line], target: float, size: tuple[int, int]) -> str:
    """All curves, for a window of about this size: letters would be too small in a large one that is shrunk."""
    return curves_svg(
        [*lines[::-1], *named], x="training time", unit="s", y="validation loss, bits per byte", target=target,
        log=True, size=size, alt=f"Validation loss over time of the first {len(named)} entries of the table",
    )  # fmt: skip


def _name(group: Group) -> str:
    """What an entry is called in a legend."""
    name, changes = title(group.first.rungs, _deviations(group))
    return ", ".join([name, *changes]) + (" (JAX)" if group.first.framework == "jax" else "")


def _row(number: int, entry: Entry, below: Sequence[Entry], among: Sequence[Line], target: float) -> list[str]:
    group, run = entry.group, entry.group.first
    lines = [Line("", each.curve.times_s, each.curve.bits, entry.look % LOOKS) for each in group.runs]
    count, came = len(group.runs), len(entry.times_s)
    seeds = f"{count}" if came == count or not target else f"{came} of {count} came there"
    library = f"{run.framework} {run.told['versions'].get(run.framework, '')}".strip()
    cells = [
        _rank(number, entry, target).rstrip("."), _what(group), _time(entry, first=number == 1),
        seeds + _quiet(f"loss {group.mean('bits_per_byte'):.4f}"), _against(entry, below), _rate(group),
        escape(run.device) + _quiet(library) + _quiet(f"{run.code}, {str(run.told.get('date', ''))[:10]}"),
        small_svg(lines, among, target=target, log=True, alt=f"Loss of entry {number} over time"),
    ]  # fmt: skip
    return [Html(cell) for cell in cells]


def _rank(number: int, entry: Entry, target: float) -> str:
    """What stands before an entry's name; no number where a seed missed the target."""
    return f"{number}." if entry.all_reached or not target else "–"


def _what(group: Group) -> str:
    run, default = group.first, next(iter(PRESETS))
    name, changes = title(run.rungs, _deviations(group))
    shape = [] if run.config["preset"] == default else [run.config["preset"]]
    rungs = f"<details><summary>{len(run.rungs)} rungs</summary>{escape(', '.join(run.rungs))}</details>"
    quiet = _quiet(", ".join([*shape, *changes]))
    return f"<strong>{escape(name)}</strong>{quiet}" + (rungs if name.startswith("up to") else "")


def _rate(group: Group) -> str:
    used, peak = group.first.outcome.get("mfu_hfu") or (0.0, 0.0), group.mean("peak_bytes")
    more = [f"MFU {used[0]:.1%}"] * bool(used[0]) + [format_si(peak, "B")] * bool(peak)
    return format_si(group.mean("tokens_per_s"), "tokens/s") + _quiet(", ".join(more))


def _quiet(text: str) -> str:
    return f'<br><span class="quiet">{escape(text)}</span>' if text else ""


def _time(entry: Entry, *, first: bool) -> str:
    times = entry.times_s
    if not times:
        return "–"
    shown = format_si(fmean(times), "s", digits=4)
    low, high = interval(times)
    spread = _quiet(f"{_half(high - low)}, 95 %") if len(times) > 1 else _quiet("one seed")
    others = sum(bool(run.outcome.get("disturbed")) for run in entry.group.runs)
    spread += _quiet(f"disturbed: {others} of {len(entry.group.runs)}") if others else ""
    return f'<span class="{"first" if first else ""}">{escape(shown)}</span>{spread}'


def _half(width: float) -> str:
    return f"± {format_si(width / 2, 's', digits=2)}"


def _against(entry: Entry, below: Sequence[Entry]) -> str:
    """The lead over the next entry, and whether it is more than chance."""
    if not below or not (entry.all_reached and below[0].all_reached and entry.times_s):
        return ""
    lead = fmean(below[0].times_s) - fmean(entry.times_s)
    told = _quiet(f"{format_si(lead, 's')} sooner, {fmean(below[0].times_s) / fmean(entry.times_s):.2f} ×")
    verdict = compared(entry.times_s, below[0].times_s)
    if verdict is None:
        return f'<span class="pill open">one seed: no test</span>{told}'
    few = least_p(len(entry.times_s), len(below[0].times_s)) >= LEVEL
    said = "" if verdict.significant else ", too few seeds" if few else ", not told apart"
    return f'<span class="pill {"good" if verdict.significant else "open"}">p = {verdict.p:.2g}{said}</span>{told}'
