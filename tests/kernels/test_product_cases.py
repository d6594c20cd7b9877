"""The benchmark's cases of products and losses: every candidate that a CPU has runs and is right."""

import pytest

from rooflab.clocks import HostClock
from rooflab.kernels.benchmark import run_case
from rooflab.kernels.loss.cases import cases as losses
from rooflab.kernels.products.cases import cases as products
from rooflab.kernels.products.matvec_cases import _with_zeros
from rooflab.kernels.quantize.weights import numbers, quantize_weights

from .agreement import DEVICE, near, random, torch

SIZES = {"thin_sizes": ((3, 48, 256),), "mlp_sizes": ((40, 24, 32),)}
CASES = [*products(((40, 24, 32),), ((32, 48, 256),), DEVICE, **SIZES), *losses(((24, 40, 16),), DEVICE)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel)
def test_every_candidate_is_right_and_has_a_time(case):
    if DEVICE == "cpu" and case.kernel in ("scaled_matmul_row", "scaled_matmul_block"):
        case.candidates.pop("scaled_mm")  # which torch has not with a scale for each row on a CPU
    found = run_case(case, rounds=1, budget_s=0.01, clock=lambda sets, seconds: HostClock(), sets=2)
    assert found.left_out == {}
    assert set(found.seconds) == set(case.candidates)
    assert "rooflab" in found.seconds
    assert all(taken > 0 for taken in found.seconds.values())


def test_scales_and_zero_points_mean_to_torch_what_they_mean_here():
    """Its kernel for a CPU takes them as the one for a GPU does, and codes one by one."""
    x, w = random(2, 256, dtype=torch.bfloat16).cpu(), random(64, 256, dtype=torch.bfloat16, seed=1).cpu()
    codes, scales = quantize_weights(w, "int4", 128)
    one_by_one = torch.stack((codes & 15, codes >> 4), -1).flatten(1).int()
    packed = torch._convert_weight_to_int4pack_for_cpu(one_by_one, 2)
    found = torch._weight_int4pack_mm_for_cpu(x, packed, 128, _with_zeros(scales))
    near(found, x.double() @ numbers(codes, scales, dtype=torch.float64).T, length=256)
