"""How are parameters updated? AdamW for all, or Muon for the matrices of the blocks and AdamW for the rest.

All parameters lie in one buffer, and so do their gradients, those of one shape side by side: the gradient's norm, its
mean over ranks and setting it to zero are one operation each, and Muon finds its stacks of matrices without a copy.

>>> from rooflab.speedrun.config import preset
>>> config = preset("tiny").change(warmup=0.1, schedule="trapezoid")
>>> [round(rate(config, step, 100), 2) for step in (0, 9, 40, 75, 99)]
[0.1, 1.0, 1.0, 0.5, 0.02]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .config import Config
from .muon import Muon
from .ranks import Ranks

__all__ = ["Buffers", "Updates", "clipped", "lay_out", "rate"]

_UNIT = 64  # elements: each group begins at a multiple of 256 bytes, for whole vectors
_FLOOR = 0.1  # of the peak, where a cosine ends (Hoffmann et al. 2022)


def rate(config: Config, step: int, steps: int) -> float:
    """The learning rate of a step (from 0) as a share of its peak."""
    warm = config.warmup * steps
    if step + 1 < warm:
        return (step + 1) / warm
    if config.schedule == "cosine":
        through = (step - warm) / max(steps - warm, 1)
        return _FLOOR + (1 - _FLOOR) * 0.5 * (1 + math.cos(math.pi * min(max(through, 0.0), 1.0)))
    return min(1.0, (steps - step) / max(config.cooldown * steps, 1))


@dataclass(frozen=True, eq=False)
class Buffers:
    """Where parameters and gradients lie.

    Attributes:
        params, grads: all of them, one dimension, fp32.
        stacks: of each shape of the blocks' matrices, parameters and gradients [n, r, c].
        matrices, tables, gains: the parameters by kind; tables are looked up or make logits, gains have one dimension.
    """

    params: Any
    grads: Any
    stacks: list[tuple[Any, Any]]
    matrices: list[Any]
    tables: list[Any]
    gains: list[Any]


def lay_out(model: Any) -> Buffers:
    """Move a model's parameters into one buffer, and give them gradients in another."""
    import torch

    groups: dict[tuple[Any, ...], list[Any]] = {}
    for name, param in model.named_parameters():
        kind = "gains" if param.ndim < 2 else "matrices" if name.startswith("blocks.") else "tables"
        which = name.rpartition(".blocks")[2].split(".", 2)[-1] if kind == "matrices" else ""
        groups.setdefault((kind, which, tuple(param.shape)), []).append(param)
    sizes = [-(-len(group) * group[0].numel() // _UNIT) * _UNIT for group in groups.values()]
    params, grads = (torch.zeros(sum(sizes), device=group[0].device) for group in [next(iter(groups.values()))] * 2)
    found = Buffers(params, grads, [], [], [], [])
    start = 0
    for ((kind, which, shape), group), size in zip(groups.items(), sizes, strict=True):
        for number, param in enumerate(group):
            place = slice(start + number * param.numel(), start + (number + 1) * param.numel())
            params[place] = param.detach().reshape(-1)
            param.data, param.grad = params[place].view(shape), grads[place].view(shape)
        if kind == "matrices":  # queries, keys and values are three matrices, each with its own singular values
            parts = 3 if which.startswith("qkv") else 1
            whole = slice(start, start + len(group) * group[0].numel())
            stacked = (len(group) * parts, shape[0] // parts, shape[1])
            found.stacks.append((params[whole].view(stacked), grads[whole].view(stacked)))
        getattr(found, kind).extend(group)
        start += size
    return found


def clipped(grads: Any, most: float) -> Any:
    """Scale gradients in place to a norm of at most `most` (0: as they are); returns the norm they had.

    Where the norm is not finite they become zero, so that the parameters outlive the step and can be looked at.
    """
    import torch

    norm = torch.linalg.vector_norm(grads)
    factor = (most / (norm + 1e-6)).clamp(max=1.0) if most else torch.ones_like(norm)
    grads.copy_(torch.where(torch.isfinite(norm), grads * factor, 0.0))
    return norm


class Updates:
    """The optimizers of a run.

    Args:
        buffers: what is updated.
        config: which optimizer, and its numbers.
        ranks: that share Muon's work.
    """

    def __init__(self, buffers: Buffers, config: Config, ranks: Ranks) -> None:
        import torch

        self.config, muon = config, config.optimizer == "muon"
        device = buffers.params.device
        # Of tables, of what else AdamW has, and Muon's. In a graph they have to be numbers on the device, which change
        # between its replays.
        self.rates: list[Any] = [torch.zeros((), device=device) for _ in range(3)] if config.graph else [0.0] * 3
        lr = config.lr * config.lr_factor
        self.peaks = [lr * config.table_factor, lr, config.matrix_lr]
        groups: list[dict[str, Any]] = [
            {"params": buffers.tables, "rate": 0},
            {"params": [] if muon else buffers.matrices, "rate": 1},
            {"params": buffers.gains, "rate": 1, "weight_decay": 0.0},
        ]
        self.adamw = torch.optim.AdamW(
            [group for group in groups if group["params"]], lr=self.rates[0], betas=(config.beta1, config.beta2),
            eps=config.epsilon, weight_decay=config.weight_decay, fused=config.fused_optimizer or None,
            capturable=config.graph,
        )  # fmt: skip
        # Muon's rate is some 20 times AdamW's: decay as AdamW's at a rate of `lr` asks for as much less of it. AdamW's
        # own rate, and with it its decay, is `lr_factor` times that.
        decay = config.weight_decay * config.lr / config.matrix_lr if muon else 0.0
        fused = config.compile != "no" and device.type == "cuda"  # on a CPU the step alone is compiled
        self.muon = Muon(buffers.stacks, ranks, config.momentum, decay, fused=fused) if muon else None
        self.step()  # at a rate of zero: it makes the moments, and changes nothing
        for state in self.states():
            state.zero_()

    def set(self, share: float) -> None:
        """Choose the learning rates, as a share of their peaks."""
        for number, peak in enumerate(self.peaks):
            self.rates[number] = self.rates[number].fill_(peak * share) if self.config.graph else peak * share
        for group in self.adamw.param_groups:
            group["lr"] = self.rates[group["rate"]]

    def step(self) -> None:
        """Update all parameters from their gradients."""
        self.adamw.step()
        if self.muon is not None:
            self.muon.step(self.rates[2])

    def states(self) -> list[Any]:
        """Every tensor that outlives a step, in a fixed order."""
        moments = [value for group in self.adamw.param_groups for param in group["params"]
                   for _, value in sorted(self.adamw.state[param].items())]  # fmt: skip
        return moments + (self.muon.averages if self.muon is not None else [])
