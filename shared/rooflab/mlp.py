"""What does a training step look like in each framework?

The same multilayer perceptron, loss and update in torch and in JAX: mean squared error, plain gradient descent. Its
cost is ``costs.mlp_parts``.

>>> import torch
>>> step = torch_step((4, 8, 2), "cpu")
>>> step(torch.zeros(3, 4), torch.zeros(3, 2))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from .device import Device

__all__ = ["jax_step", "torch_step", "training_steps"]

RATE = 1e-3  # learning rate
Step = Callable[[Any, Any], Any]


def torch_step(widths: Sequence[int], device: str, compiler: Callable[[Any], Any] = lambda f: f) -> Step:
    """A step in torch, ``step(x, y)`` with x of shape (batch, widths[0]) and y of (batch, widths[-1]).

    Args:
        widths: of the input, of each hidden layer and of the output.
        device: torch's device string.
        compiler: what to do with the loss before it is used, such as ``torch.compile``.
    """
    import torch

    layers = [layer for i, o in pairwise(widths) for layer in (torch.nn.Linear(i, o), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers[:-1]).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    loss_of = compiler(lambda x, y: torch.nn.functional.mse_loss(model(x), y))

    def step(x: Any, y: Any) -> None:
        optimizer.zero_grad()
        loss_of(x, y).backward()
        optimizer.step()

    return step


def jax_step(widths: Sequence[int]) -> Step:
    """The same step in JAX, as one jitted program; ``step(x, y)`` returns the updated parameters."""
    import jax
    import jax.numpy as jnp

    def loss(params: Any, x: Any, y: Any) -> Any:
        *hidden, (last_w, last_b) = params
        for w, b in hidden:
            x = jax.nn.relu(x @ w + b)
        return jnp.mean((x @ last_w + last_b - y) ** 2)

    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        return jax.tree.map(lambda p, g: p - RATE * g, params, jax.grad(loss)(params, x, y))

    keys = jax.random.split(jax.random.key(0), len(widths) - 1)
    params = [
        (jax.random.normal(k, (i, o)) / i**0.5, jnp.zeros(o)) for k, (i, o) in zip(keys, pairwise(widths), strict=True)
    ]
    return lambda x, y: update(params, x, y)


def training_steps(widths: Sequence[int], device: Device) -> dict[str, Callable[[int], Callable[[], Any]]]:
    """The step in each framework, as ``{name: make}``; ``make(batch)`` draws a batch and returns a call of one step.

    Args:
        widths: of the input, of each hidden layer and of the output.
        device: where torch and JAX compute.
    """
    import jax
    import torch

    where = device.torch or "cpu"
    steps = {
        "torch eager": torch_step(widths, where),
        "torch compiled": torch_step(widths, where, lambda loss: torch.compile(loss, dynamic=True)),
        "JAX jitted": jax_step(widths),
    }

    def make(name: str, batch: int) -> Callable[[], Any]:
        shapes = [(batch, widths[0]), (batch, widths[-1])]
        if name.startswith("torch"):
            x, y = (torch.randn(shape, device=where) for shape in shapes)
        else:
            x, y = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate(shapes))
        return lambda: steps[name](x, y)

    return {name: lambda batch, name=name: make(name, batch) for name in steps}  # type: ignore[misc]
