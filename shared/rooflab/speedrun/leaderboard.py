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
from dataclasses import replace
from html import escape
from pathlib import Path
from statistics import fmean
from typing import Any

from ..book import results_root
from ..files import output_folder, write_atomic
from ..reporting.markup import document, table
from ..units import format_si
from .asked import positive
from .boardrows import Entry, name_of, places, rank, row
from .compare import mean_text
from .curvesvg import LOOKS, Line, curves_svg
from .finished import Group, RunsError, grouped, read_runs
from .naming import short, title
from .significance import LEVEL

__all__ = ["Entry", "add_leaderboard_options", "leaderboard", "page", "title"]

_CSS = """
body { display: block; }
main { max-width: 90rem; margin: 0 auto; }
nav { position: static; min-height: 0; border-right: 0; border-bottom: 1px solid var(--line); max-height: none;
      display: flex; gap: 1.6rem; align-items: baseline; padding: .8rem clamp(1rem, 4vw, 3.5rem); }
nav .brand { margin: 0; } nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; }
section .scroll > table td, section .scroll > table th { vertical-align: middle; padding-top: .6rem; }
.board td { text-align: left; white-space: nowrap; } .board thead th { text-align: left; vertical-align: bottom; }
.board tr > :nth-child(3), .board tr > :nth-child(6) { text-align: right !important; }
.board table { font-size: .89rem; } .board td, .board th { padding-right: .95rem !important; }
.board th:first-child { padding-right: .9rem; color: var(--quiet); font-weight: 600; }
.board td:is(:nth-child(2), :nth-child(5), :nth-child(7)), .board .pill {
  white-space: normal !important; overflow-wrap: break-word; }
.board td:nth-child(2) { min-width: 10rem; max-width: 26rem; }
.board .quiet, .board details { color: var(--quiet); font-size: .85rem; font-weight: 400; }
.board summary { cursor: pointer; } .board strong { font-weight: 650; }
.narrow { display: none; } .narrow > svg { max-width: 40rem !important; }
@media (max-width: 64rem) {
  .wide { display: none; } .narrow { display: block; }
  /* A row is a card: the name; time and curve; seeds and rate; the lead; where. */
  .board { overflow: visible; }
  .board thead { position: absolute; clip-path: inset(50%); }
  .board table, .board tbody { display: block; }
  .board tr { display: grid; grid-template-columns: 1.6rem 1fr 1fr; gap: .5rem .8rem; padding: .9rem 0;
              border-bottom: 1px solid var(--line); }
  .board tbody tr > :nth-child(n) { border: 0; padding: 0 !important; text-align: left !important; min-width: 0;
                                    white-space: normal !important; }
  .board tr > :is(:nth-child(3), :nth-child(4)) { grid-column: 2; }
  .board tr > :nth-child(n+2) { max-width: none; }
  .board tr > :is(:nth-child(2), :nth-child(5), :nth-child(7)) { grid-column: 2 / -1; }
  .board tr > :nth-child(2) { grid-row: 1; } .board tr > :nth-child(3) { grid-row: 2; }
  .board tr > :last-child { grid-column: 3; grid-row: 2; }
  .board tr > :nth-child(4) { grid-row: 3; } .board tr > :nth-child(6) { grid-column: 3; grid-row: 3; }
  .board tr > :nth-child(5) { grid-row: 4; } .board tr > :nth-child(5):empty { display: none; }
  .board tr > :nth-child(4)::before { content: "seeds: "; color: var(--quiet); }
  .board tr > :nth-child(5)::before { content: "against the next: "; color: var(--quiet); }
}
.board .first { font-size: 1.12rem; font-weight: 650; }
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --ink: #e4e8ec; --quiet: #a2acb6; --line: #363d45; --ground: #15191d; --shade: #1c2126;
          --link: #7db8f0; --good: #8fdca8; --good-ground: #173a24; --bad: #f3a29b; --bad-ground: #46201d; }
  .pill.open { color: #f0d08a; background: #41350f; }
}
@media print { nav { display: none; } }
"""


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
    path = options.html or results_root() / "speedrun.html"
    output_folder(path.parent)
    write_atomic(path, page(boards, len(runs)))
    for (_, target), entries in boards.items():
        print(f"{_heading(entries, target)}: {_leader(entries, target)}, of {len(entries)}.")
    print(f"The page is {path}.")
    return 0


def _tell(why: str) -> None:
    print(f"Left out: {why}", file=sys.stderr)


def _leader(entries: Sequence[Entry], target: float) -> str:
    entry = entries[0]
    name = short(entry.group.first.rungs)
    if not target:
        return f"{name} leads by its loss at the end, {entry.group.mean('bits_per_byte'):.4f} bits per byte"
    if not entry.all_reached:
        return "none came there with all of its seeds"
    if entry.late:
        return f"{name} came there in at most {format_si(fmean(entry.times_s), 's', digits=4)}, by its first evaluation"
    known = "leads with" if not any(other.late for other in entries) else "has the shortest time that is no bound,"
    spread = " (standard deviation)" if len(entry.times_s) > 1 else ""
    return f"{name} {known} {mean_text(entry.times_s, 's')}{spread}"


def tables(groups: Sequence[Group], target: float = 0.0) -> dict[tuple[Any, float], list[Entry]]:
    """Groups whose losses can be compared, and that have one target, sorted by their time to it.

    Args:
        groups: of runs.
        target: for all of them; 0: each group's own.
    """
    found: dict[tuple[Any, float], list[Entry]] = {}
    for group in groups:
        goal = target or group.first.config["target"]
        times, late = (tuple(group.times_s(goal)), group.late(goal)) if goal else ((), False)
        found.setdefault((group.first.text, goal), []).append(Entry(group, times, late=late))
    return {key: [replace(entry, look=look) for look, entry in
                  enumerate(sorted(entries, key=lambda entry: entry.order))]
            for key, entries in sorted(found.items(), key=lambda item: -len(item[1]))}  # fmt: skip


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
    named = [Line(f"{rank(number, entry, target)} {name_of(entry.group)}", (), (), entry.look)
             for number, entry in enumerate(entries[:LOOKS], 1)]  # fmt: skip
    charts = {"wide": _chart(lines, named, target, (1240, 350)), "narrow": _chart(lines, named, target, (440, 400))}
    card = "".join(f'<div class="{name}">{chart}</div>' for name, chart in charts.items())
    everything = [Line("", run.curve.times_s, run.curve.bits) for entry in entries for run in entry.group.runs]
    same = [len(set(part)) == 1 for part in zip(*(places(entry.group) for entry in entries), strict=True)]
    rows = [row(number, entry, entries[number : number + 1], everything, target, own=[not each for each in same])
            for number, entry in enumerate(entries, 1)]  # fmt: skip
    header = ("", "what was switched on", "time to the target", "seeds", "against the next", "rate",
              *["where"] * (not all(same)), "loss over time")  # fmt: skip
    body = table(header, rows).replace('class="scroll"', 'class="scroll board"', 1)
    data = entries[0].group.first.told["data"]
    times = (
        "Times are means over seeds with their 95 % interval (Student's t); they leave out compiling and evaluation. "
        f"Against the next: the permutation test on these times, two-sided; a lead counts where p is below {LEVEL:g}."
    ) if target else "These runs had no target: they are in the order of their loss at the end."  # fmt: skip
    if any(run.outcome.get("disturbed") for entry in entries for run in entry.group.runs):
        times += " Disturbed: beside so many of the runs others used the processor's cores, and they took longer."
    shared = [part for part, each in zip(places(entries[0].group), same, strict=True) if each and part]
    ran = f" All ran on {', '.join(shared)}." if shared else ""
    note = (
        f"Text {data.get('name')} ({text[0][:12]}), validation windows of {text[1]:,} tokens. {times} "
        "The axis of time is logarithmic, here and in the table. Losses are in bits per byte." + ran + _dates(entries)
    )
    return f'<div class="card">{card}</div>{body}<p class="note">{escape(note)}</p>'


def _dates(entries: Sequence[Entry]) -> str:
    """When the runs began, as a sentence."""
    days = sorted({str(run.told.get("date", ""))[:10] for entry in entries for run in entry.group.runs} - {""})
    return f" Begun {' to '.join(dict.fromkeys((days[0], days[-1])))}." if days else ""


def _chart(lines: Sequence[Line], named: Sequence[Line], target: float, size: tuple[int, int]) -> str:
    """All curves, for a window of about this size: letters would be too small in a large one that is shrunk."""
    return curves_svg(
        [*lines[::-1], *named], x="training time", unit="s", y="validation loss, bits per byte", target=target,
        log=True, size=size, alt=f"Validation loss over time of the first {len(named)} entries of the table",
    )  # fmt: skip
