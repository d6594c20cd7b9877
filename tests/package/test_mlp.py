"""The training step is the one that the cost model lists, in both frameworks, and it learns."""

import pytest

from rooflab import costs, count
from rooflab.device import Device
from rooflab.mlp import RATE, jax_step, torch_step, training_steps

WIDTHS, BATCH = (16, 32, 8), 24
# torch warns of itself when its compiler is imported.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
LISTED = costs.mlp(WIDTHS, BATCH, "fp32", training=True)


def test_three_ways_to_take_a_step():
    steps = training_steps(WIDTHS, Device("cpu", "x", torch="cpu", jax="cpu"))
    assert list(steps) == ["torch eager", "torch compiled", "JAX jitted"]


def test_torch_does_what_the_model_lists():
    steps = training_steps(WIDTHS, Device("cpu", "x", torch="cpu", jax="cpu"))
    counted = count(steps["torch eager"](BATCH))
    assert counted.flops == pytest.approx(LISTED.flops, rel=0.02)
    assert counted.bytes == pytest.approx(LISTED.bytes, rel=0.02)


def test_jax_takes_a_step_of_plain_gradient_descent():
    import jax
    import jax.numpy as jnp
    import numpy as np

    x = jax.random.normal(jax.random.key(1), (BATCH, WIDTHS[0]))
    y = jax.random.normal(jax.random.key(2), (BATCH, WIDTHS[-1]))
    keys = jax.random.split(jax.random.key(0), 2)
    (w0, b0), (w1, b1) = [
        (jax.random.normal(k, (i, o)) / i**0.5, jnp.zeros(o)) for k, i, o in zip(keys, WIDTHS, WIDTHS[1:], strict=False)
    ]
    hidden = np.maximum(np.asarray(x @ w0 + b0), 0)
    grad_out = 2 * (hidden @ np.asarray(w1) + np.asarray(b1) - np.asarray(y)) / y.size
    updated = jax_step(WIDTHS)(x, y)
    np.testing.assert_allclose(updated[1][0], w1 - RATE * hidden.T @ grad_out, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(updated[1][1], b1 - RATE * grad_out.sum(0), rtol=1e-5, atol=1e-6)
    grad_hidden = (grad_out @ np.asarray(w1).T) * (hidden > 0)
    np.testing.assert_allclose(updated[0][0], w0 - RATE * np.asarray(x).T @ grad_hidden, rtol=1e-5, atol=1e-6)


def test_torch_learns():
    import torch

    torch.manual_seed(0)
    seen = []
    step = torch_step((4, 8, 1), "cpu", lambda loss: lambda x, y: seen.append(loss(x, y)) or seen[-1])
    x = torch.randn(64, 4)
    for _ in range(50):
        step(x, x.sum(1, keepdim=True))
    losses = [loss.item() for loss in seen]
    assert losses[-1] < losses[0]
    assert losses == sorted(losses, reverse=True)
