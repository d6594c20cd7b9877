"""Where a curve leaves its plateau: by hand, for the model's own curves, and on curves that somebody disturbed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab import costs
from rooflab.knees import knee_overhead_bytes, leaves_plateau
from rooflab.roofline import Ceilings, bound

SIZES = [1, 2, 4, 8, 16, 32]


def test_by_hand():
    # Twice the plateau of 1 s lies halfway (in logarithms) between 8 with 1 s and 16 with 4 s.
    assert leaves_plateau(SIZES, [1, 1, 1, 1, 4, 16]) == pytest.approx(math.sqrt(8 * 16))
    assert leaves_plateau(SIZES, [1, 1, 1, 1, 4, 16], factor=4) == pytest.approx(16)


def test_a_time_that_a_neighbour_lengthened_is_no_knee():
    assert leaves_plateau(SIZES, [1, 9, 1, 1, 4, 16]) == leaves_plateau(SIZES, [1, 1, 1, 1, 4, 16])
    assert leaves_plateau(SIZES, [5, 1, 1, 1, 4, 16]) == leaves_plateau(SIZES, [1, 1, 1, 1, 4, 16])


def test_a_curve_that_stays_low_has_no_knee():
    with pytest.raises(ValueError, match=r"rise to 2 times the lowest; the largest size is still on the plateau$"):
        leaves_plateau(SIZES, [1, 1, 1, 1, 1.2, 1.9])
    with pytest.raises(ValueError, match="still on the plateau"):
        leaves_plateau(SIZES, [1, 1, 9, 1, 1, 1])


@given(
    launch_s=st.floats(1e-6, 1e-4), bytes_per_s=st.floats(1e9, 1e13), factor=st.floats(1.5, 8)
)  # fmt: skip
def test_the_models_own_curve_leaves_where_the_formula_says(launch_s, bytes_per_s, factor):
    roof = Ceilings(bytes_per_s, {"fp32": 1e18}, launch_s=launch_s)
    knee = knee_overhead_bytes(roof) / 8
    sizes = [max(1, round(knee * 1.01**i)) for i in range(-20, 400)]
    sizes = sorted(set(sizes))
    times = [bound(costs.elementwise(n, dtype="fp32"), roof).time_s for n in sizes]
    # Twice the time is twice the size, to the step of the sweep.
    assert leaves_plateau(sizes, times, factor=factor) == pytest.approx(factor * knee, rel=0.02, abs=1)
