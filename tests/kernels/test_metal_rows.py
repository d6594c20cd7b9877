"""The Metal kernels over rows, compiled as C++ and run thread by thread: no Apple GPU has been here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .agreement import DEVICE, SHORT, agree, near, random, row_functions, torch

from rooflab import kernels  # isort: skip
from rooflab.kernels.rows import metal_norm, metal_softmax, metal_source, torch_norm, torch_softmax  # isort: skip

from .metal_emulation import COMPILER, Library  # isort: skip

pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="needs g++, with which shaders are compiled as C++"),
    pytest.mark.skipif(DEVICE != "cpu", reason="the shaders' C++ form takes tensors on the CPU"),
]
ROWS_OPS = ["softmax", "rms_norm", "layer_norm"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return tmp_path_factory.mktemp("metal")


@pytest.fixture(params=[False, True], ids=["first simdgroup first", "last simdgroup first"])
def apple(request, monkeypatch, built):
    """Tensors on the CPU are taken for those of an Apple GPU."""

    def library(text, dtype, cols):
        return Library(metal_source.source(text, dtype, cols), built, backwards=request.param)

    for module in (metal_softmax, metal_norm):
        monkeypatch.setattr(module, "library", library)
    for module in (torch_softmax, torch_norm):
        monkeypatch.setattr(module, "on_apple", lambda tensor: True)


@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 3, 33), (4, 257), (3, 1000), (1, 9000)], ids=str)
@pytest.mark.parametrize("name", ROWS_OPS)
def test_results_and_gradients_agree_with_float64(name, shape, dtype, apple):
    mine, reference, parameters = row_functions(name, shape[-1], dtype)
    agree(mine, reference, [random(*shape, dtype=dtype), *parameters], length=shape[-1])


@pytest.mark.parametrize("name", ROWS_OPS)
def test_threadgroups_take_rows_in_turn(name, apple, monkeypatch):
    monkeypatch.setattr(metal_norm, "_STAYING", 3)
    mine, reference, parameters = row_functions(name, 300)
    agree(mine, reference, [random(11, 300), *parameters], length=300)


@pytest.mark.parametrize("centred", [False, True], ids=["rms_norm", "layer_norm"])
def test_a_residual_is_added_first(centred, apple):
    functional = torch.nn.functional

    def mine(x, residual, w, b):
        add = kernels.add_layer_norm(x, residual, w, b) if centred else kernels.add_rms_norm(x, residual, w)
        return add[0] + (3 * add[1] if centred else 3 * add[1] + b)

    def reference(x, residual, w, b):
        h = x + residual
        if centred:
            return functional.layer_norm(h, (40,), w, b, 1e-5) + 3 * h
        return functional.rms_norm(h, (40,), w, 1e-6) + 3 * h + b

    agree(mine, reference, [random(5, 40), random(5, 40, seed=1), random(40, seed=2), random(40, seed=3)], length=40)


@pytest.mark.parametrize("name", ROWS_OPS)
def test_strides_of_any_kind(name, apple):
    for change in (lambda x: x.t(), lambda x: x[::2], lambda x: x[:, 3:20], lambda x: x[:1].expand(6, -1)):
        x = change(random(24, 24))
        mine, reference, parameters = row_functions(name, x.shape[-1])
        agree(mine, reference, [x, *parameters], length=24)


@pytest.mark.parametrize("name", ROWS_OPS)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0)], ids=str)
def test_what_is_empty_stays_empty(name, shape, apple):
    mine, _, parameters = row_functions(name, shape[-1])
    x = torch.zeros(shape, requires_grad=True)
    mine(x, *parameters).sum().backward()
    assert x.grad.shape == shape


def test_infinities_and_nan_in_softmax_are_those_of_torch(apple):
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[0.0, -inf, 1.0], [-inf, -inf, -inf], [inf, 0.0, 1.0], [nan, 0.0, 1.0], [3e38, -3e38, 3e38]])
    near(kernels.softmax(x), x.double().softmax(-1), length=3)


def test_the_longest_row(apple):
    x = random(1, 65_536)
    near(kernels.softmax(x), x.double().softmax(-1), length=65_536)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("cols", [1, 32, 1000, 65_536])
def test_a_row_fits_into_a_threadgroup(dtype, cols):
    threads, items = metal_source.shape_of(cols)
    assert threads % 32 == 0
    assert 32 <= threads <= 1024
    assert cols <= threads * items < cols + threads
    text = metal_source.source(metal_softmax.KERNELS, dtype, cols)
    assert f"#define THREADS {threads} " in text


def test_a_missing_barrier_would_be_seen(built):
    """The emulation is worth something only if it fails where a GPU would."""
    text = metal_source.source(metal_softmax.KERNELS, "float32", 1000)
    parts = text.split("threadgroup_barrier(mem_flags::mem_threadgroup);")
    assert len(parts) == 5
    x = random(2, 1000)
    right = x.softmax(-1)
    for missing in (0, 1, 3):  # the other one waits for an earlier maximum, and there is none
        middle = ["threadgroup_barrier(mem_flags::mem_threadgroup);"] * 4
        middle[missing] = ""
        broken = "".join(part + between for part, between in zip(parts, [*middle, ""], strict=True))
        found = []
        for backwards in (False, True):
            y = torch.empty_like(x)
            Library(broken, built, backwards=backwards).softmax(y, x, 1000, 1000, threads=[128, 2], group_size=[128, 1])
            found.append(torch.allclose(y, right, atol=1e-6))
        assert not all(found), f"barrier {missing}"


CODE = """
import importlib.abc, importlib.util, sys

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "triton":
            raise ModuleNotFoundError("No module named 'triton'", name="triton")

sys.meta_path.insert(0, Block())
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "triton" else real(name, *rest)
import torch
available = lambda: True
available.__wrapped__ = available  # torch's own has one, which its compiler asks for
torch.backends.mps.is_available = available
from rooflab import kernels
from rooflab.kernels import api
try:
    kernels.softmax(torch.zeros(1, 2))
except ImportError as error:
    print(error)
print(*sorted(api._torch))
"""


def test_on_a_mac_without_triton_the_kernels_in_metal_are_there():
    env = {**os.environ, "PYTHONPATH": str(Path(kernels.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", CODE], env=env, capture_output=True, text=True, timeout=500)
    assert done.stdout.splitlines() == [
        'This needs the package triton: pip install "rooflab[triton]"',
        # The rounding of weights is torch's alone.
        "add_layer_norm add_rms_norm layer_norm quantize_weights rms_norm softmax",
    ], done.stderr
