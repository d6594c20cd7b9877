"""What does the transformer compute, in JAX? Plain functions of a dictionary of arrays, which bears torch's names.

Legend: B sequences, T tokens, d width, H heads, D = d / H, V rows of the token table.

>>> from rooflab.speedrun.config import preset
>>> config = preset("tiny")
>>> tokens = jnp.zeros((1, 4), dtype=jnp.int32)
>>> bool(5.0 < loss(initial(config), tokens, tokens + 1, config) < 6.0)  # about ln 257
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ..config import Config

__all__ = ["Params", "hidden", "initial", "loss"]

Params = dict[str, Any]


def initial(config: Config) -> Params:
    """The values that torch's model starts from with this seed, as arrays in fp32 under the same names."""
    import torch

    from ..model import GPT

    torch.manual_seed(config.seed)
    return {name: jnp.asarray(value.detach().numpy()) for name, value in GPT(config).named_parameters()}


def norm(x: Any, gain: Any) -> Any:
    """Layer norm with a gain, [..., d]; statistics are in fp32 whatever the format of x."""
    x32 = x.astype(jnp.float32)
    centred = x32 - x32.mean(axis=-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt(jnp.square(centred).mean(axis=-1, keepdims=True) + 1e-5)
    return (scaled * gain).astype(x.dtype)


def linear(x: Any, weight: Any) -> Any:
    """x W^T in the format of x: [..., inputs] and [outputs, inputs] -> [..., outputs]."""
    return x @ weight.astype(x.dtype).T


def attend(q: Any, k: Any, v: Any, config: Config) -> Any:
    """Causal attention, [B, T, H, D] -> [B, T, H, D]."""
    if config.attention == "fused":
        # cuDNN takes 16-bit operands on a GPU of NVIDIA's; elsewhere XLA does what it can with the plain form.
        fits = jax.default_backend() == "gpu" and q.dtype == jnp.bfloat16
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn" if fits else "xla")
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])  # [B, H, T, T]
    past = jnp.tril(jnp.ones(scores.shape[-2:], dtype=bool))
    weights = jax.nn.softmax(jnp.where(past, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhts,bshd->bthd", weights, v)


def block(x: Any, weights: Mapping[str, Any], config: Config) -> Any:
    """Attention and an MLP, each behind a norm and added to what came in, [B, T, d] -> [B, T, d]."""
    batch, length, d = x.shape
    heads = linear(norm(x, weights["norm1.gain"]), weights["qkv.weight"]).reshape(batch, length, 3, config.heads, -1)
    q, k, v = (heads[:, :, part] for part in range(3))
    mixed = attend(q, k, v, config).reshape(batch, length, d)
    x = x + linear(mixed, weights["projection.weight"])
    wide = jax.nn.gelu(linear(norm(x, weights["norm2.gain"]), weights["up.weight"]), approximate=False)
    return x + linear(wide, weights["down.weight"])


def hidden(params: Params, tokens: Any, config: Config) -> Any:
    """Tokens [B, T] -> what the last layer reads, [B, T, d]."""
    x = params["table"][tokens] + params["positions"][: tokens.shape[1]]
    x = x.astype(jnp.bfloat16 if config.precision == "bf16" else jnp.float32)
    for number in range(config.layers):
        start = f"blocks.{number}."
        x = block(x, {name.removeprefix(start): each for name, each in params.items() if name.startswith(start)},
                  config)  # fmt: skip
    return norm(x, params["norm.gain"])


def loss(params: Params, tokens: Any, targets: Any, config: Config) -> Any:
    """Mean over all tokens of -ln p(target), a number in fp32. Padding counts as words that never come."""
    z = linear(hidden(params, tokens, config), params["table"]).astype(jnp.float32)  # [B, T, V]
    # The target's logit as a sum over words: its gradient is a comparison, where that of a lookup writes all zeros.
    words = jax.lax.broadcasted_iota(jnp.int32, z.shape, 2)
    wanted = jnp.where(words == targets[..., None], z, 0.0).sum(axis=-1)
    return (jax.nn.logsumexp(z, axis=-1) - wanted).mean()
