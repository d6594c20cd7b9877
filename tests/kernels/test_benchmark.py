"""The benchmark's cases: every candidate runs, is right, and is timed beside the others."""

import itertools
from types import SimpleNamespace

import pytest

from rooflab import kernel_bench
from rooflab.clocks import HostClock
from rooflab.kernels import benchmark
from rooflab.kernels.attend.cases import cases as attention
from rooflab.kernels.benchmark import Case, run_case, share
from rooflab.kernels.pointwise.cases import cases as pointwise
from rooflab.kernels.quantize.cases import cases as quantize
from rooflab.kernels.rows.cases import cases as rows

from .agreement import DEVICE, torch

CASES = [*rows(((6, 40),), DEVICE), *pointwise(((5, 24),), DEVICE), *quantize(((4, 64),), DEVICE)]
CASES += attention(((16, 40, False), (16, 40, True)), ((2, 50, 16),), DEVICE, 40)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kernel} {case.size}")
def test_every_candidate_is_right_and_has_a_time(case):
    found = run_case(case, rounds=1, budget_s=0.01, clock=HostClock, sets=2)
    assert set(found) == set(case.candidates)
    assert {"rooflab", case.ceiling} <= set(found)
    assert all(taken > 0 for taken in found.values())


def case_of(mine):
    def made(seed):
        return (torch.full((4, 4), float(seed + 1)),)

    return Case("double", "4 x 4", made, {"copy": torch.clone, "rooflab": mine}, "copy", lambda x: 2 * x)


@pytest.mark.parametrize("wrong", [lambda x: x, lambda x: 2.01 * x, lambda x: x * float("nan")])
def test_what_is_wrong_is_not_measured(wrong):
    with pytest.raises(AssertionError, match="double 4 x 4: the result of rooflab is off by"):
        run_case(case_of(wrong), rounds=1, budget_s=0.01, clock=HostClock, sets=2)


def test_inputs_are_rotated():
    seen = set()
    run_case(case_of(lambda x: (seen.add(float(x[0, 0])), 2 * x)[1]), rounds=1, budget_s=0.01, clock=HostClock, sets=3)
    assert seen == {1.0, 2.0, 3.0}


def test_loops_of_jax_are_measured_without_their_launch(monkeypatch):
    jax = pytest.importorskip("jax", reason="needs JAX")
    loop = benchmark._Loop(benchmark.JaxLoop(lambda x, y: x + y, jax.numpy.zeros(4), (jax.numpy.ones(4),)))
    short, long = (run(loop.loop.state, *loop.loop.arrays) for run in loop.runs)
    assert (float(short[0]), float(long[0])) == (10.0, 50.0)
    ticks = itertools.count()
    monkeypatch.setattr(benchmark.time, "perf_counter", lambda: float(next(ticks)))
    assert loop.seconds() == pytest.approx(1e-9 / 40), "both lengths took one tick: nothing is left"


def test_shares_are_sorted():
    assert list(share({"copy": 1.0, "a": 4.0, "b": 2.0}, "copy").items()) == [("b", 0.5), ("a", 0.25)]


FOUND = {
    "softmax 16384 x 1024": {"ceiling": "copy", "target": 0.95,
                             "seconds": {"copy": 2e-5, "rooflab": 2.05e-5, "eager": 4e-5, "jax": 3e-5}},
    "rms_norm 8 x 8": {"ceiling": "copy", "target": 0.95, "seconds": {"copy": 1e-5, "rooflab": 2e-5}},
}  # fmt: skip


def test_a_row_says_whether_the_target_is_reached():
    rows = [kernel_bench.row(name, one) for name, one in FOUND.items()]
    assert rows[0] == ["softmax", "16384 x 1024", "20.5 µs", "0.98", "0.67 (jax)", "0.95"]
    assert rows[1][3:] == ["0.50", "–", "0.95, missed"]


def test_the_figure_is_a_picture(tmp_path):
    assert kernel_bench.draw(FOUND).startswith(b"\x89PNG")


def test_without_a_gpu_the_command_says_what_to_do_instead(capsys, monkeypatch):
    from rooflab.cli import main

    monkeypatch.setattr("rooflab.device.find_device", lambda: SimpleNamespace(kind="cpu"))
    assert main(["bench", "kernels", "softmax"]) == 1
    assert "an interpreted kernel has no speed: see `rooflab compile`" in capsys.readouterr().err
