"""The steps of each ladder: all right, each with the bytes that its reason promises, and short."""

import ast
import inspect

import pytest

from rooflab.counters import count
from rooflab.kernels.ladder import LADDERS, difference, find_ladder

from .agreement import DEVICE, counts, near, random, torch

STEPS = [step for ladder in LADDERS.values() for step in ladder]
SOFTMAX = {step.name: step for step in LADDERS["softmax"]}


def softmax(step, x):
    y = torch.full_like(x, 7.0)
    step.function()(y, x)
    return y


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 33), (40, 100), (5, 1300)], ids=str)
@pytest.mark.parametrize("step", SOFTMAX.values(), ids=SOFTMAX)
def test_every_step_of_softmax_is_right(step, shape, dtype):
    x = random(*shape, dtype=dtype, scale=3)
    near(softmax(step, x), x.double().softmax(-1), length=shape[-1])


@pytest.mark.parametrize("step", SOFTMAX.values(), ids=SOFTMAX)
def test_rows_that_begin_with_minus_infinity(step):
    x = random(3, 2100)
    x[0, :2000] = -float("inf")
    x[1, 5] = -float("inf")
    near(softmax(step, x), x.double().softmax(-1), length=2100)


@counts
@pytest.mark.parametrize(
    ("name", "reads", "moved_per_used"),
    [
        ("naive", 3, 8),
        ("coalesced", 3, 1),
        ("online", 2, 1),
        ("registers", 1, 1),
        ("persistent", 1, 1),
        ("pipelined", 1, 1),
    ],
)
def test_each_step_moves_the_bytes_that_it_says(name, reads, moved_per_used):
    x = random(64, 256)
    y = torch.zeros_like(x)
    found = count(lambda: SOFTMAX[name].function()(y, x), world="triton")
    assert (found.bytes_read, found.bytes_written) == (reads * 4 * x.numel(), 4 * x.numel())
    assert found.moved_per_used == moved_per_used
    assert found.faults == ()


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.ladder} {step.name}")
def test_each_step_is_short_and_says_why_it_is_faster(step):
    source = inspect.getsource(step.module())
    assert len(source.splitlines()) <= 60
    told = ast.get_docstring(ast.parse(source))
    assert step.number == 1 or "aster " in told
    assert step.reason


def test_a_reader_goes_from_one_step_to_the_next_with_a_diff():
    for one, other in zip(LADDERS["softmax"], LADDERS["softmax"][1:], strict=False):
        lines = difference(one, other).splitlines()
        changed = [line for line in lines if line.startswith(("+", "-")) and not line.startswith(("+++", "---"))]
        assert 2 <= len(changed) <= 36, (one.name, other.name)
    assert difference(*LADDERS["softmax"][4:6]).startswith("--- 5 persistent\n+++ 6 pipelined")


def test_a_ladder_that_is_none_is_told():
    with pytest.raises(ValueError, match="no ladder of 'nothing'; expected one of softmax"):
        find_ladder("nothing")


@pytest.mark.skipif(DEVICE != "cpu", reason="on a GPU the command measures")
def test_the_command_shows_the_ladder(capsys):
    from rooflab.cli import main

    assert main(["ladder", "softmax"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines[1:7]] == ["3", "3", "2", "1", "1", "1"]
    assert main(["ladder", "matmul"]) == 0
    products = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in products[1:6]] == ["64.5", "64.5", "1", "1", "1"]
    assert lines[1].split("|")[2].strip() == "16", "of 32 bytes, 2 are used"
    assert main(["ladder", "softmax", "--diff", "5", "6"]) == 0
    assert "num_stages=STAGES" in capsys.readouterr().out
    assert main(["ladder", "softmax", "--diff", "1", "9"]) == 1
    assert "There is no step 9; expected one of 1 to 6" in capsys.readouterr().err


MATMUL = {step.name: step for step in LADDERS["matmul"]}


def product(step, a, b):
    c = torch.full((a.shape[0], b.shape[1]), 7.0, dtype=a.dtype, device=DEVICE)
    step.function()(c, a, b)
    return c


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("name", "shape"),
    [(name, shape) for name in MATMUL for shape in ((16, 16, 16), (130, 136, 24))]
    # The first steps have a program for few numbers: minutes in the interpreter.
    + [(name, (257, 144, 200)) for name in list(MATMUL)[2:]],
    ids=str,
)
def test_every_step_of_the_product_is_right(name, shape, dtype):
    step, (m, n, k) = MATMUL[name], shape
    a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype, seed=1)
    near(product(step, a, b), a.double() @ b.double(), length=k)


@counts
@pytest.mark.parametrize("name", MATMUL)
def test_each_step_of_the_product_reads_as_often_as_it_says(name):
    m, n, k = {"naive": (128, 8, 16), "coalesced": (8, 128, 16)}.get(name, (256, 384, 128))
    a, b = random(m, k, dtype=torch.float16), random(k, n, dtype=torch.float16, seed=1)
    c = torch.zeros(m, n, dtype=torch.float16)
    found = count(lambda: MATMUL[name].function()(c, a, b), world="triton")
    once = 2 * m * n * k
    often, seldom = once, once // 128  # 2 bytes for each product; or for 128 of them
    reads = {"naive": (often, seldom), "coalesced": (seldom, often)}.get(name, (seldom, seldom))
    assert found.bytes_read == sum(reads)
    assert found.bytes_written == 2 * m * n
    assert found.flops >= 2 * m * n * k
    assert found.faults == ()
