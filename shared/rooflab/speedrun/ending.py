"""What is said when a run has ended? Its loss, its time, and what of the device it has used.

>>> _duration(0.25), _duration(75)
('250 ms', '1:15')
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ..plaintext import terminal_width
from ..progress import clock_time
from ..tables import render_text
from ..units import format_si
from .config import Config
from .folder import RunFolder
from .naming import counted, short
from .neighbours import disturbed

if TYPE_CHECKING:
    from .commands import Here
    from .pace import Result

__all__ = ["finish"]


def finish(folder: Path, result: Result, place: Here, config: Config, *, as_json: bool) -> None:
    """Draw the figure of a run that has ended, and print what came of it; the first rank does.

    Args:
        folder: of the run.
        result, config: of it.
        place: what it stood on.
        as_json: print one line for machines.
    """
    from .picture import save

    if not place.ranks.first:
        return
    loss = _loss(result, config, 3) + "," * bool(config.target)
    told = f"{config.preset}, {short(config.rungs)}: {loss} after {format_si(result.train_s, 's')}"
    lines = RunFolder(folder).lines()
    save(folder, lines, told, target=config.target)
    if as_json:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        print(json.dumps({"summary": summary, "folder": str(folder)}), flush=True)
        return
    print(render_text(["", ""], _outcome(result, place, config), width=terminal_width()))
    if sentence := disturbed(lines):
        print(sentence)
    print(f"Kept in {folder}.")


def _loss(result: Result, config: Config, digits: int = 4) -> str:
    """The validation loss at the end, and whether it is the target."""
    short = f", short of the target of {config.target:g}" if config.target else ""
    return f"{result.bits_per_byte:.{digits}f} bits per byte" + (", the target" if result.reached else short)


def _outcome(result: Result, place: Here, config: Config) -> list[list[str]]:
    """The outcome as rows of name and value."""
    from ..roofline import Ceilings
    from .session import beyond, ceiling_format, used

    rows = [
        ["validation loss", _loss(result, config)],
        ["training", f"{_duration(result.train_s)}, {counted(result.steps, 'step')}, {result.tokens:,} tokens"],
        ["before the first step", _duration(result.start_s)],
        ["a step", f"{format_si(result.step_s, 's')}, {format_si(result.tokens_per_s, 'tokens/s')}"],
    ]
    kinds = {"measured ceiling": place.ceilings}
    kinds |= {"datasheet": Ceilings.of_chip(place.device.spec)} if place.device.spec else {}
    for name, ceilings in kinds.items():
        if ceilings is not None:
            known = config.of_text(place.data.vocabulary)
            mfu, hfu = used(known, result.tokens_per_s, ceilings, place.ranks.world)
            fmt = ceiling_format(known, ceilings)
            rows.append([f"of the {name}", f"MFU {mfu:.1%}, HFU {hfu:.1%} (products in {fmt})"])
            rows += [["", told]] if name != "datasheet" and (told := beyond(max(mfu, hfu))) else []
    return rows + ([["peak memory", format_si(result.peak_bytes, "B")]] if result.peak_bytes else [])


def _duration(seconds: float) -> str:
    """Minutes and seconds; below ten seconds with the digits that say something."""
    return clock_time(seconds) if seconds >= 10 else format_si(seconds, "s")
