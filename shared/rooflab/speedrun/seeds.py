"""Several seeds of one config, of which only the first has to be compiled: how long does each take to the target?

>>> from rooflab.speedrun.config import preset
>>> from rooflab.speedrun.data import corpus
>>> from rooflab.speedrun.train import Trainer
>>> trainer = Trainer(preset("tiny").change(steps=4, eval_every=2, target=7.5), corpus("stdlib"))
>>> trainer.run().reached, [arrival(lines, 7.5).step for lines in other_seeds(trainer, [1, 2], 7.5)]
(True, [2, 2])
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .train import Trainer

__all__ = ["Arrival", "arrival", "begin_again", "other_seeds"]


@dataclass(frozen=True)
class Arrival:
    """When a run came to its target.

    Attributes:
        step: after how many steps; 0: it never did.
        time_s: seconds of training until then; infinite where it never did.
    """

    step: int
    time_s: float


def arrival(lines: Iterable[Mapping[str, Any]], target: float) -> Arrival:
    """Return when the first evaluation was at or below a target, in bits per byte.

    Args:
        lines: of a run's log.
        target: bits per byte.

    >>> arrival([{"step": 4, "bits_per_byte": 2.0, "time_s": 1.5}], target=2.5)
    Arrival(step=4, time_s=1.5)
    """
    for line in lines:
        if line.get("bits_per_byte", math.inf) <= target:
            return Arrival(line["step"], line["time_s"])
    return Arrival(0, math.inf)


def other_seeds(trainer: Trainer, seeds: Sequence[int], target: float) -> list[list[Mapping[str, Any]]]:
    """Train with other seeds, and return each run's lines of evaluations.

    Args:
        trainer: of a run that has ended; what it compiled and captured is used again.
        seeds: of initial values and the order of the text.
        target: bits per byte, where each run stops; 0: none does.

    Raises:
        Stopped: a run that came to nothing; see `Trainer.run`.
    """
    found = []
    for seed in seeds:
        lines: list[Mapping[str, Any]] = []
        begin_again(trainer, seed, target)
        trainer.say = lines.append
        trainer.run()
        found.append([line for line in lines if "bits_per_byte" in line])
    return found


def begin_again(trainer: Trainer, seed: int, target: float) -> None:
    """Put a trainer back to the first step, with another seed.

    Parameters and moments stay where they are, as compiled code and graphs expect; only their values are new.
    """
    import torch

    from .batches import Batches
    from .model import GPT
    from .optimizers import lay_out
    from .pace import Clock
    from .watch import Watch

    trainer.config = config = trainer.config.change(seed=seed, target=target)
    ranks = trainer.ranks
    trainer.batches = Batches(
        trainer.data.train, config.length, config.sequences * config.accumulation, seed, ranks.rank, ranks.world
    )
    torch.manual_seed(seed)
    trainer.buffers.params.copy_(lay_out(GPT(config).to(trainer.where)).params)
    ranks.from_first(trainer.buffers.params)
    for state in trainer.updates.states():
        state.zero_()
    trainer.watch, trainer.clock, trainer.step = Watch(trainer), Clock(trainer.device), 0
    trainer.reached, trainer.bits = False, math.nan
