"""nanoGPT's own model and optimizer, trained on this text: the rival that the notes of the speedrun measure.

    git clone https://github.com/karpathy/nanoGPT
    python tools/nanogpt.py nanoGPT --batch 64 --steps 40      what is a step's time?
    python tools/nanogpt.py nanoGPT                            one pass: which loss, after how long?

Its `model.py` makes model and optimizer, and its `train.py` is followed: compiled, autocast to bf16 on a GPU, AdamW
with betas 0.9 and 0.95 and a decay of 0.1, a norm clipped to 1, a warmup and a cosine to a tenth of the rate. The
windows are those of Rooflab's runs, in their order, so that one pass sees each token once; losses are in bits per byte
of the same windows. Time is that of the steps. Prints a line of JSON at each evaluation.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rooflab.speedrun.batches import Batches, validation
from rooflab.speedrun.data import Corpus, corpus

_FLOOR, _CLIP, _DECAY, _BETAS = 0.1, 1.0, 0.1, (0.9, 0.95)
_EVALUATED = 1_048_576  # tokens, as in Rooflab's runs


class Rival:
    """One run of nanoGPT's model.

    Args:
        module: its `model.py`.
        data: what to train on.
        options: of the command.
    """

    def __init__(self, module: Any, data: Corpus, options: argparse.Namespace) -> None:
        self.data, self.options = data, options
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.batches = Batches(data.train, options.length, options.batch, options.seed)
        self.steps = options.steps or self.batches.steps
        torch.manual_seed(options.seed)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        rows = -(-data.vocabulary // 64) * 64  # as nanoGPT pads its table
        config = module.GPTConfig(
            block_size=options.length, vocab_size=rows, n_layer=options.layers, n_head=options.heads,
            n_embd=options.width, dropout=0.0, bias=False,
        )  # fmt: skip
        self.model = module.GPT(config).to(self.device)
        with contextlib.redirect_stdout(sys.stderr):  # it tells what it decays
            self.optimizer = self.model.configure_optimizers(_DECAY, options.lr, _BETAS, self.device)
        self.call = torch.compile(self.model) if self.device == "cuda" else self.model

    def rate(self, step: int) -> float:
        """The learning rate of a step, from 0."""
        warm = self.options.warmup
        if step < warm:
            return float(self.options.lr * (step + 1) / (warm + 1))
        share = min(1.0, (step - warm) / max(1, self.steps - warm))
        return float(self.options.lr * (_FLOOR + (1 - _FLOOR) * 0.5 * (1 + math.cos(math.pi * share))))

    def loss(self, pair: np.ndarray) -> torch.Tensor:
        """The mean loss of inputs and targets, [2, sequences, T]."""
        both = torch.from_numpy(pair.astype(np.int64))
        both = both.pin_memory().to("cuda", non_blocking=True) if self.device == "cuda" else both
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            found: torch.Tensor = self.call(both[0], both[1])[1]
        return found

    def step(self, number: int) -> None:
        """Loss, gradients and update."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(number)
        self.loss(np.stack(self.batches.at(number))).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), _CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def evaluate(self) -> float:
        """Bits per byte of the first windows of the validation part."""
        inputs, targets = validation(self.data.valid, self.options.length, self.options.evaluated)
        size = max(n for n in range(1, 33) if len(inputs) % n == 0)  # one size: another would be compiled anew
        self.model.eval()
        with torch.no_grad():
            losses = [float(self.loss(np.stack((inputs[at : at + size], targets[at : at + size]))))
                      for at in range(0, len(inputs), size)]  # fmt: skip
        self.model.train()
        return self.data.bits_per_byte(math.fsum(losses) / len(losses), targets)

    def wait(self) -> float:
        """The time at which the device has done all."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def run(self) -> None:
        """Train; the first step and what it compiles are not timed."""
        self.step(0)
        self.evaluate()
        taken, begun, every = 0.0, self.wait(), self.options.evaluate_every or self.steps
        for number in range(1, self.steps):
            self.step(number)
            done = number + 1
            if done % every == 0 or done == self.steps:
                taken += self.wait() - begun
                step_s = taken / number
                told = {"steps": done, "time_s": taken, "step_s": step_s, "bits_per_byte": self.evaluate(),
                        "tokens_per_s": self.options.batch * self.options.length / step_s}  # fmt: skip
                print(json.dumps({name: float(f"{value:.6g}") for name, value in told.items()}), flush=True)
                begun = self.wait()


def main(words: list[str] | None = None) -> int:
    """Train as the options say; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("clone", type=Path, help="folder of nanoGPT, with its model.py")
    parser.add_argument("--data", default="code", help="the text (default: code)")
    parser.add_argument("--steps", type=int, default=0, help="default: one pass")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=100, help="steps")
    parser.add_argument("--evaluate-every", type=int, default=0, help="steps (default: at the end)")
    parser.add_argument("--evaluated", type=int, default=_EVALUATED, help="tokens of an evaluation")
    for name, value in {"batch": 16, "length": 1024, "layers": 12, "heads": 12, "width": 768, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args(words)
    path = options.clone / "model.py"
    if not path.is_file():
        print(f"There is no {path}: give the folder of a clone of nanoGPT.", file=sys.stderr)
        return 1
    spec = importlib.util.spec_from_file_location("nanogpt_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    Rival(module, corpus(options.data), options).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
