"""The squared ReLU for Hopper, its partitions run as threads: results, and that no barrier waits for ever."""

import numpy as np
import pytest

from rooflab.tolerances import tolerance

pytest.importorskip("triton.experimental.gluon.language", reason="needs a Triton with Gluon")

from rooflab.kernels.products import tiles, torch_squared_relu_hopper
from rooflab.kernels.products import torch_squared_relu as operators
from rooflab.kernels.products import triton_squared_relu_hopper as hopper
from rooflab.kernels.products.torch_scaled_hopper import on_hopper

from . import gluon_threads as threads
from .agreement import DEVICE, random, torch
from .compiling import told_elsewhere

# Few steps, of which many are loaded ahead; more steps than stages; edges; more and fewer tiles than groups of warps.
SHAPES = [
    (128, 128, 64, 1, 2), (640, 256, 64, 1, 5), (300, 200, 130, 2, 2), (500, 390, 700, 3, 5), (1, 8, 8, 4, 3),
    (520, 136, 320, 1, 4),
]  # fmt: skip
WAYS = pytest.mark.parametrize("way", [0, 2, 3], ids=["in turn", "together", "together, short steps"])


@pytest.fixture
def on_threads(monkeypatch):
    """Have products run on the emulated chip: `on_threads(way, programs, stages)`."""

    def prepare(way, programs, stages):
        def launch(kernel, grid, *args, num_warps, **constants):
            assert num_warps == 4
            matrices = [threads.Matrix(each.base.numpy(), *each.block_shape) for each in args[:4]]
            threads.run_grid("squared_relu_hopper_kernel", hopper, *grid, *matrices, *args[4:], **constants)

        monkeypatch.setattr(torch_squared_relu_hopper, "launch", launch)
        monkeypatch.setattr(torch_squared_relu_hopper, "processors", lambda device: (programs, True))
        choice = {**tiles.RELU[way], "STAGES": stages, "GROUP": 2}
        monkeypatch.setattr(operators, "_candidates", lambda c, kind: [choice])

    return prepare


def close(found, right, terms):
    allowed = tolerance("fp16", terms, scale=float(right.abs().max()))
    torch.testing.assert_close(found.double(), right, rtol=allowed.rtol, atol=allowed.atol)


def check(m, n, k, device):
    """Compare both products with float64."""
    x, w = random(m, k, dtype=torch.float16), random(n, k, dtype=torch.float16, seed=1) / k**0.5
    a = random(m, n, dtype=torch.float16, seed=2).relu().square()
    x, w, a = (each.to(device) for each in (x, w, a))
    v = w.t().contiguous()
    close(operators.product(x, w), (x.double() @ w.double().t()).relu().square(), k)
    close(operators.gradient(x, v, a), 2 * a.double().sqrt() * (x.double() @ v.double()), k)


@WAYS
@pytest.mark.parametrize(("m", "n", "k", "programs", "stages"), SHAPES)
def test_results_agree_with_float64(m, n, k, programs, stages, way, on_threads):
    on_threads(way, programs, stages)
    check(m, n, k, "cpu")


@pytest.mark.skipif(not on_hopper(torch.device(DEVICE)), reason="needs a Hopper GPU")
@pytest.mark.parametrize("way", range(len(tiles.RELU)))
@pytest.mark.parametrize(("m", "n", "k"), [(1, 8, 8), (500, 390, 700), (4096, 3072, 768), (40000, 1000, 64)])
def test_results_on_a_gpu_agree_with_float64_and_are_the_same_again(m, n, k, way, monkeypatch):
    monkeypatch.setattr(operators, "_candidates", lambda c, kind: [tiles.RELU[way]])
    check(m, n, k, DEVICE)
    x, w, a = (random(*shape, dtype=torch.bfloat16, seed=i) for i, shape in enumerate([(m, k), (k, n), (m, n)]))
    once = operators.gradient(x, w, a.square())
    assert all(torch.equal(operators.gradient(x, w, a.square()), once) for _ in range(10))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_what_is_not_finite_stays(on_threads):
    on_threads(0, 1, 5)
    x = torch.tensor([[np.nan] * 8, [np.inf] * 8, [-np.inf] * 8, [0.5] * 8], dtype=torch.float16)
    one = torch.ones(8, 8, dtype=torch.float16)
    a = operators.product(x, one)
    assert a[0].isnan().all()
    assert torch.equal(a[1:, 0], torch.tensor([np.inf, 0.0, 16.0], dtype=torch.float16))
    dh = operators.gradient(torch.ones(4, 8, dtype=torch.float16), one, a)
    assert dh[0].isnan().all()
    assert torch.equal(dh[1:, 0], torch.tensor([np.inf, 0.0, 64.0], dtype=torch.float16))


def test_where_there_are_tiles_for_all_groups_of_warps_the_kernel_is_tried_first(monkeypatch):
    monkeypatch.setattr(torch_squared_relu_hopper, "on_hopper", lambda device: True)
    for module in (operators, torch_squared_relu_hopper):
        monkeypatch.setattr(module, "processors", lambda device: (132, True))
    large, small = (torch.empty(rows, 3072, dtype=torch.bfloat16, device="meta") for rows in (65536, 1280))
    assert torch_squared_relu_hopper.hopper_tilings(small) == []
    for kind in ("16", "16 gradient"):
        found = operators._candidates(large, kind)
        assert found[: len(tiles.RELU)] == list(tiles.RELU)
        assert all("TILE_M" in each for each in found[len(tiles.RELU) :])
        assert len(tiles.RELU) < len(found) <= 8
        assert all("TILE_M" in each for each in operators._candidates(small, kind))
    assert all("TILE_M" in each for each in operators._candidates(large, "8 squares"))


CODE = """
import json
from rooflab.kernels.catalogue import find_build
from rooflab.kernels.compiled import compile_for
told = {}
for name in ("squared_relu", "squared_relu_gradient", "squared_relu_wide", "squared_relu_gradient_wide"):
    sass = compile_for(find_build(name + "_hopper"), "sm90").text["sass"]
    seen = ("HGMMA", "DEPBAR.LE gsb0, 0x1", "DEPBAR.LE gsb0, 0x0", "MUFU.SQRT", "MUFU.RSQ", "STSM")
    told[name] = [each for line in sass.splitlines() for each in seen if each in line]
print(json.dumps(told))
"""


def test_products_of_a_step_run_while_the_next_ones_are_started(tmp_path):
    """In the machine code: the products of a step, a wait for those before, a wait for all behind the loop."""
    for name, order in told_elsewhere(CODE, tmp_path).items():
        many = 4 if "wide" in name else 8  # products in a step of 64 terms: 64 rows and 16 terms each
        starts = [place for place, each in enumerate(order) if each == "HGMMA"][:: 2 * many]
        assert len(starts) == 2  # groups of warps
        for start in starts:  # the first step, which adds to nothing, the loop, and the end
            step = ["HGMMA"] * many + ["DEPBAR.LE gsb0, 0x1"]
            assert order[start : start + 2 * many + 3] == [*step, *step, "DEPBAR.LE gsb0, 0x0"]
        # The root is one instruction for an element: 128 x 128 of them, for 128 threads.
        assert order.count("MUFU.SQRT") == (2 * 128 if "gradient" in name else 0)
        assert "MUFU.RSQ" not in order
