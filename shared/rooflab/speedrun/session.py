"""One run from config to folder: what a command, a notebook and the ladder do alike.

>>> from rooflab.speedrun.config import preset
>>> from rooflab.speedrun.data import corpus
>>> run_once(preset("tiny").change(tokens=1024), corpus("stdlib")).steps
2
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..device import Device, find_device
from ..roofline import Ceilings
from ..shortage import OutOfMemory, is_shortage
from ..stopping import received
from . import checkpoint, forecast
from .config import Config
from .data import Corpus
from .folder import RunFolder, version
from .naming import counted
from .neighbours import Neighbours
from .pace import Result
from .ranks import Ranks

if TYPE_CHECKING:
    from .train import Trainer

__all__ = ["beyond", "ceiling_format", "free", "opening", "run_once", "shares", "steps_in", "used"]


def run_once(
    config: Config, data: Corpus, *, device: Device | None = None, ranks: Ranks | None = None,
    folder: Path | None = None, resume: bool = False, save_every: int = 0,
    say: Callable[[dict[str, Any]], None] | None = None, ceilings: Ceilings | None = None,
    then: Callable[[Trainer], None] | None = None,
) -> Result:  # fmt: skip
    """Train, and leave what there is to know in a folder.

    Args:
        config: the run.
        data: what to train on.
        device, ranks: where; default: the device that is there, this process alone.
        folder: exists; None: nothing is left.
        resume: go on from the folder's checkpoint.
        save_every: steps between checkpoints; 0: once a minute.
        say: is told of each line of the log, on the first rank.
        ceilings: to which MFU is; None: it is left out.
        then: is given the trainer when the run has ended, with all that was compiled.

    Raises:
        OutOfMemory: with what to lower, and by how much.
        ConfigError, DataError, CheckpointError, Stopped: as `Trainer` says.
    """
    from .train import Trainer

    device, ranks = device or find_device(), ranks or Ranks()
    run = RunFolder(folder) if folder is not None and ranks.first else None
    neighbours = Neighbours(device, ranks.world)

    def tell(line: dict[str, Any]) -> None:
        if "loss" in (line := neighbours.noted(line)):
            line = line | {"train_bits_per_byte": line["loss"] * bits}
        if ceilings is not None and "tokens_per_s" in line:
            line = line | {"mfu": used(trainer.config, line["tokens_per_s"], ceilings, ranks.world)[0]}
        if run:
            run.log(line)
        if say and ranks.first:
            say(line)

    before = received()
    with run.alone() if run else nullcontext():
        kept = resume and folder is not None and (folder / checkpoint.NAME).is_file()  # else it begins again
        sized = config.of_text(data.vocabulary)
        if 0 < device.memory_bytes < forecast.state_and_gradient_bytes(sized):
            raise OutOfMemory(f"The memory is not enough. {forecast.advice(sized, device.memory_bytes)}")
        try:
            trainer = Trainer(config, data, device=device, ranks=ranks, folder=folder, save_every=save_every,
                              resume=kept, say=tell)  # fmt: skip
            bits = trainer.data.bits_per_byte(1.0, trainer.held_out[1])  # of a nat, in the text that is judged
            if run and resume:
                run.rewind(trainer.first_step, logged=len(trainer.watch.losses), eval_every=config.eval_every)
                run.go_on(trainer.first_step, version(device, data, ranks.world))
            elif run:
                run.begin(trainer.config, version(device, data, ranks.world))
            result = trainer.run()
            if then:
                then(trainer)
        except Exception as error:
            if not is_shortage(error):
                raise
            raise OutOfMemory(f"The memory is not enough. {forecast.advice(sized, device.memory_bytes)}") from error
        if run:
            run.end(result, shares(trainer.config, result, ceilings, ranks.world) | neighbours.found)
            checkpoint.remove(run.path)
    if received() > before:  # a signal in the last step, which was waited for
        raise KeyboardInterrupt
    return result


def opening(config: Config, data: Corpus, world: int = 1) -> str:
    """Return what is about to be trained, in a sentence: the shape, the text, the rungs and the length."""
    rungs = f"with the rungs {', '.join(config.rungs)}" if config.rungs else "as the baseline, without a rung"
    return (
        f"Training {config.preset} on {data.name} {rungs}: {counted(config.all_steps(world), 'step')} of "
        f"{config.tokens_per_step(world):,} tokens."
        + (" The compiler works before the first step." if config.compile != "no" else "")
    )


def ceiling_format(config: Config, ceilings: Ceilings) -> str:
    """The format to whose rate MFU is: that of the products, bf16 where some of them are in fp8."""
    fmt = {"fp8": "bf16"}.get(config.precision, config.precision)
    return fmt if fmt in ceilings.flops_per_s else "fp32"


def used(config: Config, tokens_per_s: float, ceilings: Ceilings, world: int = 1) -> tuple[float, float]:
    """MFU and HFU against these ceilings."""
    return forecast.utilization(config, tokens_per_s, ceilings.rate(ceiling_format(config, ceilings)), world=world)


def shares(config: Config, result: Result, ceilings: Ceilings | None, world: int = 1) -> dict[str, Any]:
    """MFU and HFU of a run as its outcome has them, where ceilings are known."""
    return {"mfu_hfu": used(config, result.tokens_per_s, ceilings, world)} if ceilings else {}


def beyond(share: float) -> str:
    """Return what to say of a share of the measured ceiling above 1: no device does that, so the ceiling is too low.

    >>> beyond(0.9), beyond(1.04)[:14]
    ('', 'More than 100 ')
    """
    if share <= 1:
        return ""
    return (
        "More than 100 % of the measured ceiling: it was measured while others kept the machine busy, or at other "
        "sizes. Measure it again: rooflab device --remeasure."
    )


def steps_in(config: Config, data: Corpus, minutes: float, *, device: Device, ranks: Ranks) -> int:
    """How many steps a run makes in so many minutes of training, from a few steps of it that are timed and dropped."""
    from .train import Trainer

    trial = Trainer(config.change(steps=12, eval_every=0, log_every=2), data, device=device, ranks=ranks)
    trial.run()
    import torch

    step_s = torch.tensor(statistics.median(trial.clock.intervals[2:]), device=trial.where)
    return max(1, int(minutes * 60 / float(ranks.average(step_s))))


def free() -> None:
    """Give back what a run held, before the next one."""
    import gc

    import torch

    gc.collect()
    torch._dynamo.reset()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
