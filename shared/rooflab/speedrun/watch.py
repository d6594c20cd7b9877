"""Is the run still sound? Losses and gradients are looked at when they are logged; what goes wrong gets a name.

>>> grown([3.0, 2.0, 2.0] + 20 * [5.0]), grown(30 * [2.0])
(True, False)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from .checkpoint import damaged

if TYPE_CHECKING:
    from .train import Trainer

__all__ = ["Stopped", "Watch", "grown"]

_STRETCH = 20  # steps over which the loss is averaged before it counts as grown
_GROWN = 1.25  # times the first loss, that of guessing; no run that learns comes back there


class Stopped(RuntimeError):
    """The run was stopped, since it could not come to anything; the message names step, rungs and likely cause."""


def grown(losses: Sequence[float]) -> bool:
    """Whether the last losses are, on average, higher than a quarter above the first: the run diverges."""
    return len(losses) >= _STRETCH and fmean(losses[-_STRETCH:]) > _GROWN * losses[0]


class Watch:
    """What is known of each step of a run; values stay on the device until somebody reads them."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer, self._pending = trainer, list[Any]()
        self.losses: list[float] = []
        self.norms: list[float] = []

    def note(self, pair: Any) -> None:
        """Keep loss and gradient norm of a step, [2]."""
        self._pending.append(pair)

    def read(self) -> tuple[list[float], list[float]]:
        """Losses, of all ranks, and gradient norms since the last time.

        Raises:
            Stopped: one of them is no number, or the loss grows.
        """
        import torch

        found = self._trainer.ranks.average(torch.stack(self._pending)).tolist()
        self._pending.clear()
        begin = len(self.losses)
        self.losses += [loss for loss, _ in found]
        self.norms += [norm for _, norm in found]
        for step in range(begin, len(self.losses)):
            if not (math.isfinite(self.losses[step]) and math.isfinite(self.norms[step])):
                what = "loss" if not math.isfinite(self.losses[step]) else "gradient"
                raise Stopped(f"{self._where(step)}: the {what} is not a number. {self._cause(step)}")
        if grown(self.losses):
            step = len(self.losses) - 1
            raise Stopped(
                f"{self._where(step)}: the loss has grown to {fmean(self.losses[-_STRETCH:]):.2f} nats, from "
                f"{self.losses[0]:.2f} at the first step. {self._cause(step)}"
            )
        return self.losses[begin:], self.norms[begin:]

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps; every rank has to ask, since what was not yet read is a mean over them."""
        import torch

        pending = self._trainer.ranks.average(torch.stack(self._pending)).tolist() if self._pending else []
        return {"losses": self.losses, "norms": self.norms, "pending": pending}

    def restore(self, kept: dict[str, Any]) -> None:
        """Go on from what `to_dict` kept.

        Raises:
            CheckpointError: it is not all there.
        """
        import torch

        if missing := {"losses", "norms", "pending"}.difference(kept):
            raise damaged(f"it lacks {', '.join(sorted(missing))}")
        self.losses, self.norms = kept["losses"], kept["norms"]
        self._pending = [torch.tensor(pair, device=self._trainer.where) for pair in kept["pending"]]

    def _where(self, step: int) -> str:
        from .naming import title

        return f"Step {step + 1}, rungs {title(self._trainer.config.rungs, {})[0]}"

    def _cause(self, step: int) -> str:
        """The likely cause: broken parameters, growing gradients, the format, in this order."""
        from .optimizers import rate

        config = self._trainer.config
        share = rate(config, step, self._trainer.steps)
        broken, first = _looked_into(self._trainer, step)
        if broken:
            return (
                f"Likely cause: parameters that are not finite ({', '.join(broken[:3])}), as no step should leave them."
            )
        before = [norm for norm in self.norms[:step] if math.isfinite(norm)]
        usual, last = (median(before), fmean(before[-3:])) if before else (0.0, 0.0)
        where = f"The first values that are not finite come out of {first}. " if first else ""
        if before and before[-1] == 0 and max(before) > 0:
            return (
                f"{where}The gradients have vanished: their norm was {max(before):.3g} at most and is 0 now, as where "
                f"logits saturate. Likely cause: steps that were too large (lr {config.lr * config.lr_factor:.3g} at "
                "its peak); try half of it, or a longer warmup."
            )
        if last > 5 * usual > 0 or grown(self.losses) or share > 0.9:
            rates = f"lr {config.lr * config.lr_factor * share:.3g}" + (
                f", matrix_lr {config.matrix_lr * share:.3g}" if config.optimizer == "muon" else ""
            )
            return (
                f"{where}Likely cause: a learning rate that is too high ({rates}); the gradient's norm was {usual:.3g} "
                f"in the middle and {last:.3g} at last. Try half of it, or a longer warmup."
            )
        if config.precision == "fp8":
            return f"{where}Likely cause: fp8, whose scales a value has left; try --without fp8."
        return f"{where}Gradients and learning rate were steady: look at the kernel or the data of this step."


def _looked_into(trainer: Trainer, step: int) -> tuple[list[str], str]:
    """Names of parameters that are not finite, and of the module whose output is the first not to be.

    A model without compiler or graph runs the step's batch again, which is a function of the step alone.
    """
    import numpy as np
    import torch

    from .model import GPT
    from .optimizers import lay_out

    model = GPT(trainer.config).to(trainer.where)
    lay_out(model).params.copy_(trainer.buffers.params)
    broken = [name for name, param in model.named_parameters() if not torch.isfinite(param).all()]
    found: list[str] = []

    def look(name: str) -> Any:
        def hook(_: Any, __: Any, out: Any) -> None:
            values = out[0] if isinstance(out, tuple) else out
            if not torch.isfinite(values).all():
                found.append(name)

        return hook

    for name, module in model.named_modules():
        module.register_forward_hook(look(name or "the last layer and the loss"))
    pair = torch.from_numpy(np.stack(trainer.batches.at(step))).to(trainer.where)
    mask = trainer.masks[trainer.config.window_at(step / trainer.steps)]
    with torch.no_grad():
        for some, wanted in zip(*(part.split(trainer.config.sequences) for part in pair.unbind(0)), strict=True):
            model(some, wanted, mask)
    return broken, found[0] if found else ""
