import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab import costs
from rooflab.costs import Work
from rooflab.knees import knee_overhead_bytes, leaves_overhead, leaves_plateau, matmul_leaves_overhead, matmul_ridge
from rooflab.roofline import Bound, Ceilings, attainable, bound, fit_three, sequence_regime, sequence_time_s
from rooflab.specs import chip

TOY = Ceilings(bytes_per_s=100.0, flops_per_s={"fp32": 1000.0, "bf16": 4000.0}, launch_s=2.0, label="toy")

counts = st.integers(0, 10**15)
rates = st.floats(1e3, 1e16)
works = st.builds(Work, flops=counts, bytes_read=counts, bytes_written=counts, launches=st.integers(1, 1000))
ceilings = st.builds(
    Ceilings,
    bytes_per_s=rates,
    flops_per_s=st.fixed_dictionaries({"fp32": rates, "bf16": rates}),
    launch_s=st.floats(0, 1),
)


class TestBound:
    @pytest.mark.parametrize(
        ("work", "time_s", "regime"),
        [
            (Work(flops=10, bytes_read=50, bytes_written=50), 2.0, "overhead"),  # 2; 100/100 = 1; 10/1000
            (Work(flops=10, bytes_read=500, bytes_written=500), 10.0, "bandwidth"),  # 2; 1000/100 = 10; 0.01
            (Work(flops=30_000, bytes_read=500, bytes_written=500), 30.0, "compute"),  # 2; 10; 30000/1000 = 30
            (
                Work(flops=30_000, bytes_read=500, bytes_written=500, dtype="bf16"),
                10.0,
                "bandwidth",
            ),  # 30000/4000 = 7.5
            (Work(flops=30_000, bytes_read=500, bytes_written=500, launches=16), 32.0, "overhead"),  # 16 * 2
            (Work(bytes_read=200), 2.0, "bandwidth"),  # a tie goes to the device
        ],
    )
    def test_the_largest_of_three_terms(self, work: Work, time_s: float, regime: str) -> None:
        found = bound(work, TOY)
        assert (found.time_s, found.regime) == (time_s, regime)

    def test_the_rate_at_the_bound(self) -> None:
        assert bound(Work(flops=30_000, bytes_read=500, bytes_written=500), TOY).flops_per_s == 1000
        assert bound(Work(bytes_read=500), TOY).flops_per_s == 0
        assert Bound(0, 0, 0, flops=1).flops_per_s == math.inf

    def test_a_copy_needs_no_rate(self) -> None:
        assert bound(costs.copy(100, "int8"), TOY).time_s == 2.0

    def test_a_missing_format_names_those_that_are_there(self) -> None:
        with pytest.raises(KeyError, match=r"rate on toy \(fp32, bf16\); found fp8"):
            bound(costs.matmul(8, 8, 8, "fp8"), TOY)

    @given(works, ceilings)
    def test_time_regime_and_rate_agree(self, work: Work, roof: Ceilings) -> None:
        found = bound(work, roof)
        terms = {"overhead": found.overhead_s, "bandwidth": found.bandwidth_s, "compute": found.compute_s}
        assert terms[found.regime] == found.time_s == max(terms.values())
        if work.flops:
            assert found.flops_per_s <= roof.rate(work.dtype) * (1 + 1e-12)

    @given(works, works, ceilings)
    def test_more_work_never_takes_less_time(self, one: Work, two: Work, roof: Ceilings) -> None:
        both = bound(one + two, roof).time_s
        assert both >= max(bound(one, roof).time_s, bound(two, roof).time_s) * (1 - 1e-12)
        assert both <= (bound(one, roof).time_s + bound(two, roof).time_s) * (1 + 1e-12) + 1e-300

    @given(st.lists(works, min_size=1, max_size=6), ceilings)
    def test_a_sequence_lies_between_its_sum_and_the_sum_of_its_bounds(self, parts: list[Work], roof: Ceilings) -> None:
        time_s = sequence_time_s(parts, roof)
        assert time_s >= bound(sum(parts, start=Work(launches=0)), roof).time_s * (1 - 1e-9)
        assert time_s <= sum(bound(part, roof).time_s for part in parts) * (1 + 1e-9)

    def test_a_sequence_by_hand(self) -> None:
        # Host: two launches of 2 s. Device: max(500/100, 0) and max(0, 6000/1000): 5 + 6; the sum alone says 6.
        parts = [Work(bytes_read=500), Work(flops=6000)]
        assert sequence_time_s(parts, TOY) == 11.0
        assert bound(parts[0] + parts[1], TOY).time_s == 6.0
        assert sequence_time_s([Work()] * 3, TOY) == 6.0

    def test_the_regime_of_a_sequence_by_hand(self) -> None:
        moving, computing = Work(bytes_read=500), Work(flops=6000)  # 5 s and 6 s; each launch takes 2 s
        assert sequence_regime([Work()] * 3, TOY) == "overhead"
        assert sequence_regime([moving, computing], TOY) == "compute"
        assert sequence_regime([moving, computing, moving], TOY) == "bandwidth"
        assert sequence_regime([moving, *[Work()] * 5], TOY) == "overhead"  # 12 s of launches, 5 s of work

    @given(works, ceilings)
    def test_one_work_is_a_sequence(self, work: Work, roof: Ceilings) -> None:
        assert sequence_regime([work], roof) == bound(work, roof).regime


class TestAttainable:
    def test_the_two_roofs_meet_at_the_ridge(self) -> None:
        assert TOY.ridge("fp32") == 10
        assert [attainable(i, TOY, "fp32") for i in (1.0, 10.0, 100.0)] == [100, 1000, 1000]
        np.testing.assert_array_equal(attainable(np.array([1.0, 20.0]), TOY, "fp32"), [100, 1000])
        assert attainable(math.inf, TOY, "bf16") == 4000

    @given(works, ceilings)
    def test_the_roof_is_the_bound_without_overhead(self, work: Work, roof: Ceilings) -> None:
        if work.flops and work.bytes:
            free = Ceilings(roof.bytes_per_s, roof.flops_per_s)
            assert bound(work, free).flops_per_s == pytest.approx(attainable(work.intensity, free, "fp32"), rel=1e-9)

    def test_beyond_all_floats_is_the_flat_roof(self) -> None:
        assert attainable(10**400, TOY, "fp32") == attainable(math.inf, TOY, "fp32") == TOY.rate("fp32")
        assert attainable(np.float32(1), TOY, "fp32") == attainable(1.0, TOY, "fp32")
        assert attainable(np.array([1e300, math.inf]), TOY, "fp32").tolist() == [TOY.rate("fp32")] * 2


class TestCeilings:
    def test_to_json_and_back(self) -> None:
        again = Ceilings.from_dict(json.loads(json.dumps(TOY.to_dict())))
        assert again == TOY
        assert hash(again) == hash(TOY)
        assert pickle.loads(pickle.dumps(TOY)) == copy.deepcopy(TOY) == TOY

    @pytest.mark.parametrize(
        ("values", "says"),
        [
            ([1, 2], "expected ceilings as values by name; found a list"),
            ({}, "expected ceilings with bytes_per_s and flops_per_s; found nothing"),
            ({"bytes_per_s": 1.0, "flops": {}}, "expected ceilings with flops_per_s; found bytes_per_s, flops"),
            (TOY.to_dict() | {"colour": 1}, "expected ceilings of bytes_per_s, .*; found 'colour'"),
            (TOY.to_dict() | {"flops_per_s": [1.0]}, "expected flops_per_s as format and rate"),
        ],
    )
    def test_values_that_describe_none(self, values: Any, says: str) -> None:
        with pytest.raises((TypeError, ValueError), match=says):
            Ceilings.from_dict(values)

    def test_they_cannot_be_changed(self) -> None:
        with pytest.raises(TypeError):
            TOY.flops_per_s["fp32"] = 1.0  # type: ignore[index]

    def test_names_of_libraries_are_understood(self) -> None:
        assert Ceilings(1.0, {"torch.bfloat16": 2.0}).rate("bfloat16") == 2.0

    @pytest.mark.parametrize(
        "wrong",
        [
            {"bytes_per_s": 0.0},
            {"bytes_per_s": math.nan},
            {"flops_per_s": {"fp32": -1.0}},
            {"launch_s": -1e-6},
            {"flops_per_s": {"fp128": 1.0}},
            {"flops_per_s": {"fp32": math.inf}},
            {"flops_per_s": {"fp32": "fast"}},
            {"flops_per_s": {"fp32": True}},
            {"bytes_per_s": math.inf},
            {"bytes_per_s": "1e9"},
            {"launch_s": math.inf},
            {"launch_s": None},
        ],
    )
    def test_nonsense_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="expected"):
            Ceilings(**{"bytes_per_s": 1.0, "flops_per_s": {"fp32": 1.0}, **wrong})

    def test_a_datasheet(self) -> None:
        roof = Ceilings.of_chip(chip("h100-sxm"))
        assert (roof.measured, roof.launch_s, roof.date) == (False, 0.0, "2026-11-29")
        assert "datasheet" in roof.label
        assert round(roof.ridge("bf16")) == 295


class TestFit:
    # t0 = 10 us; 1 GB in 1 ms: beta = 1 TB/s; 1e12 FLOP in 10 ms: pi = 100 TFLOP/s.
    FIT = fit_three(10e-6, (1e9, 1e-3), (1e12, 10e-3), dtype="bf16")

    def test_three_numbers_give_three_parameters(self) -> None:
        assert self.FIT.launch_s == 10e-6
        assert self.FIT.bytes_per_s == pytest.approx(1e12)
        assert self.FIT.rate("bf16") == pytest.approx(1e14)
        assert self.FIT.measured

    def test_the_knees_by_hand(self) -> None:
        assert knee_overhead_bytes(self.FIT) == pytest.approx(1e7)  # 10 us * 1 TB/s
        # By bytes sqrt(1e7 / 6) = 1291; by FLOPs cbrt(1e-5 * 1e14 / 2) = cbrt(5e8) = 794: FLOPs come first.
        assert matmul_leaves_overhead(self.FIT, "bf16") == pytest.approx(793.7, rel=1e-4)
        assert matmul_ridge(self.FIT, "bf16") == pytest.approx(300)  # 3 s ridge / 2 = 3 * 2 * 100 / 2

    def test_the_knees_when_bytes_come_first(self) -> None:
        slow = Ceilings(1e11, {"fp32": 1e14}, launch_s=1e-6)  # sqrt(1e5/12) = 91; cbrt(5e7) = 368
        assert matmul_leaves_overhead(slow, "fp32") == pytest.approx(91.29, rel=1e-4)

    @given(ceilings.filter(lambda c: c.launch_s > 1e-9))
    def test_the_knees_are_where_the_regime_changes(self, roof: Ceilings) -> None:
        knee = matmul_leaves_overhead(roof, "fp32")
        if 1 < knee < 1e5:
            assert bound(costs.matmul(*[math.floor(knee * 0.999)] * 3, "fp32"), roof).regime == "overhead"
            assert bound(costs.matmul(*[math.ceil(knee * 1.001)] * 3, "fp32"), roof).regime != "overhead"
        free = Ceilings(roof.bytes_per_s, roof.flops_per_s)
        ridge = matmul_ridge(roof, "fp32")
        if 10 < ridge < 1e9:
            assert bound(costs.matmul(*[math.floor(ridge * 0.99)] * 3, "fp32"), free).regime == "bandwidth"
            assert bound(costs.matmul(*[math.ceil(ridge * 1.01)] * 3, "fp32"), free).regime == "compute"

    @given(ceilings.filter(lambda c: c.launch_s > 1e-9))
    def test_the_search_agrees_with_the_formula(self, roof: Ceilings) -> None:
        knee = matmul_leaves_overhead(roof, "fp32")
        if knee < 1e5:
            found = leaves_overhead(lambda n: costs.matmul(n, n, n, "fp32"), roof)
            assert found == pytest.approx(max(1, math.ceil(knee)), abs=1)

    def test_the_batch_at_which_an_mlp_leaves(self) -> None:
        roof = Ceilings(1e12, {"fp32": 1e13}, launch_s=10e-6)

        def step(batch: int) -> Work:
            return costs.mlp([256, 256, 10], batch, "fp32", training=True)

        batch = leaves_overhead(step, roof)
        assert bound(step(batch - 1), roof).regime == "overhead"
        assert bound(step(batch), roof).regime != "overhead"

    def test_a_search_without_an_end_is_refused(self) -> None:
        with pytest.raises(ValueError, match="found none"):
            leaves_overhead(lambda n: Work(launches=n), TOY, high=1000)

    @pytest.mark.parametrize(
        ("tiny", "large", "product"),
        [(0.0, (1e9, 1e-3), (1e12, 1e-2)), (1e-5, (1e9, 1e-6), (1e12, 1e-2)), (1e-5, (1e9, 1e-3), (0.0, 1e-2))],
    )
    def test_numbers_that_cannot_be_fitted_are_refused(
        self, tiny: float, large: tuple[float, float], product: tuple[float, float]
    ) -> None:
        with pytest.raises(ValueError, match="measure a larger one"):
            fit_three(tiny, large, product, dtype="fp32")


def test_a_ceiling_that_was_broken_through_is_raised():
    roof = Ceilings(1e10, {"fp32": 1e12, "bf16": 2e12}, launch_s=1e-6, label="x")
    raised = roof.raised(bytes_per_s=2e10, flops_per_s={"fp32": 5e11, "bf16": 3e12, "fp8": 9e12})
    assert (raised.bytes_per_s, dict(raised.flops_per_s)) == (2e10, {"fp32": 1e12, "bf16": 3e12})
    assert (raised.launch_s, raised.label) == (1e-6, "x")
    assert roof.raised() == roof


class TestOddInput:
    @pytest.mark.parametrize(
        ("call", "says"),
        [
            (lambda: bound(None, TOY), r"expected bound\(work, ceilings\); found a NoneType and a Ceilings"),
            (
                lambda: bound(TOY, costs.copy(1, "fp32")),
                r"expected bound\(work, ceilings\); found a Ceilings and a Work",
            ),
            (lambda: sequence_time_s(costs.copy(1, "fp32"), TOY), "expected a list of works, one after the other"),
            (lambda: sequence_time_s(None, TOY), "expected a list of works, one after the other; found None"),
            (lambda: sequence_regime(costs.copy(1, "fp32"), TOY), "expected a list of works.*found a single one"),
            (lambda: sequence_regime([1], TOY), r"expected bound\(work, ceilings\); found a int"),
            (lambda: attainable(1, None, "fp32"), r"expected attainable\(intensity, ceilings, dtype\); found None"),
            (lambda: attainable(np.array([1, -1]), TOY, "fp32"), "expected an intensity of zero or more"),
            (lambda: attainable(np.array([math.nan]), TOY, "fp32"), "expected an intensity of zero or more"),
            (lambda: attainable(np.array(["a"]), TOY, "fp32"), "expected an intensity of zero or more"),
            (lambda: Ceilings(1, {"fp32": 1, "float32": 2}), "expected one rate of fp32; found two, one as 'float32'"),
            (lambda: Ceilings(1, {"fp32": 10**400}), "expected the rate of fp32 to be at most .*; found a whole"),
            (lambda: attainable("1", TOY, "fp32"), "expected an intensity of zero or more .*; found '1'"),
            (lambda: attainable([1.0], TOY, "fp32"), "expected an intensity of zero or more"),
            (lambda: attainable(-1.0, TOY, "fp32"), "expected an intensity of zero or more"),
            (lambda: attainable(math.nan, TOY, "fp32"), "expected an intensity of zero or more"),
            (lambda: Ceilings.of_chip("h200"), r"expected a chip, such as specs.chip\('h200'\); found 'h200'"),
            (lambda: TOY.raised(bytes_per_s=math.nan), "expected the rate of bytes_per_s that was reached"),
            (lambda: TOY.raised(flops_per_s={"fp32": -1}), "expected the rate of fp32 that was reached"),
            (lambda: fit_three(1e-6, (1e9,), (1e9, 1), dtype="fp32"), r"\(amount, seconds\) of the elementwise; found"),
            (lambda: fit_three("1 µs", (1e9, 1), (1e9, 1), dtype="fp32"), "expected seconds of the tiny operation"),
            (lambda: costs.copy(1, "fp32") * True, "unsupported operand"),
        ],
    )
    def test_is_one_sentence(self, call: Any, says: str) -> None:
        with pytest.raises((TypeError, ValueError), match=says):
            call()

    @pytest.mark.parametrize(
        ("sizes", "times", "options", "says"),
        [
            ([], [], {}, "expected as many sizes as times, one or more; found 0 and 0"),
            ([1, 2, 3], [1, 2], {}, "expected as many sizes as times, one or more; found 3 and 2"),
            ([0, 2, 3], [1, 1, 3], {}, "expected sizes in rising order and times, all above zero"),
            ([3, 2, 1], [1, 1, 3], {}, "expected sizes in rising order"),
            ([1, 2, 3], [0, 1, 3], {}, "expected sizes in rising order and times, all above zero"),
            ([1, 2, 3], [math.nan, 1, 3], {}, "expected sizes in rising order and times, all above zero"),
            ([1, 2, 3], [1, 1, 3], {"factor": 1}, "expected a factor above 1"),
            ([1, 2, 3], [1, 1, 3], {"factor": math.nan}, "expected a factor above 1"),
        ],
    )
    def test_of_a_plateau(self, sizes: list[float], times: list[float], options: Any, says: str) -> None:
        with pytest.raises(ValueError, match=says):
            leaves_plateau(sizes, times, **options)

    @pytest.mark.parametrize(("low", "high"), [(0, 9), (9, 1), (-1, -1)])
    def test_of_a_search(self, low: int, high: int) -> None:
        with pytest.raises(ValueError, match="expected sizes 1 <= low <= high to search"):
            leaves_overhead(lambda n: costs.axpy(n, "fp32"), TOY, low=low, high=high)
