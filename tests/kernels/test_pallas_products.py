"""The product of matrices for JAX, against float64: shapes, formats, transformations, devices."""

import pytest

from . import mosaic_products
from .pallas_agreement import ON_CPU, agree, interpreted_as, jax, jnp, lowered, near, np, random

from rooflab import kernels  # isort: skip
from rooflab.kernels.products import pallas_matmul, pallas_matmul_hopper  # isort: skip

matmul = kernels.matmul


@pytest.fixture(params=["here", *(["gpu", "tpu"] if ON_CPU else [])])
def kind(request, monkeypatch):
    """The kernel of this machine's kind of device; on a CPU those of the other kinds, too, interpreted."""
    with interpreted_as(request.param, monkeypatch, pallas_matmul):
        yield request.param


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 5, 2), (100, 70, 33), (130, 300, 257)])
def test_products_and_gradients_agree_with_float64(m, k, n, dtype, kind):
    agree(matmul, jnp.matmul, [random(m, k, dtype=dtype), random(k, n, dtype=dtype, seed=1)], length=max(m, k, n))


def test_tiles_are_taken_in_groups(kind, monkeypatch):
    """Twenty by three tiles: two whole groups of eight rows, and one of four."""
    monkeypatch.setattr(pallas_matmul, "_CPU", (16, 16, 16))
    monkeypatch.setattr(pallas_matmul, "_GPU", {4: ((16, 16, 16), 4, 1)})
    jax.clear_caches()
    agree(matmul, jnp.matmul, [random(310, 40), random(40, 47, seed=1)], length=310)
    jax.clear_caches()


@pytest.mark.parametrize(("tall", "wide"), [(1, 1), (8, 3), (20, 3), (7, 5), (17, 1)])
def test_every_tile_is_taken_once(tall, wide):
    number = jnp.arange(tall * wide)
    taken = list(zip(*(each.tolist() for each in pallas_matmul.tile_of(number, tall, wide)), strict=True))
    assert sorted(taken) == [(row, col) for row in range(tall) for col in range(wide)]
    assert taken[: min(8, tall)] == [(row, 0) for row in range(min(8, tall))]


def test_transformations_of_jax(kind):
    a, b = random(3, 5, 7), random(3, 7, 4, seed=1)
    for change, inputs in (
        (jax.vmap, (a, b)),
        (lambda f: jax.vmap(f, (0, None)), (a, b[0])),
        (lambda f: jax.vmap(f, (None, 0)), (a[0], b)),
        (lambda f: lambda a, b: jax.lax.scan(lambda c, one: (c + 1, f(one + c, b)), 0.0, a)[1], (a, b[0])),
        (lambda f: f, (a, b[0])),
    ):
        agree(change(matmul), change(jnp.matmul), inputs, length=7)


@pytest.mark.parametrize(
    ("a", "b", "shape"), [((0, 3), (3, 2), (0, 2)), ((2, 0), (0, 3), (2, 3)), ((2, 3), (3, 0), (2, 0))]
)
def test_what_is_empty(a, b, shape):
    c, back = jax.vjp(matmul, jnp.zeros(a), jnp.zeros(b))
    assert c.shape == shape
    assert not c.any()
    assert [each.shape for each in back(c)] == [a, b]


def test_nan_stays_in_its_row(kind):
    a = random(20, 40).at[3, 2].set(float("nan"))
    assert np.isnan(matmul(a, random(40, 10, seed=1))).all(1).tolist() == [i == 3 for i in range(20)]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: matmul(jnp.zeros((2, 3)), jnp.zeros((4, 2))), ValueError, r"found \(2, 3\) and \(4, 2\)"),
        (lambda: matmul(jnp.zeros(3), jnp.zeros((3, 2))), ValueError, r"expected a of shape \[..., M, K\]"),
        (lambda: matmul(jnp.zeros((2, 3)), jnp.zeros((3, 2), jnp.bfloat16)), ValueError, "convert one"),
        (lambda: matmul(jnp.zeros((2, 3), int), jnp.zeros((3, 2), int)), TypeError, "a is int32: convert it first"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_a_sentence(call, error, says):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize(
    ("platform", "call"), [("cuda", "__gpu$xla.gpu.triton"), ("tpu", "tpu_custom_call")], ids=["cuda", "tpu"]
)
@pytest.mark.parametrize(("m", "k", "n", "dtype"), [(4096, 4096, 4096, "bfloat16"), (100, 70, 33, "float32")])
def test_it_is_lowered_for_a_chip_that_is_not_there(m, k, n, dtype, platform, call):
    def gradient(a, b):
        c, back = jax.vjp(matmul, a, b)
        return back(c)

    shapes = jax.ShapeDtypeStruct((m, k), dtype), jax.ShapeDtypeStruct((k, n), dtype)
    assert lowered(gradient, *shapes, platform=platform).count(f"@{call}(") == 3


def test_only_whole_tiles_go_to_hopper():
    fits = pallas_matmul_hopper.fits
    assert not fits(4096, 4096, 4096, jnp.float32)
    assert not fits(4096, 4096, 4100, jnp.bfloat16)
    assert not fits(4096, 4096 + 128, 4096, jnp.bfloat16)
    assert not fits(100, 4096, 4096, jnp.bfloat16)


@mosaic_products.NEEDED
@pytest.mark.skipif(not ON_CPU, reason="JAX's interpreter of GPU kernels runs on a CPU, and JAX has a GPU here")
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False)], ids=str)
def test_the_kernel_for_hopper_interpreted(turned, monkeypatch):
    assert pallas_matmul_hopper.fits(256, 512, 320, jnp.bfloat16)
    # Before 0.11 the interpreter waits for ever for the thread in which it failed to transpose a block.
    own = jax.__version_info__ >= (0, 11) or not any(turned)
    if not own:
        mosaic_products.use(monkeypatch, pallas_matmul_hopper)
    monkeypatch.setattr(pallas_matmul_hopper, "processors", lambda: 2)
    m, n, k = 256, 512, 320
    a, b = random(m, k, dtype="bfloat16"), random(k, n, dtype="bfloat16", seed=1)
    stored = a.T if turned[0] else a, b.T if turned[1] else b
    c = pallas_matmul_hopper.matmul_on_hopper(*stored, turned, **mosaic_products.interpreter(detect_races=own))
    near(c, np.asarray(a, np.float64) @ np.asarray(b, np.float64), length=k)


@pytest.mark.skipif(not ON_CPU, reason="JAX's interpreter of GPU kernels runs on a CPU, and JAX has a GPU here")
def test_a_tiles_last_product_is_done_before_the_next_tiles_blocks_come(monkeypatch):
    mosaic_products.use(monkeypatch, pallas_matmul_hopper)  # whose products read their blocks as late as they may
    monkeypatch.setattr(pallas_matmul_hopper, "processors", lambda: 1)
    monkeypatch.setattr(mosaic_products, "PAUSE_S", 0.03)
    # Of five blocks the last one lies where the next tile's first one will.
    a, b = random(512, 320, dtype="bfloat16"), random(320, 512, dtype="bfloat16", seed=1)
    c = pallas_matmul_hopper.matmul_on_hopper(a, b, (False, False), **mosaic_products.interpreter())
    near(c, np.asarray(a, np.float64) @ np.asarray(b, np.float64), length=320)
