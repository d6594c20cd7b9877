"""How is the model trained? The loop: batches in, losses out, the clock stopped while the validation set is looked at.

>>> from rooflab.speedrun.config import preset
>>> from rooflab.speedrun.data import corpus
>>> trainer = Trainer(preset("tiny").change(steps=2), corpus("stdlib"))
>>> result = trainer.run()
>>> result.steps, result.bits_per_byte < 8
(2, True)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..device import Device, find_device
from ..stopping import at_a_good_moment
from . import checkpoint
from .batches import Batches, on_device, validation
from .config import Config, ConfigError
from .data import Corpus, cut
from .optimizers import Updates, clipped, lay_out, rate
from .pace import Clock, Result
from .ranks import Ranks
from .settings import quiet, settings
from .watch import Watch

__all__ = ["Trainer"]

Say = Callable[[dict[str, Any]], None]


class Trainer:
    """One run of one config on one corpus.

    Args:
        config: every switch; its vocabulary is made the corpus'.
        data: what to train on.
        device: where; default: the one that is there.
        ranks: this process among others.
        folder: for checkpoints; None: none are made.
        save_every: steps between them; 0: once a minute.
        resume: go on from the folder's checkpoint.
        say: is told of each line of the log.

    Raises:
        ConfigError, DataError, CheckpointError: the run cannot be; nothing has been done then.
    """

    def __init__(
        self, config: Config, data: Corpus, *, device: Device | None = None, ranks: Ranks | None = None,
        folder: Path | None = None, save_every: int = 0, resume: bool = False, say: Say | None = None,
    ) -> None:  # fmt: skip
        import torch

        from .attention import window_mask
        from .model import GPT, compiled_as

        self.device, self.ranks = device or find_device(), ranks or Ranks()
        if self.device.torch is None:
            raise ConfigError('expected PyTorch to be installed: pip install "rooflab[torch]"')
        self.config = config = config.of_text(data.vocabulary)
        whole, data = data, cut(data, config.cut_vocabulary)
        self.data, self.folder, self.save_every, self.say = data, folder, save_every, say or (lambda _: None)
        self.where = torch.device(self.device.torch, *([self.ranks.local] if self.device.torch == "cuda" else []))
        self.batches = Batches(data.train, config.length, config.sequences * config.accumulation, config.seed,
                               self.ranks.rank, self.ranks.world)  # fmt: skip
        self.steps = config.all_steps(self.ranks.world)
        self.batches.windows(self.steps - 1)  # there is enough to train on
        # The text that so many tokens of the whole vocabulary stand for, whatever the vocabulary.
        looked_at = config.eval_tokens * len(data.valid) // len(whole.valid)
        self.held_out = validation(data.valid, config.length, looked_at)
        kept = checkpoint.load(folder) if resume and folder else None
        if kept:
            checkpoint.check(kept, config, data.digest, self.ranks.world)
        torch.manual_seed(config.seed)
        self.model = GPT(config).to(self.where)
        self.buffers = lay_out(self.model)
        self.ranks.from_first(self.buffers.params)
        self.updates = Updates(self.buffers, config, self.ranks)
        self.masks = {window: window_mask(config.length, window, self.where) for window in config.windows()}
        self.call, self.judge, self.clip = self.model, self.model, clipped
        if config.compile != "no":
            # Other graphs, without gradients, are worth their compilation where evaluations are long.
            with quiet():
                self.call, self.clip = compiled_as(self.model, config.compile), torch.compile(clipped, dynamic=False)
            self.judge = self.call if self.where.type == "cuda" else self.model
        self.watch, self.clock, self.step = Watch(self), Clock(self.device), 0
        self.graphs: dict[int, tuple[Any, Any]] = {}
        self.start_s, self.reached, self.bits = 0.0, False, math.nan
        self._kept, self.first_step = kept, kept["step"] if kept else 0
        if kept:
            self.watch.restore(kept["watch"])

    # --- one step

    def compute(self, inputs: Any, targets: Any, window: int) -> Any:
        """Loss, gradients and update for inputs and targets [sequences, T]; returns loss and gradient norm, [2]."""
        import torch

        parts, mask = self.config.accumulation, self.masks[window]
        self.buffers.grads.zero_()
        total = torch.zeros((), device=self.where)
        for some, wanted in zip(inputs.chunk(parts), targets.chunk(parts), strict=True):
            loss = self.call(some, wanted, mask) / parts
            loss.backward()
            total += loss.detach()
        self.ranks.average(self.buffers.grads)
        norm = self.clip(self.buffers.grads, self.config.clip)
        self.updates.step()
        return torch.stack((total, norm))

    def replay(self, inputs: Any, targets: Any, window: int) -> Any:
        """The same, with all kernels of a step launched as one graph; what is captured the first time is replayed."""
        import torch

        if window not in self.graphs:
            held = torch.stack((inputs, targets))
            graph = torch.cuda.CUDAGraph()
            pool = next(iter(self.graphs.values()))[0].pool() if self.graphs else None  # one runs at a time: one memory
            with torch.cuda.graph(graph, pool=pool):
                out = self.compute(held[0], held[1], window)
            self.graphs[window] = (graph, (held, out))
        graph, (held, out) = self.graphs[window]
        held[0].copy_(inputs, non_blocking=True)
        held[1].copy_(targets, non_blocking=True)
        graph.replay()
        return out.clone()

    def warm_up(self) -> None:
        """Run every kind of step until nothing is left to compile or capture, then undo what the steps have done."""
        import torch

        began = time.perf_counter()
        first = torch.from_numpy(np.stack(self.batches.at(0))).to(self.where)
        before = self.buffers.params.clone()
        self.updates.set(0.0)
        side = torch.cuda.Stream() if self.where.type == "cuda" else None
        if side is not None:  # a graph may only be captured where its kernels have run on another stream
            side.wait_stream(torch.cuda.current_stream())
        for window in self.masks:
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.compute(first[0], first[1], window)
            if side is not None:
                torch.cuda.current_stream().wait_stream(side)
            if self.config.graph:
                self.replay(first[0], first[1], window)
        self.evaluate(at_most=1)
        self.buffers.params.copy_(before)
        for state in self.updates.states():
            state.zero_()
        self.device.sync()
        self.start_s = time.perf_counter() - began

    # --- the run

    def run(self) -> Result:
        """Train to the last step or the target.

        Raises:
            Stopped: a loss that is no number, or grows; the message names step, rung and likely cause.
        """
        with settings(self.config):
            if self.config.compile != "no" or self.where.type == "cuda":
                self.warm_up()
            if self._kept:
                self._restore(self._kept)
            with at_a_good_moment(self.folder is not None, aloud=self.ranks.first) as stopping:
                self._loop(stopping)
        step_s, per_step = self.clock.step_s, self.config.tokens_per_step(self.ranks.world)
        return Result(self.step, self.step * per_step, self.bits, self.clock.train_s, self.start_s, step_s,
                      per_step / step_s, _peak_bytes(self.where), self.reached)  # fmt: skip

    def _loop(self, stopping: Callable[[], bool]) -> None:
        config, every = self.config, self.config.eval_every
        run = self.replay if config.graph else self.compute
        saved = time.monotonic()
        self.clock.start(self.step)
        source = on_device(self.batches, self.step, self.steps, self.where, ahead=config.loader == "ahead")
        try:
            for inputs, targets in source:
                self.updates.set(rate(config, self.step, self.steps))
                self.watch.note(run(inputs, targets, config.window_at(self.step / self.steps)))
                self.step += 1
                last = self.step == self.steps
                due, logged = bool(every) and self.step % every == 0, self.step % config.log_every == 0
                if due or last or logged:
                    self.clock.look(self.step)
                    self._log()
                if due or last:
                    self._measure()
                    self.clock.start(self.step)
                    if self.reached:
                        return
                # Neither signals nor clocks are the same for all ranks: they ask each other where they wait anyway.
                stop = stopping() if self.ranks.world == 1 else logged and self.ranks.anyone(stopping(), self.where)
                keep = stop or (self.step % self.save_every == 0 if self.save_every else
                                logged and self.ranks.anyone(time.monotonic() - saved > 60, self.where))  # fmt: skip
                if self.folder and not last and keep:
                    self.clock.look(self.step)
                    self._save()
                    saved = time.monotonic()
                    if stop:
                        raise KeyboardInterrupt
                    self.clock.start(self.step)
        finally:
            source.close()  # type: ignore[attr-defined]

    def _log(self) -> None:
        losses, norms = self.watch.read()
        config, step_s = self.config, self.clock.intervals[-1]
        peak = config.lr * config.lr_factor
        per_step = config.tokens_per_step(self.ranks.world)
        self.say({"step": self.step, "tokens": self.step * per_step, "loss": losses[-1], "losses": losses,
                  "gradient_norm": norms[-1], "lr": peak * rate(config, self.step - 1, self.steps),
                  "time_s": self.clock.train_s, "step_s": step_s, "tokens_per_s": per_step / step_s})  # fmt: skip

    def _measure(self) -> None:
        loss = self.evaluate()
        self.bits = self.data.bits_per_byte(loss, self.held_out[1])
        self.reached = self.bits <= self.config.target
        self.say({"step": self.step, "tokens": self.step * self.config.tokens_per_step(self.ranks.world),
                  "valid_loss": loss, "bits_per_byte": self.bits, "time_s": self.clock.train_s})  # fmt: skip

    def evaluate(self, at_most: int = 0) -> float:
        """Mean loss of the validation set in nats a token; of `at_most` batches where that is not 0."""
        import torch

        inputs, targets = (part[self.ranks.rank :: self.ranks.world] for part in self.held_out)
        most = min(max(self.config.sequences, 1024 // self.config.length), len(inputs))  # short ones: more at a time
        size = next((n for n in range(most, 0, -1) if len(inputs) % n == 0), 1)
        sums = torch.zeros(2, dtype=torch.float64)
        mask = self.masks[self.config.window_at(self.step / self.steps)]
        with torch.no_grad():
            for start in list(range(0, len(inputs), size))[: at_most or None]:
                pair = torch.from_numpy(np.stack((inputs[start : start + size], targets[start : start + size])))
                loss = self.judge(*pair.to(self.where).unbind(0), mask)
                sums += torch.tensor((float(loss) * len(pair[0]), len(pair[0])), dtype=torch.float64)
        sums = self.ranks.average(sums.to(torch.float32 if self.where.type == "mps" else torch.float64).to(self.where))
        return float(sums[0] / sums[1])

    # --- going on after a crash

    def _save(self) -> None:
        import torch

        watch = self.watch.to_dict()
        if self.ranks.first and self.folder:
            checkpoint.save(self.folder, {
                "config": self.config.to_dict(), "digest": self.data.digest, "world": self.ranks.world,
                "step": self.step, "train_s": self.clock.train_s, "intervals": self.clock.intervals,
                "watch": watch, "params": self.buffers.params, "states": self.updates.states(),
                "random": torch.get_rng_state(),
            })  # fmt: skip
        self.ranks.wait()

    def _restore(self, kept: dict[str, Any]) -> None:
        """Copy a checkpoint into place: tensors stay where they are, as graphs and compiled code expect."""
        import torch

        ours, theirs = (self.buffers.params, *self.updates.states()), (kept["params"], *kept["states"])
        if [each.shape for each in ours] != [getattr(each, "shape", None) for each in theirs]:
            raise checkpoint.damaged("its tensors are not those of this model")
        for state, value in zip(ours, theirs, strict=True):
            state.copy_(value)
        torch.set_rng_state(kept["random"])
        self.step, self.clock.train_s, self.clock.intervals = kept["step"], kept["train_s"], kept["intervals"]


def _peak_bytes(where: Any) -> float:
    import torch

    return float(torch.cuda.max_memory_allocated(where)) if where.type == "cuda" else 0.0
