"""Attention for JAX, against float64: shapes, masks, shared keys, formats, transformations, devices."""

import functools

import pytest

from . import mosaic_products, not_finite
from .pallas_agreement import ON_CPU, agree, interpreted_as, jax, jnp, lowered, np, random

from rooflab import kernels  # isort: skip
from rooflab.kernels.attend import (  # isort: skip
    pallas_attention,
    pallas_attention_backward,
    pallas_attention_hopper,
    pallas_backward_hopper,
)

attention = pallas_attention.attention


def reference(q, k, v, causal=False, scale=None):
    k, v = (jnp.repeat(each, q.shape[1] // k.shape[1], 1) for each in (k, v))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        last = jnp.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores = jnp.where(jnp.arange(k.shape[2]) <= last, scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), v)


def inputs(batch, heads, kv_heads, queries, keys, width, dtype="float32"):
    return [
        random(batch, heads, queries, width, dtype=dtype),
        *(random(batch, kv_heads, keys, width, dtype=dtype, seed=seed) for seed in (1, 2)),
    ]


@pytest.fixture(params=["here", *(["gpu", "tpu"] if ON_CPU else [])])
def kind(request, monkeypatch):
    """The kernels of this machine's kind of device; on a CPU those of the other kinds, too, interpreted."""
    with interpreted_as(request.param, monkeypatch, pallas_attention, pallas_attention_backward):
        yield request.param


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1, 1, 16), (2, 4, 2, 100, 130, 32), (1, 2, 1, 257, 300, 64), (1, 1, 1, 128, 256, 128)], ids=str
)
def test_results_and_gradients_agree_with_float64(sizes, causal, kind):
    call = functools.partial(attention, causal=causal)
    # A gradient adds up differences of terms as large as those of P: five roundings where a sum has one.
    agree(call, functools.partial(reference, causal=causal), inputs(*sizes), length=16 * max(sizes))


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_a_key_of_minus_infinity_spoils_no_gradient_but_those_that_it_has_by_definition(causal, kind):
    q, k, v = inputs(1, 2, 1, 5, 7, 16)
    q, k = abs(q) + 0.1, k.at[0, 0, 1].set(-jnp.inf)
    o, back = jax.vjp(functools.partial(attention, causal=causal), q, k, v)
    wanted = jax.vjp(functools.partial(reference, causal=causal), q, k, v)[1](o)
    for one, other in zip(back(o), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)  # NaN where there is NaN
    assert np.isfinite(wanted[1]).all()


def spoiled(queries, keys, width, dtype="float32"):
    """q, k, v and do of heads in each of which something is not finite."""
    heads = len(not_finite.HEADS)
    given = [*inputs(1, heads, heads, queries, keys, width), random(1, heads, queries, width, seed=3)]
    q, k, v, do = (np.array(each) for each in given)
    not_finite.spoil(q, k, do)
    return [jnp.asarray(each, dtype) for each in (q, k, v, do)]


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("queries", "keys"), [(9, 12), (130, 150)])
def test_gradients_are_finite_wherever_those_of_the_masked_formula_are(queries, keys, causal, kind):
    *given, do = spoiled(queries, keys, 16)
    found = jax.vjp(functools.partial(attention, causal=causal), *given)[1](do)
    wanted = jax.vjp(functools.partial(reference, causal=causal), *given)[1](do)
    not_finite.check_where_finite(found, wanted, causal=causal, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_formats(dtype, kind):
    q, k, v = inputs(1, 2, 1, 70, 90, 32, dtype)
    exact = [np.asarray(each, np.float32) for each in (q, k, v)]
    o, back = jax.vjp(functools.partial(attention, causal=True), q, k, v)
    right, right_back = jax.vjp(functools.partial(reference, causal=True), *map(jnp.asarray, exact))
    do = random(*o.shape, dtype=dtype, seed=3)
    unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    for one, other in zip((o, *back(do)), (right, *right_back(do.astype("float32"))), strict=True):
        assert one.dtype == dtype
        # P and dS are rounded once before they enter a product, the result once after it.
        assert np.abs(np.asarray(one, np.float32) - other).max() <= 6 * unit * np.abs(other).max()


def test_a_scale_of_its_own(kind):
    agree(
        functools.partial(attention, scale=0.7), functools.partial(reference, scale=0.7), inputs(1, 1, 1, 20, 30, 16),
        length=500,
    )  # fmt: skip


def test_transformations_of_jax(kind):
    q, k, v = inputs(3, 2, 2, 10, 12, 16)
    many = [jnp.stack([each, each + 1]) for each in (q, k, v)]
    agree(jax.vmap(attention), jax.vmap(reference), many, length=500)
    agree(jax.jit(attention), reference, [q, k, v], length=500)

    def scanned(f):
        return lambda q, k, v: jax.lax.scan(lambda c, one: (c + 1, f(one[None] + c, k[:1], v[:1])), 0.0, q)[1]

    agree(scanned(attention), scanned(reference), [q, k, v], length=500)


def test_nothing_but_minus_infinity_is_nan_and_a_late_start_is_not(kind):
    keys = 300
    q, k, v = jnp.ones((1, 1, 2, 16)), jnp.zeros((1, 1, keys, 16)), random(1, 1, keys, 16)
    late = k.at[:, :, :256].set(-jnp.inf)
    o = attention(q, late, v)
    np.testing.assert_allclose(o[0, 0, 0], np.asarray(v)[0, 0, 256:].mean(0), rtol=1e-5, atol=1e-6)
    assert np.isnan(attention(q, k - jnp.inf, v)).all()
    assert np.isnan(attention(q.at[0, 0, 1, 0].set(jnp.nan), k, v)).all((0, 1, 3)).tolist() == [False, True]


def test_without_keys_or_queries():
    q, k = jnp.ones((1, 2, 3, 16)), jnp.zeros((1, 2, 0, 16))
    o, back = jax.vjp(attention, q, k, k)
    assert o.shape == q.shape
    assert not o.any()
    assert [each.shape for each in back(o)] == [q.shape, k.shape, k.shape]
    assert attention(k, q, q).shape == k.shape


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"k": (1, 2, 5, 32)}, ValueError, "that fit"),
        ({"q": (1, 2, 5, 24), "k": (1, 2, 5, 24), "v": (1, 2, 5, 24)}, ValueError, "expected D of"),
        ({"q": (1, 3, 5, 16)}, ValueError, "heads a multiple of kv_heads"),
        ({"q": (1, 2, 9, 16), "causal": True}, ValueError, "a key for each query; found 9 and 5"),
        *(({"scale": scale}, ValueError, "expected a positive scale") for scale in (0.0, -1.0, 1e-39, 1e39, 3e38)),
        *(({"scale": scale}, ValueError, "expected a positive scale") for scale in (np.nan, np.inf, 1e-50)),
        ({"q": (2, 5, 16)}, ValueError, r"expected \(batch, heads, length, D\)"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_a_sentence(change, error, says):
    shapes = {name: jnp.zeros(change.get(name, (1, 2, 5, 16))) for name in "qkv"}
    rest = {name: value for name, value in change.items() if name not in "qkv"}
    with pytest.raises(error, match=says):
        attention(**shapes, **rest)


@pytest.mark.parametrize("scale", [True, np.True_, jnp.asarray(True)], ids=lambda scale: type(scale).__name__)
def test_true_is_no_scale(scale):
    q = jnp.zeros((1, 2, 5, 16))
    with pytest.raises(TypeError, match=r"^attention: expected a number for scale; found "):
        kernels.attention(q, q, q, scale=scale)


@pytest.mark.parametrize(
    ("platform", "call"), [("cuda", "__gpu$xla.gpu.triton"), ("tpu", "tpu_custom_call")], ids=["cuda", "tpu"]
)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_it_is_lowered_for_a_chip_that_is_not_there(causal, platform, call):
    def gradient(*given):
        o, back = jax.vjp(functools.partial(attention, causal=causal), *given)
        return back(o)

    for shape, dtype in (((4, 16, 4096, 128), "bfloat16"), ((1, 2, 100, 64), "float32")):
        shapes = [jax.ShapeDtypeStruct(shape, dtype)] * 3
        assert lowered(gradient, *shapes, platform=platform).count(f"@{call}(") == 3


@mosaic_products.NEEDED
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_whole_blocks_are_lowered_for_a_hopper_that_is_not_there(causal, monkeypatch):
    """Layouts are inferred on the way, as they are not when it is interpreted."""
    shapes = [jax.ShapeDtypeStruct((1, heads, 256, 128), "bfloat16") for heads in (4, 2, 2)]
    assert pallas_attention_hopper.fits(*shapes[:2], causal)
    for module in (pallas_attention, pallas_attention_backward):
        monkeypatch.setattr(module, "hopper", lambda: True)

    def gradient(*given):
        o, back = jax.vjp(functools.partial(attention, causal=causal), *given)
        return o, back(o)

    jax.clear_caches()
    assert lowered(gradient, *shapes, platform="cuda").count("@mosaic_gpu_v2(") == 3
    jax.clear_caches()


def test_only_whole_blocks_go_to_hopper():
    shape = jax.ShapeDtypeStruct
    for length, width, dtype in ((1000, 128, "bfloat16"), (1024, 32, "bfloat16"), (1024, 128, "float32")):
        q = shape((1, 2, length, width), dtype)
        assert not pallas_attention_hopper.fits(q, q, False)


@mosaic_products.NEEDED
@pytest.mark.skipif(not ON_CPU, reason="JAX's interpreter of GPU kernels runs on a CPU, and JAX has a GPU here")
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_the_kernel_for_hopper_interpreted(causal, monkeypatch):
    """Two programs that take two tiles each; there is one block of keys, or there are more than a ring."""
    q, k, v = inputs(1, 2, 1, 256, 384, 64, "bfloat16")
    assert pallas_attention_hopper.fits(q, k, causal)
    mosaic_products.use(monkeypatch, pallas_attention_hopper)
    monkeypatch.setattr(pallas_attention_hopper, "processors", lambda: 2)
    k, v = (each[:, :, :256] for each in (k, v)) if causal else (k, v)
    o, lse = pallas_attention_hopper.attention_on_hopper(
        q, k, v, causal, 0.125, ring=2, **mosaic_products.interpreter()
    )
    exact = [np.asarray(each, np.float32) for each in (q, k, v)]
    right = reference(*map(jnp.asarray, exact), causal)
    assert np.abs(np.asarray(o, np.float32) - right).max() <= 2.0**-7 * np.abs(right).max()
    scores = np.einsum("bhqd,bgkd->bhqk", *exact[:2]) * 0.125
    if causal:
        scores = np.where(np.tri(256, dtype=bool), scores, -np.inf)
    np.testing.assert_allclose(lse, np.logaddexp.reduce(scores, -1), atol=1e-5)


@mosaic_products.NEEDED
@pytest.mark.skipif(not ON_CPU, reason="JAX's interpreter of GPU kernels runs on a CPU, and JAX has a GPU here")
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_the_gradients_for_hopper_interpreted(causal, monkeypatch):
    """Two heads share their keys; some programs have one block to walk along, others more than a ring."""
    q, k, v = inputs(1, 2, 1, 128, 192, 64, "bfloat16")
    do = random(*q.shape, dtype="bfloat16", seed=3)
    found, wanted = gradients_for_hopper(monkeypatch, causal, q, k, v, do)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == q.dtype
        assert np.abs(np.asarray(one, np.float32) - other).max() <= 6 * 2.0**-8 * np.abs(other).max()


@mosaic_products.NEEDED
@pytest.mark.skipif(not ON_CPU, reason="JAX's interpreter of GPU kernels runs on a CPU, and JAX has a GPU here")
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_gradients_for_hopper_are_finite_wherever_those_of_the_masked_formula_are(causal, monkeypatch):
    found, wanted = gradients_for_hopper(monkeypatch, causal, *spoiled(64, 64, 64, "bfloat16"))
    not_finite.check_where_finite(found, wanted, causal=causal, rtol=0.02, atol=0.05)


def gradients_for_hopper(monkeypatch, causal, q, k, v, do):
    """What the kernels for Hopper give, interpreted, and what the formula gives."""
    assert pallas_backward_hopper.fits(q, k)
    mosaic_products.use(monkeypatch, pallas_backward_hopper)
    call = functools.partial(pallas_backward_hopper.backward_on_hopper, **mosaic_products.interpreter())
    monkeypatch.setattr(
        pallas_attention_backward, "_call", lambda causal, scale, kind, *given: call(*given, causal, scale)
    )
    exact = [jnp.asarray(np.asarray(each, np.float32)) for each in (q, k, v)]
    o, lse = pallas_attention._with_lse(q, k, v, causal, 0.125)
    found = pallas_attention_backward.attention_backward.__wrapped__(q, k, v, o, lse, do, causal, 0.125)
    return found, jax.vjp(functools.partial(reference, causal=causal), *exact)[1](do.astype("float32"))
