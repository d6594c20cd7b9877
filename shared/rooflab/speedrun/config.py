"""What is a run made of? One frozen `Config` holds every switch, so that two runs differ in what their configs say.

>>> config = preset("gpt2-small")
>>> config.rows, config.change(padded_vocabulary=True).rows
(50257, 50304)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from .spelling import unknown

__all__ = ["CHOICES", "LOSS_CHUNK", "PRESETS", "Config", "ConfigError", "from_dict", "preset"]

CHOICES: dict[str, tuple[str, ...]] = {
    "precision": ("fp32", "tf32", "bf16", "fp8"),
    "attention": ("plain", "fused", "kernel", "window"),
    "compile": ("no", "blocks", "model"),
    "loss": ("plain", "chunks", "kernel"),
    "loader": ("plain", "ahead"),
    "position": ("learned", "rotary"),
    "rotation": ("plain", "kernel"),
    "norm": ("layer", "rms"),
    "activation": ("gelu", "squared relu"),
    "mlp": ("plain", "kernel"),
    "optimizer": ("adamw", "muon"),
    "schedule": ("cosine", "trapezoid"),
}
_ALIGNED = 64  # rows of the token table are padded to a multiple of it: whole tiles of the matrix units
_WINDOW_STAGES = 4
LOSS_CHUNK = 8192  # tokens whose logits a loss in chunks holds in memory at a time


class ConfigError(ValueError):
    """A switch has a value that cannot be; one sentence says which, and what was expected."""


@dataclass(frozen=True)
class Config:
    """Every switch of a run. Sizes are counts, learning rates per update, losses in bits per byte.

    Attributes:
        layers, width, heads, length, vocabulary: the shape L, d, H, T, V.
        precision: of the products; parameters and their updates stay in fp32.
        cut_vocabulary: tokens that are left of the text's own, the earliest merges; 0: all of them.
        padded_vocabulary: whether the token table has a multiple of 64 rows.
        attention: "plain" writes the scores to memory; "fused" does not; "kernel" is Rooflab's; "window" sees the last
            `window` tokens, a number that grows over the run.
        compile: nothing; each part of the model, all blocks being one graph; or the whole model as one graph, which
            takes as many times longer to compile as there are blocks.
        loss: "plain" holds all logits; "chunks" some at a time; "kernel" too, with their softmax in one of
            Rooflab's kernels.
        fused_optimizer, graph: one kernel for the update of all tensors; a step replayed as one CUDA graph.
        loader: "plain" makes a batch when it is needed, "ahead" in a thread while the device computes.
        rotation: "kernel" prepares queries and keys (norm, rotation, layout) in one of Rooflab's kernels.
        mlp: "kernel" squares in the product before, and takes the square's gradient in the product behind it.
        wide_heads: half as many heads, twice as wide.
        position, norm, qk_norm, activation, zero_init, tied, value_skip, token_shift, softcap: the architecture
            (softcap 0: none).
        optimizer, lr, matrix_lr: AdamW's rate; Muon's, for the matrices of the blocks.
        beta1, beta2, epsilon, momentum, weight_decay, clip: of AdamW; of Muon; of both; the gradient's largest norm.
        table_factor: by which the rate is multiplied for the token table and an untied head.
        schedule, warmup, cooldown: shape of the learning rate; shares of the run that it rises and falls.
        batch, batch_factor, accumulation: sequences a rank computes at once are batch x batch_factor; so many times
            `accumulation` make a step. `lr_factor` multiplies AdamW's rate, as a larger batch may ask, and not Muon's.
        tokens, steps: length of the run; steps, where it is not 0, wins.
        target: bits per byte of the validation set at which the run stops; 0: never.
        eval_every, eval_tokens: steps between evaluations (0: only at the end), size of the validation set.
        threads: of a processor; 0: as many as torch finds. Operations on a tiny shape are too short to be shared out.
        deterministic: whether kernels whose sums have no fixed order are left out, so that a GPU repeats a run exactly.
        rungs: the names of what was switched on.
    """

    layers: int = 12
    width: int = 768
    heads: int = 12
    length: int = 1024
    vocabulary: int = 50257
    precision: str = "fp32"
    cut_vocabulary: int = 0
    padded_vocabulary: bool = False
    attention: str = "plain"
    compile: str = "no"
    loss: str = "plain"
    fused_optimizer: bool = False
    loader: str = "plain"
    graph: bool = False
    position: str = "learned"
    rotation: str = "plain"
    norm: str = "layer"
    qk_norm: bool = False
    wide_heads: bool = False
    activation: str = "gelu"
    mlp: str = "plain"
    zero_init: bool = False
    tied: bool = True
    value_skip: bool = False
    token_shift: bool = False
    softcap: float = 0.0
    optimizer: str = "adamw"
    lr: float = 6e-4
    matrix_lr: float = 0.02
    table_factor: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    momentum: float = 0.95
    weight_decay: float = 0.1
    clip: float = 1.0
    schedule: str = "cosine"
    warmup: float = 0.05
    cooldown: float = 0.5
    batch: int = 16
    batch_factor: int = 1
    lr_factor: float = 1.0
    accumulation: int = 1
    tokens: int = 57_000_000
    steps: int = 0
    target: float = 0.0
    eval_every: int = 100
    eval_tokens: int = 1_048_576
    log_every: int = 10
    seed: int = 0
    threads: int = 0
    deterministic: bool = False
    preset: str = "gpt2-small"
    rungs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _validate(self)

    @property
    def rows(self) -> int:
        """Rows of the token table: the vocabulary, or a little more."""
        return -(-self.vocabulary // _ALIGNED) * _ALIGNED if self.padded_vocabulary else self.vocabulary

    def of_text(self, vocabulary: int) -> Config:
        """The same run on a text of so many tokens, of which it may cut off the last."""
        return self.change(vocabulary=min(vocabulary, self.cut_vocabulary or vocabulary))

    @property
    def head_count(self) -> int:
        """Heads of a block."""
        return self.heads // 2 if self.wide_heads else self.heads

    @property
    def sequences(self) -> int:
        """Sequences that a rank computes at once."""
        return self.batch * self.batch_factor

    def tokens_per_step(self, world: int = 1) -> int:
        """Tokens of one update, of all ranks together."""
        return self.sequences * self.accumulation * self.length * world

    def all_steps(self, world: int = 1) -> int:
        """Updates of the whole run."""
        return self.steps or max(1, self.tokens // self.tokens_per_step(world))

    def window_at(self, progress: float) -> int:
        """Tokens that attention looks back, at this share of the run: a quarter more of T in each of four stages."""
        if self.attention != "window":
            return self.length
        stage = min(int(progress * _WINDOW_STAGES), _WINDOW_STAGES - 1) + 1
        return max(1, self.length * stage // _WINDOW_STAGES)

    def windows(self) -> tuple[int, ...]:
        """All windows that a run goes through."""
        return tuple(dict.fromkeys(self.window_at(stage / _WINDOW_STAGES) for stage in range(_WINDOW_STAGES)))

    def change(self, **switches: Any) -> Config:
        """The same run with some switches set otherwise.

        Raises:
            ConfigError: there is no such switch, or it cannot have that value.
        """
        known = sorted(each.name for each in fields(self))
        if wrong := [name for name in switches if name not in known]:
            raise ConfigError(unknown("a switch of a run", wrong[0], known))
        return replace(self, **switches)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return asdict(self) | {"rungs": list(self.rungs)}


def from_dict(values: Mapping[str, Any]) -> Config:
    """The run that `Config.to_dict` described.

    Raises:
        ConfigError: a value is missing, unknown or cannot be.
    """
    known = {each.name for each in fields(Config)}
    if wrong := sorted(known.symmetric_difference(values)):
        raise ConfigError(f"expected a config of this version of Rooflab; {', '.join(wrong)} is missing or unknown")
    return Config(**(dict(values) | {"rungs": tuple(values["rungs"])}))


_COUNTS = ("layers", "width", "heads", "length", "vocabulary", "batch", "batch_factor", "accumulation", "tokens",
           "eval_tokens", "log_every")  # fmt: skip


# With tens of thousands of threads OpenMP ends the process; a mean that forgets nothing never moves.
_MOST = {"threads": 1024, "beta1": 0.9999, "beta2": 0.999999, "momentum": 0.9999}


def _validate(config: Config) -> None:
    for field in fields(config):
        name, value, kind = field.name, getattr(config, field.name), str(field.type)
        number = isinstance(value, int | float) and 0 <= value < math.inf
        most = _MOST.get(name, 2**62 if kind == "int" else 10**31)  # a counter of torch's has 64 bits
        wanted = {
            "True or False": kind != "bool" or isinstance(value, bool),
            "a whole number": kind != "int" or (isinstance(value, int) and not isinstance(value, bool)),
            "a number of zero or more": kind not in ("int", "float") or number,
            "1 or more": name not in _COUNTS or (number and value >= 1),
            # Of a gradient of zero AdamW makes 0 / (0 + epsilon), in fp32.
            "1e-30 or more": name != "epsilon" or (number and value >= 1e-30),
            f"at most {most:,}": kind not in ("int", "float") or value <= most,
            f"one of {', '.join(CHOICES.get(name, ()))}": value in CHOICES.get(name, (value,)),
        }
        for what, fine in wanted.items():
            if not fine:
                raise ConfigError(f"expected {name} to be {what}; found {value!r}")
    if config.width % config.heads or config.width // config.heads % 2:
        raise ConfigError(f"expected the width an even multiple of the heads; found {config.width}, {config.heads}")
    if config.warmup + config.cooldown > 1:
        raise ConfigError(f"expected warmup and cooldown to share the run; found {config.warmup} and {config.cooldown}")
    if config.zero_init and config.tied:
        raise ConfigError("expected tied=False with zero_init: a head that starts at zero cannot be the token table")
    if config.wide_heads and config.heads % 2:
        raise ConfigError(f"expected an even number of heads with wide_heads; found {config.heads}")
    if config.rotation == "kernel" and config.position != "rotary":
        raise ConfigError(f"expected position 'rotary' with rotation 'kernel'; found {config.position!r}")
    if config.mlp == "kernel" and config.activation != "squared relu":
        raise ConfigError(f"expected activation 'squared relu' with mlp 'kernel'; found {config.activation!r}")
    if config.precision == "fp8" and (config.width % 16 or config.sequences * config.length % 16):
        raise ConfigError("expected a width and a batch of multiples of 16 for fp8, which the matrix units ask for")


PRESETS: dict[str, Config] = {
    # Radford et al. 2019: the smallest GPT-2, without biases as nanoGPT trains it; one pass of `code`.
    "gpt2-small": Config(),
    # As much of a language model as two cores train in a few seconds.
    "tiny": Config(
        layers=2, width=64, heads=2, length=64, vocabulary=257, lr=3e-3, batch=8, tokens=100_000, eval_every=0,
        eval_tokens=16_384, threads=1, preset="tiny",
    ),
}  # fmt: skip


def preset(name: str) -> Config:
    """The baseline of this name.

    Raises:
        ConfigError: there is none.
    """
    if name not in PRESETS:
        raise ConfigError(f"expected a preset, one of {', '.join(PRESETS)}; found {name!r}")
    return PRESETS[name]
