"""The squared ReLU for Hopper, its partitions run as threads: results, and that no barrier waits for ever."""

import numpy as np
import pytest

from rooflab.tolerances import tolerance

pytest.importorskip("triton.experimental.gluon.language", reason="needs a Triton with Gluon")

from rooflab.kernels.products import tiles, torch_squared_relu_hopper
from rooflab.kernels.products import torch_squared_relu as operators
from rooflab.kernels.products import triton_squared_relu_hopper as hopper

from . import gluon_threads as threads
from .agreement import random, torch
from .compiling import told_elsewhere

# Few steps, of which many are loaded ahead; more steps than stages; edges; more and fewer tiles than groups of warps.
SHAPES = [
    (128, 128, 64, 1, 2), (640, 256, 64, 1, 5), (300, 200, 130, 2, 2), (500, 390, 700, 3, 5), (1, 8, 8, 4, 3),
    (520, 136, 320, 1, 4),
]  # fmt: skip


@pytest.fixture
def on_threads(monkeypatch):
    """Have products run on the emulated chip: `on_threads(programs, stages)`."""

    def prepare(programs, stages):
        def launch(kernel, grid, *args, GRADIENT, GROUP, STAGES, num_warps):
            assert num_warps == 4
            matrices = [threads.Matrix(each.base.numpy(), *each.block_shape) for each in args[:4]]
            constants = {"GRADIENT": GRADIENT, "GROUP": GROUP, "STAGES": STAGES}
            threads.run_grid("squared_relu_hopper_kernel", hopper, *grid, *matrices, *args[4:], **constants)

        monkeypatch.setattr(torch_squared_relu_hopper, "launch", launch)
        monkeypatch.setattr(torch_squared_relu_hopper, "processors", lambda device: (programs, True))
        choice = {**tiles.TURNS[0], "STAGES": stages, "GROUP": 2}
        monkeypatch.setattr(operators, "_candidates", lambda c, kind: [choice])

    return prepare


def close(found, right, terms):
    allowed = tolerance("fp16", terms, scale=float(right.abs().max()))
    torch.testing.assert_close(found.double(), right, rtol=allowed.rtol, atol=allowed.atol)


@pytest.mark.parametrize(("m", "n", "k", "programs", "stages"), SHAPES)
def test_results_agree_with_float64(m, n, k, programs, stages, on_threads):
    on_threads(programs, stages)
    x, w = random(m, k, dtype=torch.float16), random(n, k, dtype=torch.float16, seed=1) / k**0.5
    close(operators.product(x, w), (x.double() @ w.double().t()).relu().square(), k)


@pytest.mark.parametrize(("m", "n", "k", "programs", "stages"), SHAPES)
def test_gradients_agree_with_float64(m, n, k, programs, stages, on_threads):
    on_threads(programs, stages)
    dy, v = random(m, k, dtype=torch.float16), random(k, n, dtype=torch.float16, seed=1) / k**0.5
    a = random(m, n, dtype=torch.float16, seed=2).relu().square()
    close(operators.gradient(dy, v, a), 2 * a.double().sqrt() * (dy.double() @ v.double()), k)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_what_is_not_finite_stays(on_threads):
    on_threads(1, 5)
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
    assert torch_squared_relu_hopper.turns(small) == []
    for kind in ("16", "16 gradient"):
        found = operators._candidates(large, kind)
        assert found[: len(tiles.TURNS)] == list(tiles.TURNS)
        assert all("TILE_M" in each for each in found[len(tiles.TURNS) :])
        assert len(tiles.TURNS) < len(found) <= 8
        assert all("TILE_M" in each for each in operators._candidates(small, kind))
    assert all("TILE_M" in each for each in operators._candidates(large, "8 squares"))


CODE = """
import json
from rooflab.kernels.catalogue import find_build
from rooflab.kernels.compiled import compile_for
told = {}
for name in ("squared_relu_hopper", "squared_relu_gradient_hopper"):
    sass = compile_for(find_build(name), "sm90").text["sass"]
    seen = ("HGMMA", "DEPBAR.LE gsb0, 0x1", "DEPBAR.LE gsb0, 0x0", "MUFU.SQRT", "MUFU.RSQ", "STSM")
    told[name] = [each for line in sass.splitlines() for each in seen if each in line]
print(json.dumps(told))
"""


def test_products_of_a_step_run_while_the_next_ones_are_started(tmp_path):
    """In the machine code: eight products of a step, a wait for those before, a wait for all behind the loop."""
    for name, order in told_elsewhere(CODE, tmp_path).items():
        starts = [place for place, each in enumerate(order) if each == "HGMMA"][::16]
        assert len(starts) == 2  # groups of warps
        for start in starts:  # the first step, which adds to nothing, the loop, and the end
            step = ["HGMMA"] * 8 + ["DEPBAR.LE gsb0, 0x1"]
            assert order[start : start + 19] == [*step, *step, "DEPBAR.LE gsb0, 0x0"]
        # The root is one instruction for an element: 128 x 128 of them, for 128 threads.
        assert order.count("MUFU.SQRT") == (2 * 128 if "gradient" in name else 0)
        assert "MUFU.RSQ" not in order
