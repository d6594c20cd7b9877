"""What tests of the kernels in Pallas share: kinds of devices, references in float64, lowering for chips not there."""

import contextlib
import functools
import warnings

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="needs JAX")

import jax.numpy as jnp  # noqa: E402

from rooflab.kernels import pallas_launching  # noqa: E402
from rooflab.tolerances import tolerance  # noqa: E402

SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
double = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
ON_CPU = jax.default_backend() == "cpu"


@contextlib.contextmanager
def interpreted_as(kind, monkeypatch, *modules):
    """Have the kernels of a kind of device run, interpreted: those of a GPU need not be lowered to be tried."""
    if kind == "here":
        yield
        return
    real = pallas_launching.parameters

    def parameters(wanted, **more):
        real(wanted, **more)  # which has to know its arguments
        return {"interpret": True}

    jax.clear_caches()
    for module in modules:
        monkeypatch.setattr(module, "on_each", lambda call, *arrays: call(kind, *arrays))
        monkeypatch.setattr(module, "parameters", parameters)
    yield
    jax.clear_caches()


def random(*shape, dtype="float32", seed=0, scale=1.0):
    """Normal numbers."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape) * scale, dtype)


def near(found, right, *, length, what="", terms=0.0):
    """Compare with a float64 reference; NaN and infinity have to stand in the same places.

    `terms` is the size of what is added up, where it may cancel.
    """
    assert found.shape == right.shape, what
    allowed = tolerance(SHORT[str(found.dtype)], length)
    right = np.asarray(right, np.float64)
    finite = right[np.isfinite(right)]
    scale = max(terms, float(np.abs(finite).max()) if finite.size else 0.0)
    np.testing.assert_allclose(
        np.asarray(found, np.float64),
        right,
        rtol=allowed.rtol,
        atol=allowed.atol + allowed.rtol * scale,
        equal_nan=True,
        err_msg=what,
    )


def agree(mine, reference, inputs, *, length, seed=9):
    """Compare a function and its gradients with a reference in float64."""

    def both(function, dy, *inputs):
        y, back = jax.vjp(function, *inputs)
        return y, *back(dy)

    shape = jax.eval_shape(mine, *inputs)
    dy = random(*shape.shape, dtype=str(shape.dtype), seed=seed)
    y, *found = jax.jit(functools.partial(both, mine))(dy, *inputs)
    with double(True):
        exact = [jnp.asarray(np.asarray(each, np.float64)) for each in (dy, *inputs)]
        right, *wanted = map(np.asarray, jax.jit(functools.partial(both, reference))(*exact))
    assert right.dtype == np.float64
    near(y, right, length=length, what="result")
    # The terms of a gradient are as large as those of the derivative, about y / x, times dy.
    terms = float(np.abs(np.asarray(dy, np.float64)).max() * np.abs(right).max() / np.abs(np.asarray(exact[1])).max())
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.dtype == inputs[number].dtype
        near(one, other, length=length, what=f"gradient {number}", terms=terms)


def lowered(function, *arguments, platform):
    """The program for a platform that need not be there, as text."""
    nothing = contextlib.nullcontext()
    place = nothing
    if platform == "cuda" and ON_CPU and hasattr(jax.sharding, "AbstractDevice"):  # since JAX 0.11 it has to be named
        from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

        with contextlib.suppress(TypeError):  # before, it could not be
            device = AbstractDevice(device_kind="NVIDIA H200", num_cores=132, platform="gpu")
            place = use_abstract_mesh(AbstractMesh((), (), abstract_device=device))
    with place, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The Pallas Triton backend is deprecated")
        return jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
