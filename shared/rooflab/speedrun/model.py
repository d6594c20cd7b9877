"""What does the transformer compute? One GPT in which every switch of `Config` can be seen.

Legend: B sequences, T tokens, d width, H heads, D = d / H, V rows of the token table.

>>> from rooflab.speedrun.config import preset
>>> model = GPT(preset("tiny"))
>>> zeros = torch.zeros(1, 4, dtype=torch.int64)
>>> 5.0 < model(zeros, zeros + 1).item() < 6.0  # about ln 257
True
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import attend, rotary_table, rotate
from .config import Config
from .fp8 import fp8_linear, fp8_mlp, reach
from .loss import capped, chunked_loss

__all__ = ["GPT", "Block", "compiled_as"]

Maybe: TypeAlias = Tensor | None
Pair: TypeAlias = tuple[Tensor, Tensor] | None
Run: TypeAlias = Callable[..., Any]

_STD = 0.02  # of initial weights, as in GPT-2


def called(part: Run, *given: Any) -> Any:
    """Call a part of the model. Compiled, this is one graph for all parts of a kind, such as the blocks."""
    return part(*given)


class Linear(nn.Module):
    """y = x W^T, without bias, in the format of x; the weight is kept in fp32. With `wide` it is never in 8 bits."""

    def __init__(
        self, inputs: int, outputs: int, config: Config, *, residual: bool = False, wide: bool = False
    ) -> None:
        super().__init__()
        std = _STD / (2 * config.layers) ** 0.5 if residual else _STD  # Radford et al. 2019, section 2.3
        zero = residual and config.zero_init
        self.weight = nn.Parameter(torch.zeros(outputs, inputs) if zero else torch.randn(outputs, inputs) * std)
        self.fp8 = config.precision == "fp8" and not wide

    def forward(self, x: Tensor, limit: Tensor | float | None = None) -> Tensor:
        """[..., inputs] -> [..., outputs]; no number in x exceeds the limit, if one is known."""
        return fp8_linear(x, self.weight, limit) if self.fp8 else F.linear(x, self.weight.to(x.dtype))


class Norm(nn.Module):
    """Layer norm with a gain, or RMS norm without one; statistics are in fp32 whatever the format of x."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(config.width)) if config.norm == "layer" else None
        # The length of each row that an RMS norm leaves.
        self.limit = None if config.norm == "layer" else config.width**0.5

    def forward(self, x: Tensor) -> Tensor:
        """[..., d] -> [..., d]."""
        return rms(x) if self.gain is None else F.layer_norm(x, x.shape[-1:], self.gain.to(x.dtype))


def rms(x: Tensor) -> Tensor:
    """Divide each row by its root mean square."""
    x32 = x.float()
    return (x32 * torch.rsqrt(x32.square().mean(dim=-1, keepdim=True) + 1e-6)).to(x.dtype)


class Shift(nn.Module):
    """Mix each token with the one before it, channel by channel: attention can then look for what followed a word."""

    def __init__(self, width: int) -> None:
        super().__init__()
        # Half of the channels begin as the mean of both tokens, half as they were.
        self.share = nn.Parameter(torch.cat((torch.full((width // 2,), 0.5), torch.zeros(width - width // 2))))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, d] -> [B, T, d]; nothing stands before the first token."""
        before = F.pad(x[:, :-1], (0, 0, 1, 0))
        return x + self.share.to(x.dtype) * (before - x)

    def grown(self, limit: float | None) -> Tensor | None:
        """What no number that comes out exceeds, where none that came in exceeds the limit."""
        share = self.share.detach()
        return None if limit is None else ((1 - share).abs() + share.abs()).amax() * limit


class Block(nn.Module):
    """Attention and an MLP, each behind a norm and added to what came in."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, d = config, config.width
        self.norm1, self.norm2 = Norm(config), Norm(config)
        self.qkv = Linear(d, 3 * d, config)
        # Attention leaves its result in 16 bits: converting it would take as long as its small product saves.
        self.projection = Linear(d, d, config, residual=True, wide=True)
        self.up = Linear(d, 4 * d, config)
        self.down = Linear(4 * d, d, config, residual=True)
        self.shift = Shift(d) if config.token_shift else None
        self.value_mix = nn.Parameter(torch.tensor([1.0, 0.0])) if config.value_skip else None

    def forward(self, x: Tensor, values: Maybe, angles: Pair, mask: Any, skip: Pair = None) -> tuple[Tensor, Maybe]:
        """[B, T, d] -> [B, T, d], and the values [B, H, T, D] if others need them; `values` are the first block's.

        `skip`: how much of another block's output is added to what comes in.
        """
        if skip is not None:
            x = x + skip[0].to(x.dtype) * skip[1]
        mixed, v = self.mix(self.norm1(x), values, angles, mask)
        x = x + mixed
        return x + self.mlp(self.norm2(x)), v if values is None and self.value_mix is not None else None

    def mlp(self, x: Tensor) -> Tensor:
        """[B, T, d] -> [B, T, d]."""
        limit, up, down = self.norm2.limit, self.up.weight, self.down.weight
        if self.config.mlp == "kernel" and self.up.fp8:
            return fp8_mlp(x, up, down, limit)
        if self.config.mlp == "kernel":
            from ..kernels import squared_relu_mlp

            return squared_relu_mlp(x, up.to(x.dtype), down.to(x.dtype))
        hidden, power = self.up(x, limit), 1 if self.config.activation == "gelu" else 2
        hidden = F.gelu(hidden) if power == 1 else F.relu(hidden).square()  # [B, T, 4 d]
        return self.down(hidden, reach(up, limit, power) if self.down.fp8 and limit else None)

    def mix(self, x: Tensor, values: Maybe, angles: Pair, mask: Any) -> tuple[Tensor, Tensor]:
        """Attention, [B, T, d] -> [B, T, d]."""
        batch, length, d = x.shape
        limit: Tensor | float | None = self.norm1.limit
        if self.shift is not None:
            x, limit = self.shift(x), self.shift.grown(self.norm1.limit)
        q, k, v = self.heads(self.qkv(x, limit).view(batch, length, 3, self.config.head_count, -1), angles)
        if self.value_mix is not None:
            own, first = self.value_mix.to(x.dtype)
            v = own * v + first * (v if values is None else values)
        mixed = attend(q, k, v, self.config.attention, mask)
        return self.projection(mixed.transpose(1, 2).reshape(batch, length, d)), v

    def heads(self, qkv: Tensor, angles: Pair) -> tuple[Tensor, ...]:
        """Queries, keys and values, [B, H, T, D] each, out of one product [B, T, 3, H, D]."""
        if self.config.rotation == "kernel" and angles is not None:
            from ..kernels import rotary_heads

            return tuple(rotary_heads(qkv, *angles, normalize=self.config.qk_norm))
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        if self.config.qk_norm:
            q, k = rms(q), rms(k)
        if angles is not None:
            q, k = rotate(q, *angles), rotate(k, *angles)
        return q, k, v


class GPT(nn.Module):
    """A decoder-only transformer; called with tokens and their successors it returns the mean loss in nats."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, d, length = config, config.width, config.length
        self.format = torch.bfloat16 if config.precision in ("bf16", "fp8") else torch.float32
        self.table = nn.Parameter(torch.randn(config.rows, d) * _STD)  # [V, d]
        self.positions = nn.Parameter(torch.randn(length, d) * _STD) if config.position == "learned" else None
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = Norm(config)
        make = torch.zeros if config.zero_init else torch.randn
        self.untied = None if config.tied else nn.Parameter(make(config.rows, d) * _STD)
        self.skips = nn.Parameter(torch.zeros(config.layers // 2)) if config.value_skip else None
        if config.position == "rotary":
            for name, value in zip(("cosine", "sine"), rotary_table(length, d // config.head_count), strict=True):
                self.register_buffer(name, value, persistent=False)

    @property
    def head(self) -> Tensor:
        """The last layer's weight, [V, d]: the token table, or one of its own."""
        return self.table if self.untied is None else self.untied

    def enter(self, tokens: Tensor) -> Tensor:
        """Tokens [B, T] -> what the first block reads, [B, T, d]."""
        x = F.embedding(tokens, self.table)
        if self.positions is not None:
            x = x + self.positions[: tokens.shape[1]]
        x = x.to(self.format)
        return rms(x) if self.config.norm == "rms" else x

    def hidden(self, tokens: Tensor, mask: Any = None, run: Run = called) -> Tensor:
        """Tokens [B, T] -> what comes out of the last block, [B, T, d]."""
        x, length = run(self.enter, tokens), tokens.shape[1]
        angles = (self.cosine[:length], self.sine[:length]) if self.config.position == "rotary" else None
        outputs: list[Tensor] = []
        values = None
        for number, block in enumerate(self.blocks):
            mirrored, skip = self.config.layers - 1 - number, None
            if self.skips is not None and mirrored < number:  # a view: x itself would be another kind of call
                skip = self.skips[mirrored], outputs[mirrored].view(x.shape)
            x, own = run(block, x, values, angles, mask, skip)
            values = values if own is None else own
            outputs.append(x)
        return x

    def forward(self, tokens: Tensor, targets: Tensor, mask: Any = None, run: Run = called) -> Tensor:
        """Mean over all tokens of -ln p(target), a number in fp32. Padding counts as words that never come."""
        x, config = run(self.norm, self.hidden(tokens, mask, run)).flatten(0, 1), self.config
        if config.loss == "plain":
            return run(self.plain_loss, x, targets.flatten())
        form = config.softcap, self.norm.limit, config.precision == "fp8", config.loss == "kernel"
        return chunked_loss(x, self.head, targets.flatten(), form, run)

    def plain_loss(self, x: Tensor, targets: Tensor) -> Tensor:
        """What the last layer reads, [N, d], and the next tokens [N] -> the loss, of all logits at once."""
        return F.cross_entropy(self.logits(x), targets)

    def logits(self, x: Tensor) -> Tensor:
        """What the last layer reads, [..., d] -> logits [..., V] in fp32, those of padding among them."""
        fp8 = self.config.precision == "fp8"
        z = fp8_linear(x, self.head, self.norm.limit) if fp8 else F.linear(x, self.head.to(x.dtype))
        return capped(z, self.config.softcap).float()


def compiled_as(model: GPT, form: str) -> Run:
    """The model, to be called like itself, as one graph ("model") or as one for each kind of part ("blocks")."""
    run: Run = torch.compile(model if form == "model" else called, dynamic=False)
    return run if form == "model" else partial(model.__call__, run=run)
