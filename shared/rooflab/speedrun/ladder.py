"""The command `rooflab speedrun ladder`: what does each rung do on this device, and what should it have done?

>>> print(list_rungs(width=60).splitlines()[0])
rung              | time | memory | loss | why
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import output_folder
from ..plaintext import terminal_width
from ..progress import Progress
from ..tables import render_text
from ..units import format_si
from .config import Config

if TYPE_CHECKING:
    from .commands import Here

__all__ = ["add_ladder_options", "counted_step", "list_rungs", "measured_rung", "run_ladder", "table"]

_TOKENS = 2_621_440  # of each rung on an accelerator: 160 steps of the baseline, 40 of the larger batch


def add_ladder_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab speedrun ladder`."""
    from .commands import _names, _positive, add_run_options

    add_run_options(parser)
    parser.add_argument("--only", type=_names, default=[], metavar="A,B", help="the ladder up to each of these alone")
    parser.add_argument("--without", type=_names, default=[], metavar="A,B", help="leave these out of every run")
    parser.add_argument("--tokens", type=_positive(int), metavar="N", help="that each rung trains on")
    parser.add_argument("--json", action="store_true", help="print each rung as JSON, and nothing else")
    parser.add_argument("--record", action="store_true", help="keep the results among the records, too")


def list_rungs(width: int | None = None) -> str:
    """All rungs as a table: what each should do to step time, memory and loss, and why."""
    from .rungs import RUNGS

    signs = {"less": "-", "same": "=", "more": "+"}
    rows = [[rung.name, signs[rung.step_time], signs[rung.memory], signs[rung.loss],
             rung.why + (f" ({rung.source})" if rung.source else "")] for rung in RUNGS]  # fmt: skip
    table = render_text(["rung", "time", "memory", "loss", "why"], rows, width=width or max(terminal_width(), 120))
    return f"{table}\n\n- less, = about the same, + more; each on top of those above it."


def run_ladder(options: argparse.Namespace) -> int:
    """Train every rung for as many tokens, print a table, and leave a record; returns the exit code."""
    from ..records import save_record
    from .commands import _settings, find_config, here
    from .ranks import Ranks
    from .rungs import RUNGS, find_rung, select

    for name in (*options.only, *options.without):
        find_rung(name)
    place = here(options.data, options.device, Ranks(), quiet=options.json)
    base = find_config(options, place.device)
    base = base.change(tokens=options.tokens or (_TOKENS if place.device.is_accelerator else base.tokens))
    bar = Progress("ladder", len(RUNGS), unit="rung")
    found: dict[str, dict[str, Any]] = {}
    for number, rung in enumerate(RUNGS, 1):
        if rung.name in options.without or (options.only and rung.name not in options.only):
            continue
        bar.name = f"ladder: {rung.name}"
        bar.step(number)
        chosen = select(base, up_to=rung.name, without=options.without, device=place.device)
        if rung.name in chosen.skipped:
            found[rung.name] = {"skipped": chosen.skipped[rung.name]}
        else:
            found[rung.name] = measured_rung(chosen.config.change(**_settings(options.set)), place)
        if options.json:
            print(json.dumps({"rung": rung.name, **found[rung.name]}), flush=True)
    bar.close("measured")
    if not options.json:
        print(table(found, counted=not place.device.is_accelerator))
    folder = output_folder(options.out or Path(".rooflab/speedrun"))
    values = {"preset": base.preset, "tokens": base.tokens, "data": place.data.name, "digest": place.data.digest,
              "rungs": found}  # fmt: skip
    print(f"Kept in {save_record('speedrun_ladder', values, folder=folder)}.", file=sys.stderr)
    if options.record:
        print(f"Recorded in {save_record('speedrun_ladder', values)}.", file=sys.stderr)
    return int(any("error" in one for one in found.values()))


def measured_rung(config: Config, place: Here) -> dict[str, Any]:
    """Prediction and outcome of one run; of a run that fails, the sentence that says why."""
    from .forecast import forecast
    from .session import free, run_once, used
    from .watch import Stopped

    config = config.change(vocabulary=place.data.vocabulary)
    assert place.ceilings is not None
    ahead = forecast(config, place.ceilings)
    told: dict[str, Any] = {"predicted_s": ahead.step_s, "predicted_bytes": ahead.memory_bytes, "regime": ahead.regime,
                            "config": config.to_dict()}  # fmt: skip
    free()
    try:
        if not place.device.is_accelerator:
            told |= counted_step(config, place)
        result = run_once(config, place.data, device=place.device)
    except (MemoryError, Stopped, RuntimeError) as error:
        return told | {"error": str(error).splitlines()[0]}
    mfu, hfu = used(config, result.tokens_per_s, place.ceilings)
    return told | {
        "step_s": result.step_s, "tokens_per_s": result.tokens_per_s, "mfu": mfu, "hfu": hfu, "start_s": result.start_s,
        "train_s": result.train_s, "peak_bytes": result.peak_bytes, "bits_per_byte": result.bits_per_byte,
        "steps": result.steps,
    }  # fmt: skip


def counted_step(config: Config, place: Here) -> dict[str, Any]:
    """FLOPs, bytes and launches of one step, operation by operation: what a processor's time cannot show.

    A compiled step is counted as it is before it is compiled.
    """
    import numpy as np
    import torch

    from ..counters import count
    from .train import Trainer

    plain = config.change(compile="no", graph=False, steps=1)
    trainer = Trainer(plain, place.data, device=place.device)
    pair = torch.from_numpy(np.stack(trainer.batches.at(0)))
    one = count(lambda: trainer.compute(pair[0], pair[1], config.window_at(0.0)), world="torch", name="step")
    return {"flops": one.flops, "bytes": one.bytes, "launches": one.launches}


def table(found: Mapping[str, Mapping[str, Any]], *, counted: bool) -> str:
    """The rungs side by side; those that were left out below, with their reasons."""
    from .session import beyond

    head = ["rung", "predicted", "step", "tokens/s", "MFU", "bits/byte", "memory"]
    head += ["FLOP", "bytes", "operations"] if counted else ["peak", "HFU"]
    rows: list[Sequence[str]] = []
    for name, one in found.items():
        if "step_s" not in one:
            continue
        row = [name, format_si(one["predicted_s"], "s"), format_si(one["step_s"], "s"),
               format_si(one["tokens_per_s"], ""), f"{one['mfu']:.1%}", f"{one['bits_per_byte']:.3f}",
               format_si(one["predicted_bytes"], "B")]  # fmt: skip
        row += ([format_si(one["flops"], ""), format_si(one["bytes"], "B"), str(one["launches"])] if counted else
                [format_si(one["peak_bytes"], "B"), f"{one['hfu']:.1%}"])  # fmt: skip
        rows.append(row)
    lines = [render_text(head, rows), ""]
    lines += [f"{name}: left out, {one['skipped']}." for name, one in found.items() if "skipped" in one]
    lines += [f"{name}: {one['error']}" for name, one in found.items() if "error" in one]
    seconds = math.fsum(one.get("train_s", 0) + one.get("start_s", 0) for one in found.values())
    legend = "predicted, memory: by the cost model. MFU: of the measured ceiling."
    legend += " FLOP, bytes, operations: counted, of an eager step." if counted else ""
    lines.append(f"{legend} {seconds:.0f} s of training and compiling in all.")
    if told := beyond(max((max(one["mfu"], one["hfu"]) for one in found.values() if "step_s" in one), default=0)):
        lines.append(told)
    return "\n".join(lines)
