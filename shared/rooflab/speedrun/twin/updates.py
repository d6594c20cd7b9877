"""How does the twin update its parameters? AdamW and Muon as torch's optimizers do it, as one function of everything.

>>> u = orthogonal(jnp.array([[[3.0, 0.0], [0.0, -0.5]]]))
>>> bool(jnp.abs(u - jnp.array([[1.0, 0.0], [0.0, -1.0]])).max() < 0.35)
True
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..config import Config
from ..muon import COEFFICIENTS
from .model import Params

__all__ = ["State", "orthogonal", "start", "step"]

State = dict[str, Any]


def _stacks(params: Params) -> dict[str, list[str]]:
    """The matrices of the blocks by kind: those of one kind have one shape."""
    found: dict[str, list[str]] = {}
    for name, value in params.items():
        if name.startswith("blocks.") and value.ndim == 2:
            found.setdefault(name.split(".", 2)[2], []).append(name)
    return found


def _by_adamw(params: Params, config: Config) -> list[str]:
    matrices = {name for names in _stacks(params).values() for name in names}
    return [name for name in params if config.optimizer == "adamw" or name not in matrices]


def _stacked(params: Params, names: list[str]) -> Any:
    """Matrices of one kind as [n, r, c]; queries, keys and values are three, each with its own singular values."""
    rows, columns = params[names[0]].shape
    parts = 3 if "qkv" in names[0] else 1
    return jnp.stack([params[name] for name in names]).reshape(len(names) * parts, rows // parts, columns)


def start(params: Params, config: Config) -> State:
    """Moments before the first step."""
    zeros = {name: jnp.zeros_like(params[name]) for name in _by_adamw(params, config)}
    averages = {kind: jnp.zeros_like(_stacked(params, names)) for kind, names in _stacks(params).items()}
    # Two sets of zeros, since a compiled step may write over what it is given.
    return {"count": jnp.zeros((), jnp.float32), "first": zeros, "second": jax.tree.map(jnp.copy, zeros),
            "averages": averages if config.optimizer == "muon" else {}}  # fmt: skip


def step(params: Params, state: State, grads: Params, share: Any, config: Config) -> tuple[Params, State, Any]:
    """One update; returns parameters, moments, and the norm that the gradient had.

    Args:
        params, state, grads: before it.
        share: the learning rates as a share of their peaks, a number on the device.
        config: which optimizer, and its numbers.
    """
    norm = jnp.sqrt(sum(jnp.square(grad).sum() for grad in grads.values()))
    factor = jnp.minimum(config.clip / (norm + 1e-6), 1.0) if config.clip else 1.0
    grads = {name: jnp.where(jnp.isfinite(norm), grad * factor, 0.0) for name, grad in grads.items()}
    params, count = dict(params), state["count"] + 1
    first, second, averages = {}, {}, {}
    for name in _by_adamw(params, config):
        grad = grads[name]
        m = first[name] = state["first"][name] + (grad - state["first"][name]) * (1 - config.beta1)
        v = second[name] = config.beta2 * state["second"][name] + (1 - config.beta2) * jnp.square(grad)
        scale = jnp.sqrt(v / (1 - config.beta2**count)) + config.epsilon
        decay = config.weight_decay if grad.ndim > 1 else 0.0
        is_table = grad.ndim > 1 and not name.startswith("blocks.")
        lr = share * config.lr * config.lr_factor * (config.table_factor if is_table else 1.0)
        params[name] = params[name] * (1 - lr * decay) - lr / (1 - config.beta1**count) * m / scale
    for kind, names in _stacks(params).items() if config.optimizer == "muon" else ():
        rate = share * config.matrix_lr
        values, grad = _stacked(params, names), _stacked(grads, names)
        average = averages[kind] = state["averages"][kind] + (grad - state["averages"][kind]) * (1 - config.momentum)
        update = orthogonal(grad + (average - grad) * config.momentum)  # Nesterov's look ahead
        rows, columns = grad.shape[1:]
        decay = config.weight_decay * config.lr / config.matrix_lr
        values = values * (1 - rate * decay) - rate * max(1.0, rows / columns) ** 0.5 * update.astype(jnp.float32)
        params |= zip(names, values.reshape(len(names), *params[names[0]].shape), strict=True)
    return params, {"count": count, "first": first, "second": second, "averages": averages}, norm


def orthogonal(stack: Any, *, steps: int = 5) -> Any:
    """The nearest matrix with orthonormal rows or columns, about, for each of [n, r, c]; see `speedrun.muon`."""
    a, b, c = COEFFICIENTS
    x = stack.astype(jnp.bfloat16 if jax.default_backend() == "gpu" else jnp.float32)
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    size = jnp.sqrt(jnp.square(x.astype(jnp.float32)).sum(axis=(-2, -1), keepdims=True))
    x = x / (size + 1e-7).astype(x.dtype)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.mT if tall else x
