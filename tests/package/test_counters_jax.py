import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rooflab import costs
from rooflab.counters import count
from rooflab.counters.jax_programs import kernel_names

# XLA's programs, and with them its counts, differ between devices: what follows is for a CPU.
CPU = jax.devices("cpu")[0]
X = jax.device_put(np.ones((256, 128), np.float32), CPU)
W = jax.device_put(np.ones((128, 64), np.float32), CPU)


@pytest.fixture(autouse=True)
def _on_cpu():
    with jax.default_device(CPU):
        yield


@pytest.mark.parametrize("call", ["arguments", "closure", "jitted", "jitted closure", "jit in a lambda"])
def test_matmul_agrees_with_costs_wherever_its_arrays_come_from(call):
    jitted = jax.jit(lambda: X @ W)
    functions = {
        "arguments": (lambda a, b: a @ b, X, W),
        "closure": (lambda: X @ W,),
        "jitted": (jax.jit(jnp.matmul), X, W),
        "jitted closure": (jitted,),
        "jit in a lambda": (lambda: jitted(),),
    }
    found, least = count(*functions[call]), costs.matmul(256, 64, 128, "fp32")
    assert found.world == "jax"
    assert (found.flops, found.bytes_read, found.bytes_written) == (least.flops, least.bytes_read, least.bytes_written)
    assert (found.launches, found.dtype, found.peak_bytes) == (1, "fp32", least.bytes)


def test_elementwise_fuses_into_one_kernel():
    found, least = count(lambda a, b: 2.0 * a + b, X, X + 1), costs.axpy(X.size, "fp32")
    assert (found.flops, found.bytes, found.launches) == (least.flops, least.bytes, 1)


def test_softmax_has_about_the_flops_of_costs_but_rereads():
    found, least = count(jax.nn.softmax, X), costs.softmax(256, 128, "fp32")
    assert found.flops == pytest.approx(least.flops, rel=0.01)
    assert found.bytes > least.bytes


def test_scan_counts_every_turn():
    layers = jnp.ones((10, 128, 128))

    def deep(h, ws):
        return jax.lax.scan(lambda h, w: (h @ w, None), h, ws)[0]

    def deeper(h, ws):
        return jax.lax.scan(lambda h, _: (deep(h, ws), None), h, length=3)[0]

    assert count(deep, X, layers).flops == pytest.approx(10 * 2 * 256 * 128 * 128, rel=1e-3)
    assert count(deeper, X, layers).flops == pytest.approx(30 * 2 * 256 * 128 * 128, rel=1e-3)
    assert count(deep, X, layers).launches >= 10


S = jax.device_put(np.ones((64, 64), np.float32), CPU)


def ten(a, length=10, unroll=1):
    return jax.lax.scan(lambda s, _: (s @ a, None), a, None, length=length, unroll=unroll)[0]


@jax.custom_vjp
def own_vjp(a):
    return ten(a)


own_vjp.defvjp(lambda a: (ten(a), None), lambda _, g: (ten(g),))


@jax.custom_jvp
def own_jvp(a):
    return ten(a)


own_jvp.defjvp(lambda p, t: (ten(p[0]), t[0]))


def sharded(a):
    from jax.sharding import Mesh, PartitionSpec

    mesh, spec = Mesh(np.array([CPU]), ("i",)), PartitionSpec()
    return jax.shard_map(ten, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)(a)


@pytest.mark.parametrize(
    ("function", "products"),
    [
        pytest.param(jax.checkpoint(ten), 10, id="checkpoint"),
        pytest.param(jax.grad(lambda a: jax.checkpoint(ten)(a).sum()), 30, id="grad of checkpoint"),
        pytest.param(own_vjp, 10, id="custom_vjp"),
        pytest.param(jax.grad(lambda a: own_vjp(a).sum()), 10, id="grad of custom_vjp"),
        pytest.param(own_jvp, 10, id="custom_jvp"),
        pytest.param(sharded, 10, id="shard_map"),
        pytest.param(lambda a: jax.lax.cond(a.sum() > 0, ten, lambda v: v + 1, a), 10, id="cond"),
        pytest.param(lambda a: jax.lax.scan(lambda s, _: (ten(s), None), a, None, length=3)[0], 30, id="nested"),
        pytest.param(lambda a: ten(a, unroll=2), 10, id="unroll=2"),
        pytest.param(lambda a: ten(a, unroll=3), 10, id="unroll=3"),
        pytest.param(lambda a: ten(a, unroll=5), 10, id="unroll=5"),
        pytest.param(lambda a: (ten(a, 100), ten(a * 2))[1], 10, id="another one unused"),
        pytest.param(lambda a: ten(a) + ten(a), 10, id="twice the same"),
        pytest.param(lambda a: jax.lax.fori_loop(0, 7, lambda i, s: s @ a, a), 7, id="fori_loop"),
        pytest.param(lambda a: ten(a, 1) + ten(a, 0), 1, id="one turn, and none"),
    ],
)
def test_loops_count_every_turn_wherever_they_are(function, products):
    found = count(function, S)
    assert found.flops == pytest.approx(products * 2 * 64**3, rel=1e-2)
    assert found.launches >= min(products, 2) - ("conditional" in found.describe())


def test_scan_moves_the_bytes_of_every_turn():
    short, long = (count(lambda a, n=n: ten(a, n), S) for n in (100, 200))
    assert long.bytes / short.bytes == pytest.approx(2, rel=0.02)
    assert short.bytes > 100 * 3 * S.nbytes


def test_version_that_does_not_analyse_bodies_is_said(monkeypatch):
    from jaxlib import xla_client

    monkeypatch.delattr(xla_client._xla, "hlo_module_cost_analysis")
    found = count(ten, S)
    assert found.flops == pytest.approx(2 * 64**3, rel=1e-2)
    assert "each loop is counted as one turn" in found.describe()


def test_library_call_that_xla_does_not_know_is_said():
    found = count(jnp.linalg.cholesky, S)
    assert "XLA does not know what lapack_spotrf_ffi does" in found.describe()


def test_loop_of_unknown_length_inside_checkpoint_is_said():
    found = count(jax.checkpoint(lambda a: jax.lax.while_loop(lambda v: v.sum() > 0, lambda v: v - 1.0, a)), X)
    assert "while loop of unknown length" in found.describe()


def test_loop_of_unknown_length_is_said():
    found = count(lambda a: jax.lax.while_loop(lambda v: v.sum() > 0, lambda v: v - 1.0, a), X)
    assert "while loop of unknown length" in found.describe()


def test_gradient_costs_two_products_more():
    found = count(jax.grad(lambda w: ((X @ w) ** 2).sum()), W)
    product = 2 * 256 * 128 * 64
    assert 2 * product <= found.flops < 2.1 * product


@jax.custom_vjp
def double(a):
    return 2.0 * a


double.defvjp(lambda a: (2.0 * a, None), lambda _, g: (2.0 * g,))


@pytest.mark.parametrize(
    "function",
    [
        lambda a: double(a).sum(),
        jax.grad(lambda a: double(a).sum()),
        jax.grad(jax.checkpoint(lambda a: jnp.sin(jnp.sin(a)).sum())),
        lambda a: jax.lax.cond(a.sum() > 0, lambda v: v * 2, lambda v: v + 1, a),
        lambda a: jax.vmap(lambda row: row / row.sum())(a),
    ],
)
def test_transformations_survive(function):
    found = count(function, X)
    assert found.bytes > 0
    assert found.launches >= 1


def test_static_arguments_and_numpy_arrays():
    found = count(lambda a, n: jnp.sum(a.reshape(n, -1), 0), np.ones((8, 8), np.float32), 4)
    assert (found.flops, found.bytes_read, found.bytes_written) == (48, 256, 64)


def test_function_that_only_returns_jax_is_found_out():
    def late():
        import jax.numpy as np

        return np.ones((8, 8)) @ np.ones((8, 8))

    assert count(late).world == "jax"
    assert count(late, world="jax").flops == 2 * 8**3


def test_bf16_and_name():
    found = count(lambda: X.astype(jnp.bfloat16) @ W.astype(jnp.bfloat16), name="product")
    assert (found.dtype, found.name) == ("bf16", "product")


def test_errors_come_through_and_no_work_is_said():
    def broken(a):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        count(broken, X)
    with pytest.raises(ValueError, match="count saw no work"):
        count(lambda: None, world="jax")


def test_kernel_names_skip_what_starts_no_kernel():
    hlo = """%fused (p: f32[4]) -> f32[4] {
  ROOT %n.1 = f32[4]{0} negate(%p)
}
ENTRY %main (p: f32[4]) -> (f32[4], f32[]) {
  %p = f32[4]{0} parameter(0)
  %c = f32[] constant(1)
  %fusion.12 = f32[4]{0} fusion(%p), kind=kLoop, calls=%fused
  %cublas.3.0 = (f32[4]{0}, s8[512]{0}) custom-call(%p), custom_call_target="x"
  ROOT %t = (f32[4]{0}, f32[]) tuple(%fusion.12, %c)
}
"""
    assert kernel_names(hlo) == ["fusion", "cublas"]


def test_conditional_counts_its_dearest_branch_with_its_turns():
    branches = [ten, lambda a: ten(a, 20), lambda a: a + 1]
    found = count(lambda i, a: jax.lax.switch(i[0], branches, a) + a @ a, np.array([1]), S)
    assert found.flops == pytest.approx(21 * 2 * 64**3, rel=1e-2)
    assert found.notes == (
        "Of a conditional XLA counts the dearest branch, and its kernels are not among the launches.",
    )


def test_polynomials_of_erf_are_counted_and_said():
    found, convention = count(lambda a: jax.nn.gelu(a, approximate=False), X), costs.gelu(X.size, "fp32")
    assert found.flops > 5 * convention.flops
    assert "XLA may compute erf" in found.describe()
    assert "polynomials" not in count(jax.nn.gelu, X).describe(), "by the hyperbolic tangent"


def test_a_gather_that_counts_its_whole_operand_is_said():
    rows = jnp.array([1, 5, 7])
    found = count(lambda table, i: table[i], X, rows)
    assert found.bytes_written == 3 * 128 * 4
    assert found.bytes_read >= X.nbytes, "once XLA counts what is read, the note and docs/counting.md can go"
    assert "the whole array that a gather takes a few elements from" in found.describe()
    assert "gather" not in count(lambda table: table[1:4], X).describe()
