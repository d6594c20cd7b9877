"""How long does each rung of a ladder take to one loss, and is its gain more than chance?

Rungs that change how a step is computed, and not what, have the same losses but for rounding (and padding has other
initial values): those that follow one another are a family, of which the last one, the fastest, trains with several
seeds. Of the others the time is an estimate: as many steps, each of its own length.

>>> family("compile"), family("graph"), family("rms-norm")
('baseline', 'batch', 'rms-norm')
>>> inferred({"step_s": 2.0}, {"arrivals": [[10, 5.0], [12, 6.0]], "missed": 0}, "loader")["arrivals"]
[[10, 20.0], [12, 24.0]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .config import Config, preset
from .rungs import RUNGS, Rung
from .seeds import Arrival, arrival, other_seeds
from .significance import compared, least_p

if TYPE_CHECKING:
    from .train import Trainer

__all__ = ["Race", "families", "family", "inferred", "judged_often", "raced_cells", "raced_legend", "same_losses"]

_TOKENS, _EVALUATIONS = 131_072, 50  # of each evaluation, and how many a run has: how fine the time is
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


def judged_often(config: Config) -> Config:
    """Return a run that is evaluated often enough to tell when it came to a target, on a part of the windows."""
    asked = config.eval_every != preset(config.preset).eval_every
    every = config.eval_every if asked else max(1, config.all_steps() // _EVALUATIONS)
    return config.change(eval_every=every, eval_tokens=min(config.eval_tokens, _TOKENS))


class Race:
    """A target, and the seeds that train to it behind a run's own.

    Args:
        target: bits per byte.
        seed: the run's own; the others are the next ones.
        count: of all of them.
    """

    def __init__(self, target: float, seed: int, count: int) -> None:
        self.target, self.seeds = target, range(seed + 1, seed + count)
        self._lines: list[Mapping[str, Any]] = []
        self._arrivals: list[Arrival] = []

    def note(self, line: Mapping[str, Any]) -> None:
        """Take a line of the run's log."""
        self._lines.append(line)

    def others(self, trainer: Trainer) -> None:
        """Train with the other seeds, when the run has ended."""
        self._arrivals = other_seeds(trainer, self.seeds, self.target)

    def found(self) -> dict[str, Any]:
        """Steps and seconds to the target of those that came to it, and how many did not."""
        every = [arrival(self._lines, self.target), *self._arrivals]
        came = [[one.step, one.time_s] for one in every if one.step]
        return {"arrivals": came, "missed": len(every) - len(came)}


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


def raced_legend(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what the two cells say, and how small p can be with so many seeds."""
    seeds = max((len(one["arrivals"]) for one in found.values() if "arrivals" in one), default=0)
    least = f" With {seeds} seeds it is {least_p(seeds, seeds):.3f} or more." if seeds > 1 else ""
    return (
        " to the target: mean and standard deviation over seeds; ~ is an estimate, of as many steps as another rung "
        "takes, whose losses differ by rounding. p: of the difference to the rung before, by a permutation test, where "
        f"other runs stand behind it.{least}"
    )
