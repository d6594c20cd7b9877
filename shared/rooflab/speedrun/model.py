"""What does the transformer compute? One GPT in which every switch of `Config` can be seen.

Legend: B sequences, T tokens, d width, H heads, D = d / H, V rows of the token table.

>>> from rooflab.speedrun.config import preset
>>> model = GPT(preset("tiny"))
>>> zeros = torch.zeros(1, 4, dtype=torch.int64)
>>> 5.0 < model(zeros, zeros + 1).item() < 6.0  # about ln 257
True
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn import functional as F

from .attention import attend, rotary_table, rotate
from .config import LOSS_CHUNK, Config
from .fp8 import fp8_linear, fp8_mlp, fp8_product, reach

__all__ = ["GPT", "Block", "chunked_loss"]

Maybe: TypeAlias = torch.Tensor | None
Angles: TypeAlias = tuple[torch.Tensor, torch.Tensor] | None

_STD = 0.02  # of initial weights, as in GPT-2


class Linear(nn.Module):
    """y = x W^T, without bias, in the format of x; the weight is kept in fp32. With `wide` it is never in 8 bits."""

    def __init__(
        self, inputs: int, outputs: int, config: Config, *, into_residual: bool = False, wide: bool = False
    ) -> None:
        super().__init__()
        std = _STD / (2 * config.layers) ** 0.5 if into_residual else _STD  # Radford et al. 2019, section 2.3
        zero = into_residual and config.zero_init
        self.weight = nn.Parameter(torch.zeros(outputs, inputs) if zero else torch.randn(outputs, inputs) * std)
        self.fp8 = config.precision == "fp8" and not wide

    def forward(self, x: torch.Tensor, limit: torch.Tensor | float | None = None) -> torch.Tensor:
        """[..., inputs] -> [..., outputs]; no number in x exceeds the limit, if one is known."""
        return fp8_linear(x, self.weight, limit) if self.fp8 else F.linear(x, self.weight.to(x.dtype))


class Norm(nn.Module):
    """Layer norm with a gain, or RMS norm without one; statistics are in fp32 whatever the format of x."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(config.width)) if config.norm == "layer" else None
        # The length of each row that an RMS norm leaves.
        self.limit = None if config.norm == "layer" else config.width**0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., d] -> [..., d]."""
        if self.gain is None:
            return rms(x)
        return F.layer_norm(x, x.shape[-1:], self.gain.to(x.dtype))


def rms(x: torch.Tensor) -> torch.Tensor:
    """Divide each row by its root mean square."""
    x32 = x.float()
    return (x32 * torch.rsqrt(x32.square().mean(dim=-1, keepdim=True) + 1e-6)).to(x.dtype)


class Shift(nn.Module):
    """Mix each token with the one before it, channel by channel: attention can then look for what followed a word."""

    def __init__(self, width: int) -> None:
        super().__init__()
        # Half of the channels begin as the mean of both tokens, half as they were.
        self.share = nn.Parameter(torch.cat((torch.full((width // 2,), 0.5), torch.zeros(width - width // 2))))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, T, d] -> [B, T, d]; nothing stands before the first token."""
        before = F.pad(x[:, :-1], (0, 0, 1, 0))
        return x + self.share.to(x.dtype) * (before - x)

    def grown(self, limit: float | None) -> torch.Tensor | None:
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
        self.projection = Linear(d, d, config, into_residual=True, wide=True)
        self.up = Linear(d, 4 * d, config)
        self.down = Linear(4 * d, d, config, into_residual=True)
        self.shift = Shift(d) if config.token_shift else None
        self.value_mix = nn.Parameter(torch.tensor([1.0, 0.0])) if config.value_skip else None

    def forward(self, x: torch.Tensor, values: Maybe, angles: Angles, mask: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """[B, T, d] -> [B, T, d], and the values [B, H, T, D]; `values` are those of the first block."""
        mixed, v = self.mix(self.norm1(x), values, angles, mask)
        x = x + mixed
        return x + self.mlp(self.norm2(x)), v

    def mlp(self, x: torch.Tensor) -> torch.Tensor:
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

    def mix(self, x: torch.Tensor, values: Maybe, angles: Angles, mask: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention, [B, T, d] -> [B, T, d]."""
        batch, length, d = x.shape
        limit: torch.Tensor | float | None = self.norm1.limit
        if self.shift is not None:
            x, limit = self.shift(x), self.shift.grown(self.norm1.limit)
        q, k, v = self.heads(self.qkv(x, limit).view(batch, length, 3, self.config.head_count, -1), angles)
        if self.value_mix is not None:
            own, first = self.value_mix.to(x.dtype)
            v = own * v + first * (v if values is None else values)
        mixed = attend(q, k, v, self.config.attention, mask)
        return self.projection(mixed.transpose(1, 2).reshape(batch, length, d)), v

    def heads(self, qkv: torch.Tensor, angles: Angles) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values, [B, H, T, D] each, out of one product [B, T, 3, H, D]."""
        if self.config.rotation == "kernel" and angles is not None:
            from ..kernels import rotary_heads

            q, k, v = rotary_heads(qkv, *angles, normalize=self.config.qk_norm)
            return q, k, v
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
    def head(self) -> torch.Tensor:
        """The last layer's weight, [V, d]: the token table, or one of its own."""
        return self.table if self.untied is None else self.untied

    def hidden(self, tokens: torch.Tensor, mask: Any = None) -> torch.Tensor:
        """Tokens [B, T] -> what the last layer reads, [B, T, d]."""
        length = tokens.shape[1]
        x = F.embedding(tokens, self.table)
        if self.positions is not None:
            x = x + self.positions[:length]
        x = x.to(self.format)
        if self.config.norm == "rms":
            x = rms(x)
        angles = (self.cosine[:length], self.sine[:length]) if self.config.position == "rotary" else None
        outputs: list[torch.Tensor] = []
        values = None
        for number, block in enumerate(self.blocks):
            mirrored = self.config.layers - 1 - number
            if self.skips is not None and mirrored < number:
                x = x + self.skips[mirrored].to(x.dtype) * outputs[mirrored]
            x, own = block(x, values, angles, mask)
            values = own if values is None and self.config.value_skip else values
            outputs.append(x)
        return self.norm(x)

    def logits(self, tokens: torch.Tensor, mask: Any = None) -> torch.Tensor:
        """Tokens [B, T] -> logits of the next ones, [B, T, vocabulary] in fp32; rows of padding are cut off."""
        z = capped(F.linear(self.hidden(tokens, mask), self.head.to(self.format)), self.config.softcap)
        return z[..., : self.config.vocabulary].float()

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor, mask: Any = None) -> torch.Tensor:
        """Mean over all tokens of -ln p(target), a number in fp32. Padding counts as words that never come."""
        x, targets = self.hidden(tokens, mask).view(-1, self.config.width), targets.reshape(-1)
        fp8, limit = self.config.precision == "fp8", self.norm.limit
        if self.config.loss != "plain":
            return chunked_loss(x, self.head, targets, self.config.softcap, fp8=fp8, limit=limit,
                                kernel=self.config.loss == "kernel")  # fmt: skip
        z = fp8_linear(x, self.head, limit) if fp8 else F.linear(x, self.head.to(x.dtype))
        return F.cross_entropy(capped(z, self.config.softcap).float(), targets)


def capped(z: torch.Tensor, cap: float) -> torch.Tensor:
    """Logits pressed into -cap to cap, c tanh(z / c) in fp32; as they are where the cap is 0."""
    return cap * torch.tanh(z.float() / cap) if cap else z


def losses_of(z: torch.Tensor, target: torch.Tensor, cap: float, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of the losses of logits [chunk, V], and the gradient of that sum (without `train` it is left out)."""
    u = capped(z, cap).float()
    log_sum = u.logsumexp(dim=-1, keepdim=True)
    total = (log_sum - u.gather(1, target[:, None])).sum()
    if not train:
        return total, z
    words = torch.arange(u.shape[1], device=u.device)
    dz = (u - log_sum).exp() - (words == target[:, None]).float()
    if cap:  # d/dz of c tanh(z / c) is 1 - tanh^2
        dz = dz * (1 - (u / cap).square())
    return total, dz.to(z.dtype)


def losses_by_kernel(
    z: torch.Tensor, target: torch.Tensor, cap: float, train: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, by one kernel."""
    from ..kernels.loss.torch_cross_entropy import losses_and_gradient

    losses, dz = losses_and_gradient(z, target, cap, -100, train)
    return losses.sum(), dz


class _ChunkedLoss(torch.autograd.Function):
    """Last layer, cap and cross-entropy; both gradients are made while a chunk's logits are there."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, head: torch.Tensor, targets: torch.Tensor, cap: float, fp8: bool, kernel: bool,
        limit: float | None, train: bool,
    ) -> torch.Tensor:  # fmt: skip
        weight, find = head.to(x.dtype), losses_by_kernel if kernel else losses_of
        by_weight = fp8_product(head, limit) if fp8 else lambda rows: rows @ weight.t()
        total, parts = torch.zeros((), device=x.device), []
        dw = torch.zeros_like(head, dtype=torch.float32)
        for rows, target in zip(x.split(LOSS_CHUNK), targets.split(LOSS_CHUNK), strict=True):
            loss, dz = find(by_weight(rows), target, cap, train)
            total = total + loss
            if train:
                parts.append(dz @ weight)
                dw = dw + (dz.t() @ rows).float()
        ctx.tokens = targets.numel()
        if train:
            ctx.save_for_backward(torch.cat(parts), dw)
        return total / ctx.tokens

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        dx, dw = ctx.saved_tensors
        part = grads[0] / ctx.tokens
        return (dx * part).to(dx.dtype), dw * part, None, None, None, None, None, None


def chunked_loss(
    x: torch.Tensor, head: torch.Tensor, targets: torch.Tensor, cap: float = 0.0, *, fp8: bool = False,
    kernel: bool = False, limit: float | None = None,
) -> torch.Tensor:  # fmt: skip
    """The loss of x [N, d] under the last layer [V, d], with at most 8,192 tokens' logits in memory.

    With `fp8` the logits are made in 8 bits; the gradients, whose errors the chunks would add up, in the format of x.
    With `kernel` the softmax is one kernel, not what a compiler makes of its formula. No number in x exceeds `limit`.

    Sources: Hsu et al. 2024 (Liger), Wijmans et al. 2024.
    """
    return _ChunkedLoss.apply(x, head, targets, cap, fp8, kernel, limit, torch.is_grad_enabled())
