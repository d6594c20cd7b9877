"""The benchmark's cases of products and losses: every candidate that a CPU has runs and is right."""

import pytest

from rooflab.clocks import HostClock
from rooflab.kernels.benchmark import run_case
from rooflab.kernels.loss.cases import cases as losses
from rooflab.kernels.products.cases import cases as products

from .agreement import DEVICE

CASES = [*products(((40, 24, 32),), ((32, 48, 256),), DEVICE, ((3, 48, 256),)), *losses(((24, 40, 16),), DEVICE)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel)
def test_every_candidate_is_right_and_has_a_time(case):
    if DEVICE == "cpu" and case.kernel in ("scaled_matmul_row", "scaled_matmul_block"):
        case.candidates.pop("scaled_mm")  # which torch has not with a scale for each row on a CPU
    found = run_case(case, rounds=1, budget_s=0.01, clock=lambda sets, seconds: HostClock(), sets=2)
    assert found.left_out == {}
    assert set(found.seconds) == set(case.candidates)
    assert "rooflab" in found.seconds
    assert all(taken > 0 for taken in found.seconds.values())
