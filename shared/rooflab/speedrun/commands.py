"""The command `rooflab speedrun`: one run, its rungs chosen by name.

>>> import argparse
>>> parser = argparse.ArgumentParser(); add_speedrun_options(parser)
>>> parser.parse_args(["--only", "bf16,muon", "--steps", "20"]).only
['bf16', 'muon']
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import output_folder
from .asked import check_device, check_installed, check_left, check_resume, check_text, names, positive, switches
from .config import PRESETS, Config, ConfigError, preset
from .ending import finish
from .teller import Teller

if TYPE_CHECKING:
    from ..device import Device
    from ..roofline import Ceilings
    from .data import Corpus
    from .pace import Result
    from .ranks import Ranks

__all__ = ["Here", "Teller", "add_run_options", "add_speedrun_options", "find_config", "here", "speedrun",
           "trainer_of"]  # fmt: skip


def add_speedrun_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab speedrun` and its further commands."""
    from .compare import add_compare_options
    from .data.commands import add_data_commands
    from .ladder import add_ladder_options
    from .leaderboard import add_leaderboard_options

    rungs = parser.add_mutually_exclusive_group()
    rungs.add_argument("--rung", default="", metavar="R", help="the baseline and this rung")
    rungs.add_argument("--up-to", default="", metavar="R", help="all rungs up to this one")
    rungs.add_argument("--only", type=names, default=[], metavar="A,B", help="the baseline and these rungs")
    rungs.add_argument("--list", action="store_true", help="name all rungs, and what each of them is for")
    parser.add_argument("--without", type=names, default=[], metavar="A,B", help="leave these out")
    add_run_options(parser)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=positive(int), metavar="N", help="updates (default: the preset's tokens)")
    length.add_argument("--minutes", type=positive(float), metavar="M", help="so long, by a trial of a few steps")
    parser.add_argument("--target", type=positive(float), metavar="BPB", help="stop at these bits per byte")
    parser.add_argument("--batch", type=positive(int), metavar="N", help="sequences of each rank and step")
    parser.add_argument("--seeds", type=positive(int), default=1, metavar="N", help="one run for each of N seeds")
    parser.add_argument(
        "--save-every", type=positive(int), default=0, metavar="N", help="steps (default: once a minute)"
    )
    parser.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run in this folder")
    parser.add_argument("--json", action="store_true", help="print each line of the log as JSON, and nothing else")
    actions = parser.add_subparsers(dest="action", metavar="ladder, compare, leaderboard, data")
    add_ladder_options(actions.add_parser("ladder", help="run all rungs, each on top of those before it"))
    add_compare_options(actions.add_parser("compare", help="tell two runs, or two groups of runs, apart"))
    add_leaderboard_options(actions.add_parser("leaderboard", help="rank runs by their time to the target, on a page"))
    add_data_commands(actions)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add what a run and a ladder have in common."""
    parser.add_argument("--preset", choices=tuple(PRESETS), help="shape and budget (default: as the device asks)")
    parser.add_argument("--data", metavar="NAME", help="stdlib, code or fineweb (default: as the device asks)")
    parser.add_argument("--seed", type=int, default=0, metavar="N",
                        help="of initial values and the order of the text (default: 0)")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for what the run leaves")
    parser.add_argument("--device", choices=("auto", "cpu"), default="auto", help="cpu: leave the accelerator alone")
    parser.add_argument(
        "--framework", choices=("torch", "jax"), default="torch", help="jax: the twin, with fewer rungs"
    )
    parser.add_argument("--set", action="append", default=[], metavar="SWITCH=VALUE", help="any switch of a config")


class Here:
    """What a run stands on: the device, the text, the ceilings, this process among others."""

    def __init__(self, device: Device, data: Corpus, ceilings: Ceilings | None, ranks: Ranks) -> None:
        self.device, self.data, self.ceilings, self.ranks = device, data, ceilings, ranks

    def measure(self, *, quiet: bool = False) -> None:
        """Measure the ceilings where that was not done (once, by the first rank); before it, nothing has been."""
        from ..ceilings import measured_ceilings

        say = None if quiet else lambda what: print(f"Measuring once what this device can do: {what}", file=sys.stderr)
        if self.ceilings is None and self.ranks.first:
            with contextlib.redirect_stdout(sys.stderr):  # what it remarks is no line of a log
                self.ceilings = measured_ceilings(self.device, say=say)


def here(data: str | None, device: str, ranks: Ranks) -> Here:
    """Find the device and the text."""
    if device == "cpu":
        os.environ["ROOFLAB_DEVICE"] = "cpu"
    from ..device import find_device
    from .data import corpus

    return Here(find_device(), corpus(data), None, ranks)


def find_config(options: argparse.Namespace, device: Device) -> Config:
    """The baseline that the options ask for, before any rung."""
    config = preset(options.preset or ("gpt2-small" if device.is_accelerator else "tiny"))
    changes: dict[str, Any] = {"seed": options.seed}
    changes |= {name: value for name in ("steps", "target", "batch") if (value := getattr(options, name, None))}
    return config.change(**changes)


def speedrun(options: argparse.Namespace) -> int:
    """Train as the options say, print what came of it, and leave a folder; returns the exit code."""
    from .ladder import list_rungs
    from .ranks import joined

    if options.action:
        return int(options.call(options))
    if options.list:
        print(list_rungs())
        return 0
    if options.resume:
        check_resume(options)
    check_installed(options.framework)
    with joined("gloo" if options.device == "cpu" else "") as ranks:
        return _resume(options, ranks) if options.resume else _run(options, ranks)


def _run(options: argparse.Namespace, ranks: Ranks) -> int:
    from .interrupted import stopped_early
    from .rungs import RUNGS, select
    from .session import free, opening, steps_in
    from .twin import narrowed

    place = here(options.data, options.device, ranks)
    up_to = options.up_to or ("" if options.rung or options.only else RUNGS[-1].name)
    base, train = find_config(options, place.device), trainer_of(options.framework)
    chosen = select(base, rung=options.rung, up_to=up_to, only=options.only, without=options.without,
                    device=place.device, text=place.data)  # fmt: skip
    chosen = narrowed(chosen, base) if options.framework == "jax" else chosen
    config = chosen.config.change(**switches(options.set))
    check_text(config, (options.rung, *options.only), place.data)
    check_device(config, place.device)
    check_left((options.rung, *options.only), chosen.skipped)
    for name, reason in chosen.skipped.items():
        _tell(options, ranks, f"The rung {name} is left out: {reason}.")
    if options.minutes and options.framework == "jax":
        raise ConfigError(
            "expected --steps with --framework jax; found --minutes, whose trial of a few steps is torch's"
        )
    place.measure(quiet=options.json)
    if options.minutes:
        config = config.change(steps=steps_in(config, place.data, options.minutes, device=place.device, ranks=ranks))
    out = _folder(options.out, ranks)
    results = []
    for number in range(options.seeds):
        seeded = config.change(seed=config.seed + number)
        folder = out / f"seed-{seeded.seed}" if options.seeds > 1 else out
        _tell(options, ranks, opening(seeded, place.data, ranks.world))
        stop = stopped_early(folder, ranks, resumable=options.framework == "torch")
        with stop, Teller(seeded, place, as_json=options.json) as teller:
            results.append(train(
                seeded, place.data, device=place.device, ranks=ranks, folder=_made(folder, ranks), say=teller,
                save_every=options.save_every, ceilings=place.ceilings,
            ))  # fmt: skip
        finish(folder, results[-1], place, seeded, as_json=options.json)
        free()
    if len(results) > 1:
        bits = [result.bits_per_byte for result in results]
        _tell(options, ranks, f"{len(bits)} seeds: {statistics.fmean(bits):.4f} bits per byte, standard deviation "
                              f"{statistics.stdev(bits):.4f}; in {out}")  # fmt: skip
    return 0


def trainer_of(framework: str) -> Callable[..., Result]:
    """What trains: `session.run_once`, or the twin in JAX."""
    from .session import run_once
    from .twin import run_twin

    return run_twin if framework == "jax" else run_once


def _resume(options: argparse.Namespace, ranks: Ranks) -> int:
    from .checkpoint import NAME
    from .folder import RunFolder
    from .interrupted import stopped_early

    kept = RunFolder(options.resume)
    config = kept.config()
    if kept.ended():
        raise ConfigError(f"The run in {options.resume} has ended: there is nothing to go on with.")
    if kept.framework() != "torch":
        raise ConfigError(
            f"The run in {options.resume} is of the twin in JAX, which keeps no checkpoints: begin it again with "
            "another --out."
        )
    place = here(kept.data_name(), options.device, ranks)
    check_text(config, (), place.data)
    check_device(config, place.device)
    place.measure(quiet=options.json)
    begun = (options.resume / NAME).is_file()
    _tell(options, ranks, "Going on from the last checkpoint." if begun else
           "No checkpoint was written before the run stopped: it begins again.")  # fmt: skip
    stop = stopped_early(options.resume, ranks, resumable=options.framework == "torch")
    with stop, Teller(config, place, as_json=options.json) as teller:
        result = trainer_of(options.framework)(
            config, place.data, device=place.device, ranks=ranks, folder=options.resume, resume=True, say=teller,
            save_every=options.save_every, ceilings=place.ceilings,
        )  # fmt: skip
    finish(options.resume, result, place, config, as_json=options.json)
    return 0


def _folder(given: Path | None, ranks: Ranks) -> Path:
    """Where the run leaves its results: the folder that was given, or the next one of its own, the same for all."""
    from ..book import results_root

    if given is not None:
        return given
    parent = results_root() / "speedrun"
    number = 1 + max((int(path.name[4:]) for path in parent.glob("run-*") if path.name[4:].isdigit()), default=0)
    if ranks.world > 1:
        import torch

        where = "cuda" if torch.cuda.is_available() and torch.distributed.get_backend() == "nccl" else "cpu"
        number = int(ranks.from_first(torch.tensor(number, device=where)))
    return parent / f"run-{number:03d}"


def _made(folder: Path, ranks: Ranks) -> Path:
    if ranks.first:
        output_folder(folder)
    ranks.wait()
    return folder


def _tell(options: argparse.Namespace, ranks: Ranks, sentence: str) -> None:
    if ranks.first:
        print(sentence, file=sys.stderr if options.json else sys.stdout)
