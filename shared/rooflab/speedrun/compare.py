"""The command `rooflab speedrun compare A B`: in what do two runs differ, what came of it, and is it more than chance?

>>> _shown({"rungs": None, "compile": True}["rungs"]), _shown(0.0006), _shown("bf16")
('-', '0.0006', 'bf16')
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from ..book import results_root
from ..files import output_folder
from ..plaintext import terminal_width
from ..tables import render_text
from ..units import format_si
from .asked import positive
from .finished import Group, Run, RunsError, common_target, differences, one_group, read_runs
from .neighbours import disturbed_among
from .sidebyside import draw, free_name, label
from .significance import LEVEL, Verdict, compared, least_p

__all__ = ["add_compare_options", "compare", "mean_text", "verdict_text"]

_MOMENTS = (0.25, 0.5, 0.75, 1.0)


def add_compare_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab speedrun compare`."""
    what = "folder of a run, or folder with runs of several seeds; or such folders with commas between them"
    parser.set_defaults(call=compare)
    parser.add_argument("a", metavar="A", help=what)
    parser.add_argument("b", metavar="B", help="likewise")
    parser.add_argument("--target", type=positive(float), metavar="BPB",
                        help="bits per byte to which the time is taken (default: what all runs reached)")  # fmt: skip
    drawn = "where the curves are drawn (.svg or .png; default: .rooflab/speedrun/compare.svg, or compare-2.svg, ...)"
    parser.add_argument("--figure", type=Path, metavar="FILE", help=drawn)
    parser.add_argument("--json", action="store_true", help="print everything as JSON, and nothing else")


def compare(options: argparse.Namespace) -> int:
    """Compare two groups of runs: print tables and the test, draw the curves; returns the exit code."""
    a, b = (_group(text, name) for text, name in ((options.a, "A"), (options.b, "B")))
    figure = options.figure or free_name(results_root() / "speedrun" / "compare.svg")
    if figure.suffix not in (".svg", ".png"):
        raise RunsError(f"expected a figure whose name ends in .svg or .png; found {figure}")
    same = a.first.text == b.first.text
    target = options.target or common_target([a, b])
    path = output_folder(figure.parent) / figure.name
    own = _own_rungs(a, b)
    labels = [f"{name}: {label(*sides)}" for name, *sides in
              (("A", own[0], own[1], a, options.a), ("B", own[1], own[0], b, options.b))]  # fmt: skip
    draw(path, {"A": a, "B": b}, target if same else 0.0, labels)
    if options.json:
        print(json.dumps(_values(a, b, target if same else None)))
        return 0
    width = terminal_width()
    print("\n\n".join(filter(None, (
        _configs(a, b, width),
        _outcomes(a, b, target if same else None),
        _moments(a, b) if same else "",
        _judged(a, b, target) if same else "The runs looked at different texts or windows of them: losses, and times "
        "to a loss, are not compared.",
        disturbed_among({name: [run.outcome for run in some.runs] for name, some in (("A", a), ("B", b))}),
        f"The curves are in {path}.",
    ))))  # fmt: skip
    return 0


def _group(text: str, name: str) -> Group:
    """The group that one argument names: a folder, or several with commas between them."""
    paths = [Path(text)] if Path(text).exists() or "," not in text else [Path(part) for part in text.split(",") if part]
    return one_group([run for path in paths for run in read_runs(path)], f"{name} ({text})")


# --- what differs


def _configs(a: Group, b: Group, width: int) -> str:
    """The fields that differ, and what else does."""
    rows = [[name, *map(_shown, pair)] for name, pair in _differences(a, b).items()]
    only = [", ".join(own) or "-" for own in _own_rungs(a, b)]
    rows += [["rungs of its own", *only]] if only != ["-", "-"] else []
    told: dict[str, Callable[[Run], str]] = {
        "framework": lambda run: run.framework, "device": lambda run: run.device, "code": lambda run: run.code,
        "text": lambda run: f"{run.told['data'].get('name')} {run.told['data'].get('digest', '')[:10]}",
    }  # fmt: skip
    rows += [[name, read(a.first), read(b.first)] for name, read in told.items() if read(a.first) != read(b.first)]
    if not rows:
        return "A and B have one config, one device and one version of the code."
    return render_text(["differs", "A", "B"], rows, width=width)


def _differences(a: Group, b: Group) -> dict[str, tuple[Any, Any]]:
    """The fields of the configs that differ; steps as they were trained, where the preset's tokens gave them."""
    found = differences(a.first.config, b.first.config)
    if "steps" in found:
        found["steps"] = (a.first.steps, b.first.steps)
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


def _own_rungs(a: Group, b: Group) -> tuple[list[str], list[str]]:
    """The rungs of each that the other has not."""
    one, other = a.first.rungs, b.first.rungs
    return [name for name in one if name not in other], [name for name in other if name not in one]


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _outcomes(a: Group, b: Group, target: float | None) -> str:
    rows = [["seeds", *(_seeds(group) for group in (a, b)), ""]]

    def row(name: str, unit: str, values: Callable[[Group], Sequence[float]], *, bound: bool = False) -> None:
        found = [values(group) for group in (a, b)]
        means = [fmean(some) if some else 0.0 for some in found]
        few = [f" ({len(some)} of {len(group.runs)})" if 0 < len(some) < len(group.runs) else ""
               for some, group in zip(found, (a, b), strict=True)]  # fmt: skip
        # The mean of those that came there says nothing of those that did not.
        # Where the first evaluation is below the target already, nobody knows when the run came there.
        most = ["at most " if bound and group.late(target or 0.0) else "" for group in (a, b)]
        ratio = f"{means[1] / means[0]:.3g}" if all(means) and not any(few) and not any(most) else ""
        told = [at + mean_text(some, unit) + of for at, some, of in zip(most, found, few, strict=True)]
        rows.append([name, *told, ratio])

    if target is not None:
        row("bits per byte at the end", "", partial(_numbers, "bits_per_byte"))
        row(f"time to {target:.4g} bits per byte", "s", lambda group: group.times_s(target), bound=True)
        row("steps to it", "", lambda group: [found[1] for run in group.runs if (found := run.reached(target))],
            bound=True)  # fmt: skip
    for key, name, unit in (("train_s", "training", "s"), ("step_s", "a step", "s"),
                            ("tokens_per_s", "tokens a second", ""), ("peak_bytes", "peak memory", "B")):  # fmt: skip
        if any(run.outcome[key] for group in (a, b) for run in group.runs):
            row(name, unit, partial(_numbers, key))
    return render_text(["", "A", "B", "B / A"], rows) + "\n\nMean ± standard deviation over seeds."


def _numbers(key: str, group: Group) -> list[float]:
    return [run.outcome[key] for run in group.runs]


def _seeds(group: Group) -> str:
    return f"{len(group.runs)} ({', '.join(str(run.config['seed']) for run in group.runs)})"


def mean_text(values: Sequence[float], unit: str) -> str:
    """The mean, and the standard deviation where there are two values or more."""
    if not values:
        return "never"
    spread = f" ± {format_si(stdev(values), unit, digits=2)}" if len(values) > 1 else ""
    return format_si(fmean(values), unit, digits=4) + spread


def _moments(a: Group, b: Group) -> str:
    """Mean validation losses at quarters of the time, and of the steps, that both groups trained for."""
    lines = []
    for name, unit, key in (("time", "s", "times_s"), ("steps", "", "steps")):
        last = min(getattr(run.curve, key)[-1] for group in (a, b) for run in group.runs)
        first = max(getattr(run.curve, key)[0] for group in (a, b) for run in group.runs)
        if first < last:
            for share in _MOMENTS:
                if (at := share * last) >= first:
                    lines.append([f"{format_si(at, unit)} of {name}" if unit else f"{at:.0f} {name}",
                                  *(f"{_at(group, key, at):.4f}" for group in (a, b))])  # fmt: skip
    return render_text(["bits per byte after", "A", "B"], lines) if lines else ""


def _at(group: Group, key: str, where: float) -> float:
    return fmean(float(np.interp(where, getattr(run.curve, key), run.curve.bits)) for run in group.runs)


# --- whether it is more than chance


def _judged(a: Group, b: Group, target: float) -> str:
    for name, group in (("A", a), ("B", b)):
        if lacking := len(group.runs) - len(group.times_s(target)):
            least = math.ceil(1e4 * max(min(run.curve.bits) for one in (a, b) for run in one.runs)) / 1e4
            return (f"{lacking} of {len(group.runs)} runs of {name} never came to {target:.4g} bits per byte, so there "
                    f"is no test; all came to --target {least:g}.")  # fmt: skip
    if late := [name for name, group in (("A", a), ("B", b)) if group.late(target)]:
        return (f"When {' and '.join(late)} came to {target:.4g} bits per byte is not known, so there is no test: the "
                "first evaluation was below that already, and the time in the table is the most that it can be. Train "
                "with --set eval_every=N, N being a few steps.")  # fmt: skip
    coarse = any(len(run.curve.bits) < 3 for group in (a, b) for run in group.runs)
    hint = " A run was evaluated fewer than three times: with --set eval_every=N the time says more." if coarse else ""
    return f"Time to {target:.4g} bits per byte: {verdict_text(a.times_s(target), b.times_s(target))}{hint}"


def verdict_text(a: Sequence[float], b: Sequence[float], names: tuple[str, str] = ("A", "B")) -> str:
    """What the times of two groups say, in sentences: the difference, p, the seeds, and how many more are needed."""
    difference = fmean(b) - fmean(a)
    which = f"{names[1]} takes {format_si(abs(difference), 's')} {'more' if difference > 0 else 'less'}"
    verdict = compared(a, b)
    if verdict is None:
        lone = f"one seed of {' and of '.join(n for n, some in zip(names, (a, b), strict=True) if len(some) < 2)}"
        return (f"{which}. With {lone} nothing can be said about chance: train two seeds of each at least, and five "
                f"to reach p < {LEVEL:g}.")  # fmt: skip
    half = (verdict.high - verdict.low) / 2
    told = (f"{which} (± {format_si(half, 's', digits=2)} with 95 % confidence). p = {verdict.p:.2g} by the "
            f"{'exact ' if verdict.exact else ''}permutation test, {verdict.welch_p:.2g} by Welch's, with {len(a)} and "
            f"{len(b)} seeds: ")  # fmt: skip
    return told + _asked(verdict, len(a), len(b), names)


def _asked(verdict: Verdict, n: int, m: int, names: tuple[str, str]) -> str:
    if verdict.significant:
        return f"more than chance (p < {LEVEL:g})."
    least = least_p(n, m)
    few = f" so few seeds cannot give less than {least:.2g};" if least >= LEVEL else ""
    if verdict.needed is None:
        return f"not told from chance;{few} as the times lie, no reasonable number of seeds would."
    more = " and ".join(f"{max(verdict.needed - have, 0)} of {name}" for have, name in zip((n, m), names, strict=True))
    return f"not told from chance;{few} with means and spreads like these it would take {more} more."


def _values(a: Group, b: Group, target: float | None) -> dict[str, Any]:
    """The same for machines."""
    found: dict[str, Any] = {"differences": _differences(a, b), "target": target}
    for name, group in (("a", a), ("b", b)):
        found[name] = {
            "folders": [str(run.path) for run in group.runs], "seeds": [run.config["seed"] for run in group.runs],
            "outcomes": [dict(run.outcome) for run in group.runs],
            "times_s": None if target is None else group.times_s(target),
        }  # fmt: skip
    if target is not None and all(len(found[name]["times_s"]) == len(found[name]["seeds"]) for name in "ab"):
        verdict = compared(found["a"]["times_s"], found["b"]["times_s"])
        found["test"] = verdict and {"p": verdict.p, "welch_p": verdict.welch_p, "difference_s": verdict.difference,
                                     "interval_s": [verdict.low, verdict.high], "needed": verdict.needed}  # fmt: skip
    return found
