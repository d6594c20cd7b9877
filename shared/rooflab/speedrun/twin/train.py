"""How is the twin trained? As torch's model is: the same batches, schedule, evaluations and folder.

>>> from rooflab.speedrun.config import preset
>>> from rooflab.speedrun.data import corpus
>>> run_twin(preset("tiny").change(tokens=1024, compile="model"), corpus("stdlib")).steps
2
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...device import Device, find_device
from ...extras import require
from ...roofline import Ceilings
from ...shortage import OutOfMemory, is_shortage
from ..batches import Batches, _ahead, validation
from ..config import Config, ConfigError
from ..data import Corpus
from ..folder import RunFolder, version
from ..forecast import advice
from ..neighbours import Neighbours
from ..optimizers import rate
from ..pace import Clock, Result
from ..ranks import Ranks
from ..session import shares, used
from ..watch import Stopped
from .scope import refuse

__all__ = ["Twin", "run_twin"]

_PRECISION = {"fp32": "highest", "tf32": "tensorfloat32", "bf16": "default"}

Say = Callable[[dict[str, Any]], None]


def run_twin(
    config: Config, data: Corpus, *, device: Device | None = None, ranks: Ranks | None = None,
    folder: Path | None = None, resume: bool = False, save_every: int = 0, say: Say | None = None,
    ceilings: Ceilings | None = None,
) -> Result:  # fmt: skip
    """Train with JAX, and leave a folder as `session.run_once` does, which takes the same arguments.

    The twin keeps no checkpoints: `save_every` says nothing to it.

    Raises:
        ConfigError: it has not what the config asks for, or cannot run here.
        DataError: there are too few tokens.
        OutOfMemory: with what to lower, and by how much.
        Stopped: the loss is no number.
    """
    device = device or find_device()
    _possible(config, device, ranks or Ranks(), resume)
    config = config.of_text(data.vocabulary)
    run = RunFolder(folder) if folder is not None else None
    with run.alone() if run else nullcontext():
        return _run(config, data, device, run, say, ceilings)


def _run(
    config: Config, data: Corpus, device: Device, run: RunFolder | None, say: Say | None, ceilings: Ceilings | None
) -> Result:
    if run:
        run.begin(config, version(device, data, 1) | {"framework": "jax"})

    neighbours = Neighbours(device)

    def tell(line: dict[str, Any]) -> None:
        line = neighbours.noted(line)
        if "loss" in line:
            line = line | {"train_bits_per_byte": line["loss"] * bits}
        if ceilings is not None and "tokens_per_s" in line:
            line = line | {"mfu": used(config, line["tokens_per_s"], ceilings)[0]}
        if run:
            run.log(line)
        if say:
            say(line)

    try:
        twin = Twin(config, data, device, tell)
        bits = data.bits_per_byte(1.0, twin.held_out[1])  # of a nat, in the text that is judged
        result = twin.run()
    except Exception as error:
        if not is_shortage(error):
            raise
        raise OutOfMemory(f"The memory is not enough. {advice(config, device.memory_bytes)}") from error
    if run:
        run.end(result, shares(config, result, ceilings) | neighbours.found)
    return result


def _possible(config: Config, device: Device, ranks: Ranks, resume: bool) -> None:
    require("jax", "jax")
    require("torch", "torch")  # whose initial values the twin starts from
    refuse(config)
    if ranks.world > 1:
        raise ConfigError(f"expected one process for the twin in JAX; found {ranks.world}: start it without torchrun")
    if resume:
        raise ConfigError("expected a run of torch's to go on with: the twin in JAX keeps no checkpoints")
    if device.is_accelerator and device.jax == "cpu":
        raise ConfigError(f"JAX does not see {device.name}: install JAX for it, or ask for --device cpu")


class Twin:
    """One run of one config on one corpus.

    Args:
        config: every switch, with the corpus' vocabulary.
        data: what to train on.
        device: where.
        say: is told of each line of the log.
    """

    def __init__(self, config: Config, data: Corpus, device: Device, say: Say) -> None:
        import jax
        import jax.numpy as jnp

        from . import model, updates

        self.config, self.data, self.say = config, data, say
        self.batches = Batches(data.train, config.length, config.sequences, config.seed)
        self.steps = config.all_steps()
        self.batches.windows(self.steps - 1)  # there is enough to train on
        self.held_out = validation(data.valid, config.length, config.eval_tokens)
        self.params = model.initial(config)
        self.state = updates.start(self.params, config)
        self.clock, self.step, self.bits, self.start_s, self.peak_bytes = Clock(device), 0, math.nan, 0.0, 0.0
        self.pending: list[Any] = []

        def compute(params: Any, state: Any, pair: Any, share: Any) -> Any:
            value, grads = jax.value_and_grad(model.loss)(params, pair[0], pair[1], config)
            params, state, norm = updates.step(params, state, grads, share, config)
            return params, state, jnp.stack((value, norm))

        self.compute: Any = compute
        self.judge: Any = jax.jit(partial(model.loss, config=config))

    def batch(self, step: int) -> Any:
        """Inputs and targets of a step, [2, B, T], on the device."""
        import jax.numpy as jnp

        return jnp.asarray(np.stack(self.batches.at(step)).astype(np.int32))

    def warm_up(self) -> None:
        """Compile the step, or run it once where it is not compiled, and leave everything as it was."""
        import jax

        began = time.perf_counter()
        args = (self.params, self.state, self.batch(0), self.share(0))
        if self.config.compile == "no":
            jax.block_until_ready(self.compute(*args))
        else:
            # Parameters and moments are overwritten in place: of each there is one copy.
            self.compute = jax.jit(self.compute, donate_argnums=(0, 1)).lower(*args).compile()
            if memory := self.compute.memory_analysis():
                self.peak_bytes = float(memory.temp_size_in_bytes + memory.argument_size_in_bytes
                                        + memory.output_size_in_bytes - memory.alias_size_in_bytes)  # fmt: skip
        self.evaluate(at_most=1)
        self.start_s = time.perf_counter() - began

    def run(self) -> Result:
        """Train to the last step or the target.

        Raises:
            Stopped: the loss or the gradient is no number.
        """
        import jax

        with jax.default_matmul_precision(_PRECISION[self.config.precision]):
            self.warm_up()
            reached = self._loop()
        step_s, per_step = self.clock.step_s, self.config.tokens_per_step()
        gpu = jax.default_backend() != "cpu"
        return Result(self.step, self.step * per_step, self.bits, self.clock.train_s, self.start_s, step_s,
                      per_step / step_s, self.peak_bytes if gpu else 0.0, reached)  # fmt: skip

    def _loop(self) -> bool:
        config = self.config
        self.clock.start(0)
        for pair in self._source():
            self.params, self.state, seen = self.compute(self.params, self.state, pair, self.share(self.step))
            self.pending.append(seen)
            self.step += 1
            last = self.step == self.steps
            due = last or (bool(config.eval_every) and self.step % config.eval_every == 0)
            if due or self.step % config.log_every == 0:
                self._log()
            if due:
                self._measure()
                if self.bits <= config.target:
                    return True
                self.clock.start(self.step)
        return False

    def _source(self) -> Iterator[Any]:
        return (
            _ahead(self.batch, 0, self.steps) if self.config.loader == "ahead" else map(self.batch, range(self.steps))
        )

    def share(self, step: int) -> Any:
        """The learning rates of a step as a share of their peaks, on the device."""
        import jax.numpy as jnp

        return jnp.float32(rate(self.config, step, self.steps))

    def _log(self) -> None:
        import jax

        jax.block_until_ready(self.params)  # in an eager step the update comes after loss and norm
        found = [[float(value) for value in pair] for pair in jax.device_get(self.pending)]
        self.pending.clear()
        self.clock.look(self.step)
        config, per_step, step_s = self.config, self.config.tokens_per_step(), self.clock.intervals[-1]
        for number, pair in enumerate(found, self.step - len(found) + 1):
            if not all(map(math.isfinite, pair)):
                raise Stopped(
                    f"Step {number}, rungs {', '.join(config.rungs) or 'baseline'} in JAX: the loss or the gradient is "
                    "not a number. Try half the learning rate, or torch, which names the cause."
                )
        self.say({"step": self.step, "tokens": self.step * per_step, "loss": found[-1][0],
                  "losses": [value for value, _ in found], "gradient_norm": found[-1][1],
                  "lr": config.lr * config.lr_factor * rate(config, self.step - 1, self.steps),
                  "time_s": self.clock.train_s, "step_s": step_s, "tokens_per_s": per_step / step_s})  # fmt: skip

    def _measure(self) -> None:
        loss = self.evaluate()
        self.bits = self.data.bits_per_byte(loss, self.held_out[1])
        self.say({"step": self.step, "tokens": self.step * self.config.tokens_per_step(), "valid_loss": loss,
                  "bits_per_byte": self.bits, "time_s": self.clock.train_s})  # fmt: skip

    def evaluate(self, at_most: int = 0) -> float:
        """Mean loss of the validation set in nats a token; of `at_most` batches where that is not 0."""
        inputs, targets = (part.astype(np.int32) for part in self.held_out)
        size = next(n for n in range(min(self.config.sequences, len(inputs)), 0, -1) if len(inputs) % n == 0)
        starts = list(range(0, len(inputs), size))[: at_most or None]
        return float(np.mean([float(self.judge(self.params, inputs[at : at + size], targets[at : at + size]))
                              for at in starts]))  # fmt: skip
