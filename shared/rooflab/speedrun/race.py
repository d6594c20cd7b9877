"""How long does each rung of a ladder take to one loss, and is its gain more than chance?

Rungs that change how a step is computed, and not what, have the same losses but for rounding (and padding has other
initial values): those that follow one another are a family, of which the last one, the fastest, trains with several
seeds. Of the others the time is an estimate: as many steps, each of its own length.

>>> family("compile"), family("graph"), family("rms-norm")
('baseline', 'batch', 'rms-norm')
>>> inferred({"step_s": 2.0}, {"arrivals": [[10, 5.0], [12, 6.0]], "missed": 0}, "loader")["arrivals"]
[[10, 20.0], [12, 24.0]]
>>> common_target({"muon": {"evaluations": [[[4, 0.1, 2.5], [8, 0.2, 2.0]], [[4, 0.1, 2.2]]]}})
2.2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .config import Config, preset
from .rungs import RUNGS, Rung
from .seeds import arrival, other_seeds
from .significance import compared, least_p

if TYPE_CHECKING:
    from .train import Trainer

__all__ = [
    "Race", "common_target", "families", "family", "inferred", "judge", "judged", "raced_cells", "raced_legend",
    "same_losses",
]  # fmt: skip

_TOKENS, _EVALUATIONS = 65_536, 50  # of each evaluation, and how many a run has: how fine the time is
# What these switches change is how a step is computed.
_EXECUTION = {
    "precision", "padded_vocabulary", "attention", "compile", "loss", "fused_optimizer", "loader", "graph", "rotation",
    "mlp",
}  # fmt: skip


def same_losses(rung: Rung) -> bool:
    """Whether a rung's losses are those of the rung before it, but for rounding and initial values."""
    exact = rung.loss == "same" and rung.change.get("attention") != "window"
    return exact and bool(rung.change) and set(rung.change) <= _EXECUTION


def family(name: str) -> str:
    """Return the first of the rungs that have the losses of this one."""
    first = ""
    for rung in RUNGS:
        first = first if same_losses(rung) else rung.name
        if rung.name == name:
            return first
    raise ValueError(f"expected the name of a rung; found {name!r}")


def families(names: Sequence[str]) -> dict[str, list[str]]:
    """Return of each family, in a ladder of these rungs, the last one, and the others by it.

    >>> families(["baseline", "tf32", "loader", "muon"])
    {'loader': ['baseline', 'tf32'], 'muon': []}
    """
    grouped: dict[str, list[str]] = {}
    for name in names:
        grouped.setdefault(family(name), []).append(name)
    return {members[-1]: members[:-1] for members in grouped.values()}


def judged(config: Config, *, often: bool) -> Config:
    """Return a run of the race: evaluated on a part of the windows, the same for all.

    Args:
        config: of the run.
        often: enough to tell when it came to a target; otherwise at its end.
    """
    asked = config.eval_every != preset(config.preset).eval_every
    every = config.eval_every if asked else max(1, config.all_steps() // _EVALUATIONS)
    return config.change(eval_every=every if often else 0, eval_tokens=min(config.eval_tokens, _TOKENS))


class Race:
    """Runs of one rung with several seeds, the first of which is the rung's own.

    Args:
        target: bits per byte, where the other seeds stop; 0: none does.
        seed: the run's own; the others are the next ones.
        count: of all of them.
    """

    def __init__(self, target: float, seed: int, count: int) -> None:
        self.target, self.seeds = target, range(seed + 1, seed + count)
        self._lines: list[list[Mapping[str, Any]]] = [[]]

    def note(self, line: Mapping[str, Any]) -> None:
        """Take a line of the run's log."""
        if "bits_per_byte" in line:
            self._lines[0].append(line)

    def others(self, trainer: Trainer) -> None:
        """Train with the other seeds, when the run has ended."""
        self._lines += other_seeds(trainer, self.seeds, self.target)

    def found(self) -> dict[str, Any]:
        """Step, seconds of training and bits per byte of each evaluation, seed by seed."""
        names = ("step", "time_s", "bits_per_byte")
        return {"evaluations": [[[line[name] for name in names] for line in lines] for lines in self._lines]}


def common_target(found: Mapping[str, Mapping[str, Any]]) -> float:
    """Return the lowest bits per byte to which every seed of every rung came; 0 where none was evaluated."""
    runs = [run for one in found.values() for run in one.get("evaluations", ())]
    return max((min(bits for _, _, bits in run) for run in runs if run), default=0.0)


def judge(
    found: Mapping[str, Mapping[str, Any]], racers: Mapping[str, Sequence[str]], target: float
) -> dict[str, dict[str, Any]]:
    """Return the outcomes with the time that each rung took to a target.

    Args:
        found: outcomes by rung.
        racers: of each rung that trained, those whose losses are the same.
        target: bits per byte.
    """
    told = {name: dict(one) for name, one in found.items()}
    for rung, others in racers.items():
        if "evaluations" not in told.get(rung, ()):
            continue
        runs = [[{"step": step, "time_s": time_s, "bits_per_byte": bits} for step, time_s, bits in run]
                for run in told[rung]["evaluations"]]  # fmt: skip
        every = [arrival(run, target) for run in runs]
        came = [[one.step, one.time_s] for one in every if one.step]
        told[rung] |= {"arrivals": came, "missed": len(every) - len(came)}
        for other in others:
            told[other] |= inferred(told[other], told[rung], rung)
    return told


def inferred(one: Mapping[str, Any], trained: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what a rung's time to the target is by its own step and another rung's number of steps."""
    if "arrivals" not in trained or "step_s" not in one:
        return {}
    times = [[step, step * one["step_s"]] for step, _ in trained["arrivals"]]
    return {"arrivals": times, "missed": trained["missed"], "steps_of": name}


def raced_cells(
    name: str, one: Mapping[str, Any], before: tuple[Sequence[float], str]
) -> tuple[list[str], tuple[list[float], str]]:
    """Return the time to the target and p as cells of a table; and the times, with the name of the rung that trained.

    Args:
        name: of the rung.
        one: its outcome.
        before: the same of the rung before. Times that come of the same runs are not tested: they are no two groups.
    """
    from .compare import mean_text

    times = [time_s for _, time_s in one.get("arrivals", ())]
    if "arrivals" not in one or one["missed"]:
        came = f"{len(times)} of {len(times) + one['missed']} came" if "arrivals" in one else "–"
        return [came, "–"], ([], "")
    source = str(one.get("steps_of", name))
    verdict = compared(before[0], times) if before[0] and before[1] != source else None
    told = f"{'~ ' * ('steps_of' in one)}{mean_text(times, 's')}"
    return [told, "–" if verdict is None else f"{verdict.p:.3f}"], (times, source)


def raced_legend(found: Mapping[str, Mapping[str, Any]], target: float) -> str:
    """Return what the two cells say, to which bits per byte, and how small p can be with so many seeds."""
    seeds = max((len(one["arrivals"]) for one in found.values() if "arrivals" in one), default=0)
    least = f" With {seeds} seeds it is {least_p(seeds, seeds):.3f} or more." if seeds > 1 else ""
    return (
        f" to {target:.4g}: time to so many bits per byte, mean and standard deviation over seeds; ~ is an estimate, "
        "of as many steps as another rung takes, whose losses differ by rounding. p: of the difference to the rung "
        f"before, by a permutation test, where other runs stand behind it.{least}"
    )
