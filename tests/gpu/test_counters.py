"""Counts of work on a real GPU agree with those of a CPU, or with what the loop's author wrote."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or ROCm GPU that torch sees")

SIDE = 64


def _training_step(x):
    with torch.device(x.device):
        model = torch.nn.Sequential(torch.nn.Linear(SIDE, 2 * SIDE), torch.nn.GELU(), torch.nn.Linear(2 * SIDE, SIDE))
    model(x).square().mean().backward()


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x @ x, id="matmul"),
        pytest.param(lambda x: x.softmax(-1), id="softmax"),
        pytest.param(lambda x: torch.nn.functional.layer_norm(x, (SIDE,)), id="layer norm"),
        pytest.param(lambda x: torch.nn.functional.gelu(x) + x.sigmoid().cumsum(0), id="elementwise"),
        pytest.param(lambda x: x.index_add_(0, torch.arange(8, device=x.device), x[:8].clone()), id="index_add_"),
        pytest.param(lambda x: x.__setitem__(torch.arange(8, device=x.device), 1.0), id="indexed write"),
        pytest.param(lambda x: torch.linalg.norm(x, dim=0).topk(3), id="norm and topk"),
        pytest.param(_training_step, id="training step"),
    ],
)
def test_torch_counts_alike_on_both_devices(function):
    from rooflab import count

    here, there = (count(function, torch.rand(SIDE, SIDE, device=device)) for device in ("cuda", "cpu"))
    print(f"cuda {here.flops:,} FLOPs {here.bytes:,} B, cpu {there.flops:,} FLOPs {there.bytes:,} B")
    assert here.flops == there.flops
    assert here.bytes == pytest.approx(there.bytes, rel=0.02)  # the statistics of a layer norm have another format


@pytest.fixture(scope="module")
def gpu():
    jax = pytest.importorskip("jax", reason="needs JAX")
    devices = [device for device in jax.devices() if device.platform == "gpu"]
    if not devices:
        pytest.skip("needs a GPU that JAX sees")
    return devices[0]


@pytest.mark.parametrize("side", [512, 4096])  # a kernel of XLA's own, and one of cuBLAS
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("loop", ["none", "scan", "scan of a scan", "fori_loop", "checkpoint", "cond"])
def test_jax_counts_every_turn_of_a_loop(gpu, loop, dtype, side):
    import jax
    import jax.numpy as jnp

    from rooflab import count

    def ten(a):
        return jax.lax.scan(lambda s, _: (s @ a, None), a, None, length=10)[0]

    functions = {
        "none": (lambda a: a @ a, 1),
        "scan": (ten, 10),
        "scan of a scan": (lambda a: jax.lax.scan(lambda s, _: (ten(s), None), a, None, length=3)[0], 30),
        "fori_loop": (lambda a: jax.lax.fori_loop(0, 7, lambda i, s: s @ a, a), 7),
        "checkpoint": (jax.checkpoint(ten), 10),
        "cond": (lambda a: jax.lax.cond(a.sum() > 0, ten, lambda v: v + 1, a), 10),
    }
    function, products = functions[loop]
    found = count(function, jax.device_put(jnp.ones((side, side), dtype), gpu))
    least = products * (2 if loop == "none" else 3) * (2 if dtype == "bfloat16" else 4) * side**2
    print(f"{loop} {dtype} {side}: {found.flops / (2 * side**3):.3f} products of {products}, "
          f"{found.bytes / least:.2f} of the least bytes, {found.launches} launches, {found.notes}")  # fmt: skip
    assert found.flops == pytest.approx(products * 2 * side**3, rel=1e-2)
    assert found.bytes >= 0.99 * least
    assert found.launches >= min(products, 2)


@pytest.mark.parametrize("gradient", [False, True])
def test_jax_counts_convolutions(gpu, gradient):
    import jax
    import jax.numpy as jnp

    from rooflab import count

    x, w = (jax.device_put(jnp.ones(shape), gpu) for shape in ((16, 64, 32, 32), (64, 64, 3, 3)))

    def conv(x, w):
        return jax.lax.conv(x, w, (1, 1), "SAME")

    function = jax.grad(lambda x, w: (conv(x, w) ** 2).sum(), argnums=(0, 1)) if gradient else conv
    found, one = count(function, x, w), 2 * (16 * 64 * 32 * 32) * 64 * 9
    print(f"gradient {gradient}: {found.flops / one:.3f} convolutions, {found.notes}")
    assert found.flops == pytest.approx((3 if gradient else 1) * one, rel=0.05)  # XLA leaves the padding out
