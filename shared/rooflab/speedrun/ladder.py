"""The command `rooflab speedrun ladder`: what does each rung do on this device, and what should it have done?

>>> print(list_rungs(width=60).splitlines()[0])
rung              | time | memory | loss | why
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..book import results_root
from ..files import output_folder
from ..plaintext import terminal_width
from ..progress import Progress
from ..tables import render_text
from ..units import format_si
from .asked import check_device, check_installed, check_left, check_text, names, positive, switches
from .config import Config, ConfigError
from .neighbours import NOTED, disturbed_among
from .race import Race, common_target, families, judge, judged, raced_cells, raced_legend

if TYPE_CHECKING:
    from .commands import Here
    from .rungs import Selection

__all__ = ["add_ladder_options", "counted_step", "list_rungs", "measured_rung", "run_ladder", "table"]

_TWIN = "muon"  # the rung up to which the twin in JAX stands beside torch's ladder
_TOKENS = 2_621_440  # of each rung on an accelerator: 160 steps of the baseline, 40 of the larger batch


def add_ladder_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab speedrun ladder`."""
    from .commands import add_run_options

    parser.set_defaults(call=run_ladder)
    add_run_options(parser)
    parser.add_argument(
        "--only",
        type=names,
        default=[],
        metavar="A,B",
        help="climb up to A and up to B, with all rungs below each (in a run: these two alone)",
    )
    parser.add_argument("--without", type=names, default=[], metavar="A,B", help="leave these out of every run")
    parser.add_argument("--tokens", type=positive(int), metavar="N", help="that each rung trains on")
    parser.add_argument("--target", type=positive(float), metavar="BPB", help="tell the time to these bits per byte")
    parser.add_argument("--seeds", type=positive(int), default=1, metavar="N",
                        help="that train to the target (default: to what all rungs reach)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print each rung as JSON, and nothing else")
    parser.add_argument("--record", action="store_true", help="keep the results among the records, too")


def list_rungs(width: int | None = None) -> str:
    """All rungs as a table: what each should do to step time, memory and loss, and why."""
    from .rungs import RUNGS

    signs = {"less": "-", "same": "=", "more": "+"}
    width = width or terminal_width()
    rows = [[rung.name, signs[rung.step_time], signs[rung.memory], signs[rung.loss],
             rung.why + (f" ({rung.source})" if rung.source else "")] for rung in RUNGS]  # fmt: skip
    table = render_text(["rung", "time", "memory", "loss", "why"], rows, width=width, wrap=True)
    note = ("- less, = about the same, + more; each on top of those above it. The forecast counts bytes and FLOPs; "
            "it sees neither exponentials nor how well a compiler writes a kernel.")  # fmt: skip
    return f"{table}\n\n{textwrap.fill(note, min(width, 100))}"


def run_ladder(options: argparse.Namespace) -> int:
    """Train every rung for as many tokens, print a table, and leave a record; returns the exit code."""
    from ..records import save_record
    from .commands import find_config, here
    from .ranks import Ranks
    from .rungs import RUNGS, find_rung

    for name in (*options.only, *options.without):
        find_rung(name)
    _check(options)
    check_installed(options.framework)
    place = here(options.data, options.device, Ranks())
    base = find_config(options, place.device).change(target=0.0)
    base = base.change(tokens=options.tokens or (_TOKENS if place.device.is_accelerator else base.tokens))
    asked = [(rung.name, options.framework) for rung in RUNGS
             if rung.name not in options.without and (not options.only or rung.name in options.only)]  # fmt: skip
    sees = place.device.jax is not None and (place.device.jax == "cpu") != place.device.is_accelerator
    if (_TWIN, "torch") in asked and sees:
        asked.append((_TWIN, "jax"))
    plans = [(rung, framework, _plan(rung, framework, base, options, place)) for rung, framework in asked]
    for *_, plan in plans:
        check_text(plan.config, options.only, place.data)
        check_device(plan.config, place.device)
    if not plans:
        raise ConfigError("expected a rung to be left: --only and --without leave none")
    check_left(options.only, {rung: plan.skipped[rung] for rung, _, plan in plans if rung in plan.skipped})
    place.measure(quiet=options.json)
    _compile(plans, options, place)
    values: dict[str, Any] = {"preset": base.preset, "tokens": base.tokens, "data": place.data.name}
    values |= {"digest": place.data.digest}
    found, kept = _climb(plans, place, options, values)
    if not options.json:
        print(table(found, counted=not place.device.is_accelerator, target=values.get("target", 0.0)))
    if found:
        print(f"Kept in {kept}.", file=sys.stderr)
    if options.record:
        print(f"Recorded in {save_record('speedrun_ladder', values | {'rungs': found})}.", file=sys.stderr)
    return int(any("error" in one for one in found.values()))


def _check(options: argparse.Namespace) -> None:
    """Refuse what a ladder would have to ignore."""
    if (options.target or options.seeds > 1) and options.framework == "jax":
        raise ConfigError("expected --target and --seeds without --framework jax, which trains no seeds to a loss")
    if "target" in switches(options.set):
        raise ConfigError("expected --target in place of --set target: a ladder's runs do not stop there")


def _climb(
    plans: Sequence[tuple[str, str, Selection]], place: Here, options: argparse.Namespace, values: dict[str, Any]
) -> tuple[dict[str, dict[str, Any]], Path | None]:
    """Train what is planned, one rung after the other; returns the outcomes and the file that keeps them.

    Where a target or seeds are asked for, both come to `values`: the target of all is known when all have ended.
    """
    from ..records import save_record

    folder, kept = output_folder(options.out or results_root() / "speedrun"), None
    climbed = [rung for rung, framework, plan in plans if framework == "torch" and rung not in plan.skipped]
    racers = families(climbed) if options.target or options.seeds > 1 else {}
    bar, found = Progress("ladder", len(plans), unit="rung"), dict[str, dict[str, Any]]()
    for number, (rung, framework, plan) in enumerate(plans, 1):
        name = rung if framework == "torch" else f"{rung} in JAX"
        bar.name = f"ladder: {name}"
        bar.step(number)
        reason, config, race = plan.skipped.get(rung), plan.config, None
        if racers:
            trains = framework == "torch" and rung in racers
            race = Race(options.target or 0.0, config.seed, options.seeds) if trains else None
            config = judged(config, often=trains)
        found[name] = {"skipped": reason} if reason else measured_rung(config, place, framework, race)
        if options.json:
            print(json.dumps({"rung": name, **found[name]}), flush=True)
        if racers:
            values |= {"target": options.target or common_target(found), "seeds": options.seeds}
            found = judge(found, racers, values["target"])
        kept = save_record("speedrun_ladder", {**values, "rungs": found}, folder=folder)  # as it is: a ladder is long
    bar.close("measured")
    if racers and options.json:
        told = {name: {key: one[key] for key in ("arrivals", "missed", "steps_of") if key in one}
                for name, one in found.items() if "arrivals" in one}  # fmt: skip
        print(json.dumps({"target": values["target"], "rungs": told}), flush=True)
    return found, kept


def _plan(rung: str, framework: str, base: Config, options: argparse.Namespace, place: Here) -> Selection:
    """The ladder up to a rung, as this device and this framework can climb it."""
    from .rungs import select
    from .twin import narrowed

    chosen = select(base, up_to=rung, without=options.without, device=place.device, text=place.data)
    if framework == "jax":
        chosen = narrowed(chosen, base)
    return replace(chosen, config=chosen.config.change(**switches(options.set)))


def _compile(plans: Sequence[tuple[str, str, Selection]], options: argparse.Namespace, place: Here) -> None:
    """Compile torch's runs, several at a time, where an accelerator makes training shorter than compiling."""
    from .forecast import memory_bytes
    from .warming import at_a_time, compile_ahead, distinct

    ours = [plan.config for rung, framework, plan in plans if framework == "torch" and rung not in plan.skipped]
    wanted = distinct([config.of_text(place.data.vocabulary) for config in ours if config.compile != "no"])
    if not place.device.is_accelerator or len(wanted) < 2:
        return
    largest = max(map(memory_bytes, wanted))
    workers = at_a_time(largest, memory_bytes=place.device.memory_bytes, cores=os.cpu_count() or 1)
    if workers > 1:
        print(f"Compiling {len(wanted)} runs beforehand, {workers} at a time.", file=sys.stderr)
        compile_ahead(wanted, options.data, workers)


def measured_rung(config: Config, place: Here, framework: str = "torch", race: Race | None = None) -> dict[str, Any]:
    """Prediction and outcome of one run; of a run that fails, the sentence that says why.

    Args:
        config: the run.
        place: what it stands on.
        framework: "torch" or "jax".
        race: the target, and the seeds that train to it beside this run; None: the time to no target is asked for.
    """
    from .commands import trainer_of
    from .forecast import forecast
    from .session import free, used
    from .watch import Stopped

    config = config.of_text(place.data.vocabulary)
    assert place.ceilings is not None
    ahead = forecast(config, place.ceilings)
    told: dict[str, Any] = {"predicted_s": ahead.step_s, "predicted_bytes": ahead.memory_bytes, "regime": ahead.regime,
                            "config": config.to_dict()}  # fmt: skip
    free()
    try:
        if not place.device.is_accelerator:
            told |= counted_step(config, place) if framework == "torch" else counted_program(config, place)
        with_seeds: dict[str, Any] = {"then": race.others} if race else {}
        noted: dict[str, Any] = {}

        def say(line: dict[str, Any]) -> None:
            noted.update({key: line[key] for key in NOTED if key in line})
            if race:
                race.note(line)

        result = trainer_of(framework)(config, place.data, device=place.device, say=say, **with_seeds)
    except (MemoryError, Stopped, RuntimeError, ConfigError) as error:
        return told | {"error": str(error).splitlines()[0]}
    mfu, hfu = used(config, result.tokens_per_s, place.ceilings)
    return told | {
        "step_s": result.step_s, "tokens_per_s": result.tokens_per_s, "mfu": mfu, "hfu": hfu, "start_s": result.start_s,
        "train_s": result.train_s, "peak_bytes": result.peak_bytes, "bits_per_byte": result.bits_per_byte,
        "steps": result.steps,
    } | noted | (race.found() if race else {})  # fmt: skip


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


def counted_program(config: Config, place: Here) -> dict[str, Any]:
    """The same of a step in JAX, as XLA compiles it."""
    from ..counters import count
    from .twin.scope import refuse
    from .twin.train import Twin

    refuse(config)
    twin = Twin(config, place.data, place.device, lambda _: None)
    one = count(twin.compute, twin.params, twin.state, twin.batch(0), twin.share(0), world="jax", name="step")
    return {"flops": one.flops, "bytes": one.bytes, "launches": one.launches}


def table(found: Mapping[str, Mapping[str, Any]], *, counted: bool, target: float = 0.0) -> str:
    """The rungs side by side; those that were left out below, with their reasons.

    Args:
        found: outcomes by rung.
        counted: whether FLOPs, bytes and operations were.
        target: bits per byte, to which they were timed; 0: to none.
    """
    from .session import beyond

    head = ["rung", "predicted", "step", "tokens/s", "MFU", "bits/byte", "memory"]
    head += ["FLOP", "bytes", "operations"] if counted else ["peak", "HFU"]
    raced, before = any("arrivals" in one for one in found.values()), (list[float](), "")
    head += [f"to {target:.4g}", "p"] if raced else []
    rows: list[Sequence[str]] = []
    for name, one in found.items():
        if "step_s" not in one:
            continue
        row = [name, format_si(one["predicted_s"], "s"), format_si(one["step_s"], "s"),
               format_si(one["tokens_per_s"], ""), f"{one['mfu']:.1%}", f"{one['bits_per_byte']:.3f}",
               format_si(one["predicted_bytes"], "B")]  # fmt: skip
        row += ([format_si(one["flops"], ""), format_si(one["bytes"], "B"), str(one["launches"])] if counted else
                [format_si(one["peak_bytes"], "B"), f"{one['hfu']:.1%}"])  # fmt: skip
        if raced:
            cells, before = raced_cells(name, one, before)
            row += cells
        rows.append(row)
    lines = [render_text(head, rows), ""]
    lines += [f"{name}: left out, {one['skipped']}." for name, one in found.items() if "skipped" in one]
    lines += [f"{name}: {one['error']}" for name, one in found.items() if "error" in one]
    seconds = math.fsum(one.get("train_s", 0) + one.get("start_s", 0) for one in found.values())
    legend = "predicted, memory: by the cost model. MFU: of the measured ceiling of the products' format."
    legend += raced_legend(found, target) if raced else ""
    legend += " FLOP, bytes, operations: counted, of an eager step; in JAX of a compiled one." if counted else ""
    lines.append(f"{legend} {seconds:.0f} s of training and compiling in all.")
    if told := disturbed_among({name: [one] for name, one in found.items()}):
        lines.append(told)
    if told := beyond(max((max(one["mfu"], one["hfu"]) for one in found.values() if "step_s" in one), default=0)):
        lines.append(told)
    return "\n".join(lines)
