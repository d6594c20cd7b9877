"""Softmax, RMS norm and layer norm for JAX, against float64: shapes, formats, values, transformations, devices."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .pallas_agreement import ON_CPU, agree, interpreted_as, jax, jnp, lowered, near, np, random

from rooflab import kernels  # isort: skip
from rooflab.kernels.rows import pallas_blocks, pallas_norm, pallas_norm_long, pallas_softmax  # isort: skip

SHAPES = [(1, 1), (2, 3, 33), (64, 64), (70, 3), (7, 64), (1, 1000), (9, 129)]
ROWS_OPS = ["softmax", "rms_norm", "layer_norm"]
SHARED = Path(__file__).resolve().parents[2] / "shared"


def normalized(x, eps):
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + eps)


def functions(name, cols, dtype="float32"):
    """Our function, the reference and the parameters."""
    weight, bias = random(cols, dtype=dtype, seed=1), random(cols, dtype=dtype, seed=2)
    if name == "softmax":
        return kernels.softmax, functools.partial(jax.nn.softmax, axis=-1), []
    if name == "rms_norm":
        return kernels.rms_norm, lambda x, w: normalized(x, 1e-6) * w, [weight]
    return (
        kernels.layer_norm,
        lambda x, w, b: normalized(x - x.mean(-1, keepdims=True), 1e-5) * w + b,
        [weight, bias],
    )


@pytest.fixture(params=["here", *(["gpu", "tpu"] if ON_CPU else [])])
def kind(request, monkeypatch):
    """The kernels of this machine's kind of device; on a CPU those of the other kinds, too, interpreted."""
    with interpreted_as(request.param, monkeypatch, pallas_softmax, pallas_norm):
        yield request.param


@pytest.mark.parametrize("name", ROWS_OPS)
def test_results_and_gradients_agree_with_float64(name, kind):
    narrow = [(shape, dtype) for shape in ((9, 129), (4,)) for dtype in ("bfloat16", "float16")]
    for shape, dtype in [*((shape, "float32") for shape in (SHAPES if kind == "here" else SHAPES[:4])), *narrow]:
        mine, reference, parameters = functions(name, shape[-1], dtype)
        rows = max(1, int(np.prod(shape[:-1])))
        agree(mine, reference, [random(*shape, dtype=dtype), *parameters], length=max(shape[-1], rows))


@pytest.mark.parametrize("name", ROWS_OPS)
def test_many_rows_are_shared_out_among_programs(name, kind, monkeypatch):
    """Each program takes rows several times, and the last one has less to do."""
    monkeypatch.setattr(pallas_blocks, "processors", lambda: 3)
    monkeypatch.setattr(pallas_blocks, "_VMEM_BLOCK", 1 << 12)
    mine, reference, parameters = functions(name, 130)
    agree(mine, reference, [random(203, 130), *parameters], length=203)


@pytest.mark.skipif(not ON_CPU, reason="the kernels of a GPU are interpreted here, and JAX has a GPU")
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize("together", [4, 1])
def test_long_rows_are_taken_in_pieces(name, together, monkeypatch):
    """Three pieces, the last one shorter; rows and columns in several programs, the last of them with less to do."""
    with interpreted_as("gpu", monkeypatch, pallas_softmax, pallas_norm):
        monkeypatch.setattr(pallas_norm, "_LONG", {False: 100, True: 100})
        for constant, value in (("_PIECE", 64), ("_TILE", (4, 32)), ("_SHARES", 3), ("_TOGETHER", together)):
            monkeypatch.setattr(pallas_norm_long, constant, value)
        monkeypatch.setattr(pallas_norm_long, "parameters", pallas_norm.parameters)
        mine, reference, parameters = functions(name, 130)
        agree(mine, reference, [random(23, 130), *parameters], length=130)
        without = [random(23, 130), parameters[0]]
        if name == "layer_norm":
            agree(lambda x, w: mine(x, w, None), lambda x, w: reference(x, w, 0), without, length=130)


@pytest.mark.parametrize("name", ROWS_OPS)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0,), (2, 0, 4)], ids=str)
def test_what_is_empty_stays_empty(name, shape):
    mine, _, parameters = functions(name, shape[-1])
    y, back = jax.vjp(mine, jnp.zeros(shape), *parameters)
    assert y.shape == shape
    dx, *others = back(y)
    assert dx.shape == shape
    assert all(each.shape == shape[-1:] and not each.any() for each in others)


def test_infinities_and_nan_in_softmax_are_those_of_torch(kind):
    inf, nan = float("inf"), float("nan")
    rows = [[0.0, -inf, 1.0], [-inf, -inf, -inf], [inf, 0.0, 1.0], [nan, 0.0, 1.0], [3e38, -3e38, 3e38]]
    right = [[0.2689414213699951, 0.0, 0.7310585786300049], *[[nan] * 3] * 3, [0.5, 0.0, 0.5]]
    near(kernels.softmax(jnp.array(rows)), np.array(right), length=3)


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_nan_stays_in_its_row(name, kind):
    x = random(3, 8).at[1, 2].set(float("nan"))
    mine, reference, parameters = functions(name, 8)
    y = mine(x, *parameters)
    assert np.isnan(y).all(1).tolist() == [False, True, False]
    near(y, reference(x, *parameters), length=8)


@pytest.mark.parametrize("name", ROWS_OPS)
def test_large_numbers_do_not_overflow(name, kind):
    mine, reference, parameters = functions(name, 50, "float16")
    agree(mine, reference, [random(4, 50, scale=1e4, dtype="float16"), *parameters], length=50)


def test_parameters_may_be_more_exact_than_the_rows(kind):
    x, weight = random(5, 16, dtype="bfloat16"), random(16, seed=1)
    y, back = jax.vjp(kernels.rms_norm, x, weight)
    dx, dw = back(y)
    assert (y.dtype, dx.dtype, dw.dtype) == (jnp.bfloat16, jnp.bfloat16, jnp.float32)


def test_layer_norm_without_a_bias(kind):
    mine, reference = lambda x, w: kernels.layer_norm(x, w, None), lambda x, w: functions("layer_norm", 16)[1](x, w, 0)
    agree(mine, reference, [random(5, 16), random(16, seed=1)], length=16)


def test_eps_counts(kind):
    x = random(2, 8, scale=1e-3)
    near(kernels.rms_norm(x, jnp.ones(8), 1.0), normalized(x, 1.0), length=8)
    near(kernels.layer_norm(x, jnp.ones(8), None, eps=1.0), normalized(x - x.mean(1, keepdims=True), 1.0), length=8)


@pytest.mark.parametrize("name", ROWS_OPS)
def test_transformations_of_jax(name, kind):
    mine, reference, parameters = functions(name, 20)
    x = random(4, 3, 20)
    rest = (None,) * len(parameters)
    changes = (
        lambda f: jax.vmap(f, (0, *rest)),
        lambda f: jax.vmap(jax.vmap(f, (0, *rest)), (0, *rest)),
        lambda f: jax.vmap(f, (1, *rest), 1),
        lambda f: jax.jit(lambda x, *p: jnp.sin(f(2 * x, *p)) + 1),
        lambda f: lambda x, *p: jax.lax.scan(lambda c, one: (f(c + one, *p), c), x[0], x)[1],
        lambda f: jax.checkpoint(f),
    )
    for change in changes if kind == "here" else changes[1:2]:
        agree(change(mine), change(reference), [x, *parameters], length=20)


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_a_weight_for_each_of_a_batch(name, kind):
    mine, reference, parameters = functions(name, 20)
    many = [jnp.stack([each, 2 * each, each - 1]) for each in parameters]
    agree(jax.vmap(mine), jax.vmap(reference), [random(3, 5, 20), *many], length=20)


@pytest.mark.parametrize("name", ROWS_OPS)
def test_gradients_for_each_example(name, kind):
    mine, reference, parameters = functions(name, 20)
    rest = (None,) * len(parameters)

    def each(f):
        return jax.vmap(jax.grad(lambda *a: jnp.sin(f(*a)).sum(), argnums=tuple(range(1 + len(rest)))), (0, *rest))

    x = random(3, 4, 20)
    for one, other in zip(each(mine)(x, *parameters), each(reference)(x, *parameters), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_gradients_of_parameters_are_the_same_each_time(name):
    mine, _, parameters = functions(name, 33)
    y, back = jax.vjp(mine, random(300, 33, scale=100.0), *parameters)
    assert all((one == other).all() for one, other in zip(back(y), back(y), strict=True))


@pytest.mark.parametrize("name", ROWS_OPS)
@pytest.mark.parametrize(
    ("platform", "call"), [("cuda", "__gpu$xla.gpu.triton"), ("tpu", "tpu_custom_call")], ids=["cuda", "tpu"]
)
def test_it_is_lowered_for_a_chip_that_is_not_there(name, platform, call):
    for shape, dtype in (
        ((5, 1000), "bfloat16"),
        ((4096, 4096), "float32"),
        ((3,), "float16"),
        ((2, 65536), "bfloat16"),
    ):
        mine, _, parameters = functions(name, shape[-1], dtype)

        def gradient(x, *parameters, mine=mine):
            y, back = jax.vjp(mine, x, *parameters)
            return back(y)

        text = lowered(gradient, jax.ShapeDtypeStruct(shape, dtype), *parameters, platform=platform)
        long = platform == "cuda" and name != "softmax" and shape[-1] > pallas_norm._LONG[name == "layer_norm"]
        assert text.count(f"@{call}(") == 2 + len(parameters) + long, (shape, dtype)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: kernels.softmax(jnp.zeros((2, 3), int)), TypeError, "x is int32: convert it first"),
        (lambda: kernels.softmax(jnp.float32(1.0)), ValueError, r"give it one with x\[None\]"),
        (lambda: kernels.softmax(np.zeros(3, np.float32)), TypeError, "array of JAX; found a ndarray"),
        (lambda: kernels.softmax(jnp.zeros((1, 70_000))), ValueError, "at most 65,536 elements; found 70,000"),
        (lambda: kernels.rms_norm(jnp.zeros((2, 3)), jnp.zeros(4)), ValueError, r"weight of shape \(3,\)"),
        (lambda: kernels.rms_norm(jnp.zeros((2, 3)), [1.0] * 3), TypeError, "weight is a list"),
        (lambda: kernels.layer_norm(jnp.zeros((2, 3)), jnp.zeros(3), jnp.zeros((1, 3))), ValueError, "bias of shape"),
        (lambda: kernels.rms_norm(jnp.zeros((2, 3)), jnp.zeros(3, jnp.int8)), TypeError, "weight is int8"),
        (lambda: jax.jit(kernels.softmax)(jnp.zeros((1, 70_000))), ValueError, "at most 65,536 elements"),
        (lambda: jax.vmap(kernels.softmax)(jnp.zeros(3)), ValueError, r"give it one with x\[None\]"),
        (lambda: kernels.rms_norm(jnp.zeros((2, 3)), jnp.zeros(3), eps=None), TypeError, "for eps; found None"),
        (lambda: jax.jit(kernels.rms_norm)(jnp.zeros((2, 3)), jnp.zeros(3), 1e-6), TypeError, "^rms_norm: JAX traces"),
        (
            lambda: jax.jit(lambda q, scale: kernels.attention(q, q, q, scale=scale))(jnp.zeros((1, 1, 2, 16)), 1.0),
            TypeError,
            "^attention: JAX traces scale, which is a constant",
        ),
        (
            lambda: jax.jit(lambda q, causal: kernels.attention(q, q, q, causal=causal))(
                jnp.zeros((1, 1, 2, 16)), True
            ),
            TypeError,
            "^attention: JAX traces causal",
        ),
    ],
)
def test_what_cannot_be_taken_is_refused_in_a_sentence(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_both_frameworks_in_one_process():
    torch = pytest.importorskip("torch", reason="needs torch")
    pytest.importorskip("triton", reason="needs Triton")
    x = random(4, 10)
    given = torch.tensor(np.asarray(x), device="cuda" if torch.cuda.is_available() else "cpu")
    for _ in range(2):
        np.testing.assert_allclose(kernels.softmax(given).cpu().numpy(), kernels.softmax(x), rtol=1e-6)
    with pytest.raises(TypeError, match=r"two frameworks \(x of jax, weight of torch\)"):
        kernels.rms_norm(x, torch.ones(10))


def test_the_other_framework_is_not_loaded():
    code = (
        "import jax, jax.numpy as jnp, sys\n"
        "from rooflab import kernels\n"
        "print(jax.jit(kernels.softmax)(jnp.zeros((1, 4))).tolist(), 'torch' in sys.modules, 'triton' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": str(SHARED)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=500)
    assert done.stdout == "[[0.25, 0.25, 0.25, 0.25]] False False\n", done.stderr


def test_only_what_is_known_for_this_chip_is_chosen(monkeypatch):
    from types import SimpleNamespace

    from rooflab.kernels import pallas_launching

    known = {(1024,): {"ROWS": 4, "num_warps": 4}, (4096,): {"ROWS": 999, "num_warps": 4}}
    monkeypatch.setattr(pallas_launching, "known_choices", lambda chip, kernel: known if chip == "Chip" else {})
    candidates = [{"ROWS": 2, "num_warps": 8}, {"ROWS": 4, "num_warps": 4}]
    monkeypatch.setattr(pallas_launching, "_gpus", lambda: [SimpleNamespace(device_kind="Chip", core_count=7)])
    assert pallas_launching.choice_of("softmax", (4096,), candidates) == candidates[1]
    assert pallas_launching.processors() == 7
    monkeypatch.setattr(pallas_launching, "_gpus", lambda: [SimpleNamespace(device_kind="Other")])
    assert pallas_launching.choice_of("softmax", (4096,), candidates) == candidates[0]
    monkeypatch.setattr(pallas_launching, "_gpus", list)
    assert pallas_launching.choice_of("softmax", (4096,), candidates) == candidates[0]


@pytest.mark.parametrize("name", ROWS_OPS)
def test_a_second_derivative_is_refused_in_a_sentence(name):
    mine, _, parameters = functions(name, 4)
    once = jax.grad(lambda x: (mine(x, *parameters) ** 2).sum())
    with pytest.raises(TypeError, match="no second derivative"):
        jax.grad(lambda x: once(x).sum())(random(2, 4))
