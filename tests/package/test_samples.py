"""Quantiles, intervals and ratios of samples."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab import costs
from rooflab.samples import Measurement, Ratio, median_interval, quantile

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


@given(VALUES, st.floats(0, 1))
def test_quantile_is_numpys(values, q):
    assert quantile(values, q) == pytest.approx(float(np.quantile(values, q)), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(("values", "q"), [([], 0.5), ([1.0], -0.1), ([1.0], 1.1), ([1.0], math.nan)])
def test_quantile_of_nothing(values, q):
    with pytest.raises(ValueError, match="expected at least one value and a q from 0 to 1"):
        quantile(values, q)


DRAWS = {
    "normal": lambda rng, shape: rng.normal(10, 1, shape) - 10,
    "exponential": lambda rng, shape: rng.exponential(1, shape) - math.log(2),
    "lognormal": lambda rng, shape: rng.lognormal(0, 1.5, shape) - 1,
    "uniform": lambda rng, shape: rng.random(shape) - 0.5,
    "two peaks": lambda rng, shape: rng.choice([-3, 3], shape) + rng.normal(0, 1, shape),
    "cauchy": lambda rng, shape: rng.standard_cauchy(shape),
}


@pytest.mark.parametrize("n", [6, 7, 8, 9, 10, 12, 15, 20, 31, 50, 75, 100])
def test_the_interval_of_the_median_holds_it_in_95_of_100_cases(n):
    """Each distribution is shifted to a median of 0. 4,000 draws see a coverage of 0.95 to about 0.0035."""
    rng = np.random.default_rng(n)
    for name, draw in DRAWS.items():
        held = [low <= 0 <= high for low, high in map(median_interval, draw(rng, (4000, n)).tolist())]
        assert np.mean(held) > 0.93, name


def test_the_coverage_is_exact_and_not_wasteful():
    """The interval between two ranks holds the median unless too few or too many of n fair coins show heads."""
    for n in range(6, 101):
        low, high = median_interval(range(n))
        misses = sum(math.comb(n, k) for k in range(n + 1) if k <= low or k > high)
        assert 0.95 <= 1 - misses / 2**n < 0.997 or (low, high) == (0, n - 1)


def test_few_samples_give_their_range():
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert median_interval([5.0]) == (5.0, 5.0)
    with pytest.raises(ValueError, match="found none"):
        median_interval([])


def test_measurement_of_hand_made_samples():
    m = Measurement("copy", (1e-3, 3e-3, 2e-3), calls=4, work=costs.copy(1000, "fp32"))
    assert (m.median_s, m.low_s, m.high_s) == (2e-3, 1e-3, 3e-3)
    assert (m.p20_s, m.p80_s) == (pytest.approx(1.4e-3), pytest.approx(2.6e-3))
    assert m.spread == pytest.approx(0.6)
    assert m.bytes_per_s == 8000 / 2e-3
    assert "spread over 60%" in m.warning
    assert repr(m).count("\n") == 1  # the warning is on a line of its own
    assert "4 MB/s" in repr(m)
    assert "FLOP/s" not in repr(m)


def test_warnings_only_where_something_is_wrong():
    quiet = Measurement("q", (1.0, 1.01, 1.02))
    assert quiet.warning == ""
    unsettled = Measurement("q", (1.0, 1.01, 1.02), settled=False)
    assert unsettled.warning == "q: not settled after 3 samples; raise budget_s."


def test_rates_need_work():
    for rate in ("flops_per_s", "bytes_per_s"):
        with pytest.raises(ValueError, match=rf"^{rate} needs the work of a call: pass work=costs.… to measure\(\)\.$"):
            getattr(Measurement("x", (1.0,)), rate)


def test_the_ratio_is_taken_round_by_round():
    drifting = Measurement("a", (1.0, 2.0, 4.0), turn=7), Measurement("b", (2.0, 4.0, 8.0), turn=7)
    ratio = drifting[1] / drifting[0]
    assert (ratio, ratio.p20, ratio.p80) == (2.0, 2.0, 2.0)


def test_the_ratio_of_unequal_numbers_of_samples_is_that_of_medians():
    ratio = Measurement("a", (1.0, 2.0, 3.0)) / Measurement("b", (1.0, 1.0))
    assert float(ratio) == 2.0
    assert ratio.p20 < 2 < ratio.p80


def test_ratios_can_be_copied_and_pickled():
    ratio = Ratio([1.0, 2.0, 4.0])
    for other in (copy.copy(ratio), copy.deepcopy(ratio), pickle.loads(pickle.dumps(ratio))):
        assert (other, other.p20, other.p80, other.ratios) == (2.0, ratio.p20, ratio.p80, (1.0, 2.0, 4.0))


@pytest.mark.parametrize(
    ("times_s", "says"),
    [
        ((), "expected at least one time of 'm'; found none"),
        ([], "expected at least one time of 'm'; found none"),
        ((1.0, 0.0), "in seconds, above zero; found 0.0"),
        ((1.0, -1.0), "in seconds, above zero; found -1.0"),
        ((1.0, math.nan), "in seconds, above zero; found nan"),
        ((math.inf,), "in seconds, above zero; found inf"),
        (("1 ms",), "in seconds, above zero; found '1 ms'"),
        ((True,), "in seconds, above zero; found True"),
        ((10**400,), "expected the times of 'm' in seconds; found one beyond all floats"),
        (1.0, "one a sample, in a list; found 1.0"),
        ("12", "one a sample, in a list; found '12'"),
    ],
)
def test_times_that_are_none(times_s, says):
    with pytest.raises((TypeError, ValueError), match=f"^(expected .*)?{says}$"):
        Measurement("m", times_s)


def test_measurements_can_be_in_sets_and_keys():
    one, same = (Measurement("m", (1.0, 2.0), env={"device": "d"}) for _ in range(2))
    assert len({one, same, Measurement("m", (1.0, 3.0))}) == 2
    assert pickle.loads(pickle.dumps(one)) == one


def test_times_in_a_list_or_an_array_become_a_tuple():
    for times_s in ([1.0, 2.0], np.array([1.0, 2.0])):
        assert Measurement("m", times_s).times_s == (1.0, 2.0)


def test_not_a_number_has_no_place_in_an_order():
    for function in (lambda values: quantile(values, 0.5), median_interval):
        with pytest.raises(ValueError, match="expected numbers; found nan among 3 values"):
            function([1.0, math.nan, 2.0])
        with pytest.raises(TypeError, match="expected numbers in a list"):
            function([1.0, None])
        assert function([math.inf, -math.inf, 0.0]) is not None
    with pytest.raises(TypeError, match=r"expected a q from 0 to 1; found '0\.5'"):
        quantile([1.0], "0.5")


def test_a_measurement_is_divided_by_measurements_only():
    with pytest.raises(TypeError, match="unsupported operand"):
        Measurement("m", (1.0,)) / 2.0
    assert Measurement("a", (1.0, 2.0), turn=1) / Measurement("b", (0.5,), turn=1) == 3.0
