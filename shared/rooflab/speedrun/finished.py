"""What came of runs that have ended, and in what do two of them differ? Read from the folders that they left.

>>> differences({"precision": "fp32", "seed": 0}, {"precision": "bf16", "seed": 1})
{'precision': ('fp32', 'bf16')}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from .config import ConfigError, from_dict

__all__ = ["Curve", "Group", "Run", "RunsError", "common_target", "differences", "grouped", "one_group", "read_runs"]

_NOT_ASKED = ("seed", "target", "log_every", "threads")  # they do not make a run another one
_WANTED: dict[str, tuple[tuple[str, type | tuple[type, ...]], ...]] = {
    "config.json": (("preset", str), ("rungs", list), ("seed", int), ("target", (int, float)), ("length", int),
                    ("eval_tokens", int)),
    "version.json": (("device", dict), ("data", dict), ("versions", dict), ("ranks", int), ("rooflab", str)),
    "summary.json": (("steps", int), ("bits_per_byte", (int, float)), ("train_s", (int, float)),
                     ("step_s", (int, float)), ("tokens_per_s", (int, float)), ("peak_bytes", (int, float))),
}  # fmt: skip


class RunsError(ValueError):
    """A folder holds no run that can be compared; one sentence says which, and why."""


@dataclass(frozen=True)
class Curve:
    """Validation loss in bits per byte after so many steps and seconds of training."""

    steps: tuple[int, ...]
    times_s: tuple[float, ...]
    bits: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Run:
    """One run that has ended.

    Attributes:
        path: its folder.
        config, told, outcome: what `config.json`, `version.json` and `summary.json` say.
        curve: its evaluations.
    """

    path: Path
    config: Mapping[str, Any]
    told: Mapping[str, Any]
    outcome: Mapping[str, Any]
    curve: Curve

    @property
    def framework(self) -> str:
        """ "torch" or "jax"."""
        return str(self.told.get("framework", "torch"))

    @property
    def device(self) -> str:
        """The device's name, and how many of it."""
        ranks = self.told["ranks"]
        return str(self.told["device"].get("name", "")) + (f" × {ranks}" if ranks > 1 else "")

    @property
    def code(self) -> str:
        """Rooflab's version and commit."""
        return " ".join(filter(None, (self.told["rooflab"], str(self.told.get("commit", "")))))

    @property
    def rungs(self) -> tuple[str, ...]:
        """What was switched on."""
        return tuple(self.config["rungs"])

    @property
    def text(self) -> tuple[Any, ...]:
        """What two runs must share for their losses to be comparable: the text's digest, the windows looked at."""
        return (self.told["data"].get("digest", ""), self.config["length"], self.config["eval_tokens"])

    @property
    def steps(self) -> int:
        """Steps that it was to train for, also where they followed from the preset's tokens."""
        try:
            return from_dict(self.config).all_steps(self.told["ranks"])
        except (ConfigError, TypeError):  # of another version
            return int(self.outcome["steps"])

    def reached(self, target: float) -> tuple[float, int] | None:
        """Seconds of training and steps at the first evaluation at the target or below; None: there was none."""
        curve = self.curve
        return next(((t, s) for t, s, bits in zip(curve.times_s, curve.steps, curve.bits, strict=True)
                     if bits <= target), None)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ in their seeds alone, in the order of these."""

    runs: tuple[Run, ...]

    @property
    def first(self) -> Run:
        """The one that stands for all where they do not differ."""
        return self.runs[0]

    def mean(self, key: str) -> float:
        """The mean of a number of the outcome."""
        return fmean(run.outcome[key] for run in self.runs)

    def times_s(self, target: float) -> list[float]:
        """Seconds to the target of those that reached it."""
        return [found[0] for run in self.runs if (found := run.reached(target))]

    def late(self, target: float) -> bool:
        """Whether a run was below the target at its first evaluation: its time is only the most that it can be."""
        return any(run.curve.bits[0] < target for run in self.runs)


def read_runs(path: Path, *, leave_out: Callable[[str], None] | None = None) -> tuple[Run, ...]:
    """The runs in a folder: that of one run, or one that has folders of runs in it, such as `--seeds` makes.

    Args:
        path: the folder.
        leave_out: is told why a run is of no use, and the others are returned; None: such a run is an error.

    Raises:
        RunsError: there is none; or one has not ended, or a file of one cannot be read.
    """
    here = [path] if (path / "config.json").is_file() else []
    found = here or (sorted(file.parent for file in path.glob("**/config.json")) if path.is_dir() else [])
    if not found:
        what = "there is no such folder" if not path.exists() else "there is no run in it"
        raise RunsError(f"{path}: {what}; expected a folder that `rooflab speedrun` made, or one with such folders.")
    runs = []
    for folder in found:
        try:
            runs.append(_read(folder))
        except RunsError as error:
            if leave_out is None:
                raise
            leave_out(str(error))
    return tuple(runs)


def _read(folder: Path) -> Run:
    if not (folder / "summary.json").is_file():
        raise RunsError(f"The run in {folder} has not ended: go on with it (rooflab speedrun --resume {folder}).")
    config, told, outcome = (_values(folder / name) for name in _WANTED)
    return Run(folder, config, told, outcome, _curve(folder / "log.jsonl"))


def _values(path: Path) -> Mapping[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise RunsError(f"{path} is missing or damaged: leave this run out, or make it again.") from None
    for name, kinds in _WANTED[path.name]:
        if not isinstance(values, dict) or not isinstance(values.get(name), kinds):
            raise RunsError(f"{path} does not say {name} as a run's does: leave this run out, or make it again.")
    return values


def _curve(path: Path) -> Curve:
    points = []
    try:
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            if line.get("bits_per_byte") is not None:
                points.append((int(line["step"]), float(line["time_s"]), float(line["bits_per_byte"])))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise RunsError(f"{path} is missing or damaged: leave this run out, or make it again.") from None
    if not points:
        raise RunsError(f"{path} holds no validation loss: leave this run out, or make it again.")
    steps, times, bits = zip(*points, strict=True)
    return Curve(steps, times, bits)


def _sameness(run: Run) -> tuple[Any, ...]:
    """What runs of one group have in common."""
    config = {name: value for name, value in run.config.items() if name not in _NOT_ASKED}
    return (run.text, run.framework, run.device, run.code, json.dumps(config, sort_keys=True))


def grouped(runs: Iterable[Run], *, by_target: bool = True) -> list[Group]:
    """Runs of one config, device and version of the code together; of two with one seed the later one counts.

    Args:
        runs: to be grouped.
        by_target: whether another target makes another group; it changes where a run stops, and nothing before.
    """
    by_kind: dict[Any, dict[int, Run]] = {}
    for run in sorted(runs, key=lambda run: str(run.told.get("date", ""))):
        by_kind.setdefault((_sameness(run), by_target and run.config["target"]), {})[run.config["seed"]] = run
    return [Group(tuple(some[seed] for seed in sorted(some))) for some in by_kind.values()]


def one_group(runs: Sequence[Run], name: str) -> Group:
    """All these runs as one group.

    Raises:
        RunsError: they differ in more than their seeds, or a seed is there twice.
    """
    seeds = [run.config["seed"] for run in runs]
    if len(set(seeds)) < len(seeds):
        twice = next(run for run in runs if seeds.count(run.config["seed"]) > 1)
        raise RunsError(f"{name} has the seed {twice.config['seed']} twice ({twice.path}): a repeat is no new sample.")
    groups = grouped(runs)
    if len(groups) > 1:
        a, b = groups[0].first, groups[1].first
        what = ", ".join(differences(a.config, b.config)) or "device, text or version of the code"
        raise RunsError(f"{name} holds runs of more than one kind ({a.path} and {b.path} differ in {what}).")
    return groups[0]


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The fields in which two configs differ, seed and names of rungs aside; a value that is not there is None."""
    names = dict.fromkeys(name for name in (*a, *b) if name not in ("seed", "rungs"))
    return {name: (a.get(name), b.get(name)) for name in names if a.get(name) != b.get(name)}


def common_target(groups: Sequence[Group]) -> float:
    """The target of all runs where they have one and the same; else the lowest loss that every one of them reached."""
    runs = [run for group in groups for run in group.runs]
    asked = {run.config["target"] for run in runs}
    return asked.pop() if len(asked) == 1 and asked != {0} else max(min(run.curve.bits) for run in runs)
