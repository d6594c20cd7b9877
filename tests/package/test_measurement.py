"""measure and measure_all on a fake machine, where the truth is known and no real time passes."""

import concurrent.futures
import functools
import gc
import io
import itertools
import math
import multiprocessing.pool
import threading
from typing import ClassVar

import numpy as np
import pytest

from rooflab import costs, measurement
from rooflab.clocks import HostClock
from rooflab.measurable import refuse_promise
from rooflab.measurement import MOST_CALLS, SAMPLE_S, Measurement, _Candidate, _even_out, measure, measure_all
from rooflab.simulate import FakeMachine


def clock_of(machine: FakeMachine) -> HostClock:
    return HostClock(now=machine.now, wait=machine.wait, resolution_s=machine.resolution_s)


def on(machine: FakeMachine, kernel: str = "work", **options) -> Measurement:
    return measure(lambda: machine.launch(kernel), clock=clock_of(machine), **options)


def both(machine: FakeMachine, **options) -> dict[str, Measurement]:
    candidates = {name: lambda name=name: machine.launch(name) for name in ("a", "b")}
    return measure_all(candidates, clock=clock_of(machine), **options)


def test_the_device_is_waited_for():
    machine = FakeMachine(kernels={"work": 2_000_000}, launch_ns=5_000, wait_ns=3_000)
    m = on(machine)
    assert m.calls == 1
    assert list(m.times_s) == pytest.approx([2_008e-6] * 9)
    assert machine.busy_reads() == 0


def test_long_samples_approach_the_devices_own_time():
    m = on(FakeMachine(kernels={"work": 50_000}, launch_ns=5_000, wait_ns=3_000), calls=100)
    assert m.median_s == pytest.approx(50e-6 + 8e-6 / 100)


def test_the_first_call_is_reported_apart():
    machine = FakeMachine(kernels={"work": 100_000}, compile_ns=7_000_000)
    m = on(machine)
    assert m.first_call_s == pytest.approx(7.108e-3)
    assert max(m.times_s) < 2e-4


def test_warming_up_ends_when_two_in_a_row_agree():
    machine = FakeMachine(kernels={"work": 10_000_000}, tune_factors=[50, 20, 8, 3, 1.5])
    m = on(machine, min_samples=3, max_samples=3, budget_s=10)
    assert list(m.times_s) == pytest.approx([10.008e-3] * 3)


def test_warming_up_ends_when_the_time_is_up():
    """Calls that never agree, a second each: the budget holds."""
    machine = FakeMachine(kernels={"work": 1_000_000_000}, tune_factors=[2.0**k for k in range(40, 0, -1)])
    on(machine, min_samples=1, budget_s=0.5, calls=1)
    assert len(machine.order()) == 1 + 2 + 1


def test_stops_as_soon_as_the_median_is_settled():
    machine = FakeMachine(kernels={"work": 2_000_000})
    m = on(machine)
    assert m.settled
    assert len(m.times_s) == 9
    assert m.warning == ""


def test_noise_asks_for_more_samples():
    quiet, noisy = (on(FakeMachine(kernels={"work": 2_000_000}, jitter=j, seed=3), budget_s=60) for j in (0.02, 0.3))
    assert quiet.settled
    assert noisy.settled
    assert len(noisy.times_s) > 2 * len(quiet.times_s)
    assert noisy.high_s - noisy.low_s <= 0.02 * noisy.median_s


def test_the_budget_ends_an_unsettled_run_and_it_says_so():
    machine = FakeMachine(kernels={"work": 10_000_000}, jitter=0.2, seed=1)
    m = on(machine, budget_s=0.5, settle=0.001)
    assert not m.settled
    assert sum(m.times_s) == pytest.approx(0.5, rel=0.1)
    assert "not settled" in m.warning or "spread" in m.warning
    assert m.warning in repr(m)


def test_settle_zero_samples_until_the_end_and_is_not_called_unsettled():
    m = on(FakeMachine(kernels={"work": 2_000_000}), settle=0, max_samples=77, budget_s=60)
    assert len(m.times_s) == 77
    assert m.settled


@pytest.mark.parametrize(("least", "most"), [(1, 1), (30, 40), (200, 200)])
def test_number_of_samples(least, most):
    m = on(FakeMachine(kernels={"work": 2_000_000}), min_samples=least, max_samples=most, budget_s=0)
    assert len(m.times_s) == least


def test_a_wide_spread_is_said():
    machine = FakeMachine(kernels={"work": 2_000_000}, neighbour_calls=[[i, i + 1] for i in range(0, 2000, 2)])
    m = on(machine, max_samples=50)
    assert m.spread > 0.1
    assert "close what else is running" in m.warning


def test_the_order_alternates():
    machine = FakeMachine(kernels={"a": 2_000_000, "b": 2_000_000})
    both(machine, calls=1, min_samples=4, max_samples=4)
    assert machine.order()[-8:] == ["a", "b", "b", "a", "a", "b", "b", "a"]


def test_a_drift_hits_both_alike():
    """Two equal kernels on a device that slows by 0.1 % a call. In turn the ratio is 1 to within one call's drift."""
    drifting = {"kernels": {"a": 2_000_000, "b": 2_000_000}, "drift_per_call": 0.001, "drift_limit": 10.0}
    options = {"min_samples": 100, "max_samples": 100, "budget_s": 100}
    turns = both(FakeMachine(**drifting), **options)
    in_turn = turns["b"] / turns["a"]
    assert in_turn == pytest.approx(1, abs=1e-3)
    machine = FakeMachine(**drifting)
    first, second = on(machine, "a", **options), on(machine, "b", **options)
    assert second / first > 1.05
    assert max(turns["a"].times_s) > 1.1 * min(turns["a"].times_s)  # the times themselves do drift


def test_all_candidates_have_the_same_number_of_samples():
    machine = FakeMachine(kernels={"a": 1_500_000, "b": 9_000_000}, jitter=0.1)
    found = both(machine)
    assert len(found["a"].times_s) == len(found["b"].times_s)


@pytest.mark.parametrize("kernel_ns", [1_000, 30_000, 400_000, 5_000_000])
def test_a_sample_lasts(kernel_ns):
    machine = FakeMachine(kernels={"work": kernel_ns}, wait_ns=3_000, launch_ns=5_000)
    m = on(machine)
    assert m.calls == 1 or SAMPLE_S <= m.calls * m.median_s < 2.1 * SAMPLE_S


def test_a_coarse_clock_leads_to_more_calls_per_sample():
    fine, coarse = (on(FakeMachine(kernels={"work": 50_000}, resolution_ns=r), budget_s=60) for r in (1, 1_000_000))
    assert coarse.calls > 10 * fine.calls
    assert coarse.median_s == pytest.approx(fine.median_s, rel=0.02)


def test_a_clock_that_does_not_move_is_said():
    machine = FakeMachine(kernels={"work": 10}, launch_ns=0, wait_ns=0, resolution_ns=1_000_000_000)
    with pytest.raises(RuntimeError, match=r"^1 calls of '<lambda>' took no time on the host clock .*larger calls=\.$"):
        on(machine, calls=1)


def test_calls_are_limited():
    machine = FakeMachine(kernels={"work": 0}, launch_ns=1, wait_ns=0, max_launches=10**6)
    assert on(machine, min_samples=1, max_samples=1).calls == MOST_CALLS


class TestInputs:
    @pytest.mark.parametrize("n", [1, 3, 7])
    def test_each_input_equally_often(self, n):
        machine = FakeMachine(kernels={"work": 50_000})
        buffers = list(range(n))
        m = measure(lambda b: machine.launch(buffer=b), inputs=buffers, clock=clock_of(machine))
        assert m.calls % n == 0
        used = [event[3] for event in machine.log if event[0] == "launch"][1:]  # after the first call
        assert {used.count(b) for b in buffers} == {len(used) // n}

    def test_given_calls_are_rounded_up_to_whole_turns(self):
        machine = FakeMachine()
        m = measure(lambda b: machine.launch(buffer=b), inputs=[0, 1, 2], calls=4, clock=clock_of(machine))
        assert m.calls == 6

    def test_rotation_leaves_the_cache(self):
        settings = {"kernels": {"work": 0}, "kernel_bytes": {"work": 1 << 20}, "cache_bytes": 4 << 20,
                    "memory_bytes_per_ns": 1.0, "cache_bytes_per_ns": 10.0}  # fmt: skip
        work = costs.Work(bytes_read=1 << 20)
        rates = []
        for buffers in ([0], list(range(8))):
            machine = FakeMachine(**settings)
            m = measure(lambda b, on=machine: on.launch(buffer=b), work, inputs=buffers, clock=clock_of(machine))
            rates.append(m.bytes_per_s)
        assert rates[0] > 8e9
        assert rates[1] < 2e9

    def test_cold_samples_take_the_inputs_in_turn(self, monkeypatch):
        machine = FakeMachine(kernels={"work": 50_000})
        monkeypatch.setattr(measurement, "cache_flusher", lambda: machine.flush)
        m = measure(lambda b: machine.launch(buffer=b), inputs=[0, 1, 2], cold=True, clock=clock_of(machine))
        assert m.calls == 1
        used = [event[3] for event in machine.log if event[0] == "launch"]
        assert used == [i % 3 for i in range(len(used))]


def test_cold_flushes_before_every_sample(monkeypatch):
    settings = {"kernels": {"work": 0}, "kernel_bytes": {"work": 1 << 20}, "cache_bytes": 4 << 20,
                "memory_bytes_per_ns": 1.0, "cache_bytes_per_ns": 10.0}  # fmt: skip
    times = {}
    for cold in (False, True):
        machine = FakeMachine(**settings)
        monkeypatch.setattr(measurement, "cache_flusher", lambda machine=machine: machine.flush)
        m = on(machine, cold=cold, min_samples=12, max_samples=12, calls=1)
        times[cold] = m.median_s
        assert m.cold == cold
        events = [event[0] for event in machine.log if event[0] in ("flush", "launch")]
        assert events.count("flush") == (12 if cold else 0)
        if cold:
            assert events[-24:] == ["flush", "launch"] * 12
    assert times[True] > 5 * times[False]


def test_garbage_is_collected_again_after_an_exception():
    calls = []

    def fails():
        calls.append(gc.isenabled())
        if len(calls) > 20:
            raise ZeroDivisionError

    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        measure(fails, calls=1, settle=0)
    assert gc.isenabled()
    assert not calls[-1]
    gc.disable()
    try:
        measure(lambda: None, budget_s=0)
        assert not gc.isenabled()  # left as it was found
    finally:
        gc.enable()


def test_names_and_work():
    def named():
        return 1

    quick = {"budget_s": 0, "min_samples": 1}
    assert measure(named, **quick).name == "named"
    assert measure(named, name="own", **quick).name == "own"
    assert measure(named, costs.matmul(8, 8, 8, "fp32"), **quick).name == costs.matmul(8, 8, 8, "fp32").name
    found = measure_all({"a": named, "b": named}, {"a": costs.copy(1, "fp32"), "b": costs.copy(2, "fp32")}, **quick)
    assert (found["a"].work.bytes, found["b"].work.bytes) == (8, 16)
    assert found["a"].env["device"]


class TestRefused:
    def refused(self, match: str, **options):
        with pytest.raises(ValueError, match=match) as caught:
            measure_all(**{"candidates": {"a": lambda *_: None}} | options)
        assert "\n" not in str(caught.value)
        assert str(caught.value).endswith(".")

    def test_options(self):
        self.refused("at least one candidate", candidates={})
        self.refused(r"work is given for \['b'\], candidates are \['a'\]", work={"b": costs.copy(1, "fp32")})
        self.refused("inputs is empty", inputs=[])
        self.refused("calls is 0; expected 1 or more", calls=0)
        self.refused("1 <= min_samples <= max_samples; found 5 and 4", min_samples=5, max_samples=4)
        self.refused("found 0 and 4", min_samples=0, max_samples=4)
        self.refused("clock is 'sundial'", clock="sundial")

    @pytest.mark.parametrize("calls", [1.5, True, "3", 0, -1, None.__class__])
    def test_numbers_of_calls(self, calls):
        with pytest.raises((TypeError, ValueError), match=r"^calls is .*; expected .*1 or more"):
            measure(lambda: None, calls=calls)

    def test_more_calls_than_a_sample_can_make(self):
        for calls in (2**20 + 1, 10**12, 10**5000):
            self.refused("expected at most 1,048,576 calls in one sample, within which no budget can", calls=calls)

    def test_seconds_beyond_all_floats(self):
        self.refused("budget_s is beyond all floats", budget_s=10**400)
        self.refused("settle is beyond all floats", settle=10**400)

    def test_works_of_other_names_than_the_candidates(self):
        candidates = {1: lambda: None, "a": lambda: None}
        self.refused(r"work is given for \[1\], candidates are \[1, 'a'\]", candidates=candidates, work={1: None})

    @pytest.mark.parametrize("options", [{"min_samples": 1.5}, {"max_samples": True}, {"max_samples": "9"},
                                         {"settle": math.nan}, {"settle": "x"}, {"budget_s": math.nan},
                                         {"budget_s": -1}, {"budget_s": None}, {"budget_s": True}])  # fmt: skip
    def test_other_numbers(self, options):
        with pytest.raises((TypeError, ValueError), match=f"^{next(iter(options))} is .*; expected .*or more"):
            measure(lambda: None, **options)

    @pytest.mark.parametrize("fn", [3, "f", [1, 2], np.ones(3), None])
    def test_what_is_no_function(self, fn):
        with pytest.raises(TypeError, match=r"^expected a function to measure, as in measure\(lambda: f\(x\)\); found"):
            measure(fn)

    def test_what_is_no_table_of_candidates(self):
        with pytest.raises(TypeError, match="measure_all expects names and functions"):
            measure_all([lambda: None])

    @pytest.mark.parametrize("work", [3, "matmul", {"f": 3}, [costs.axpy(3, "fp32")]])
    def test_what_is_no_work(self, work):
        with pytest.raises(TypeError, match=r"^expected the work of 'f' as costs\.Work"):
            measure_all({"f": lambda: None}, work)

    @pytest.mark.parametrize("inputs", [iter([1]), {1: 2}, {1, 2}, 3])
    def test_inputs_that_cannot_be_rotated(self, inputs):
        with pytest.raises(TypeError, match=r"^expected inputs as a list, one entry a call; found .*\.$"):
            measure(lambda x: x, inputs=inputs)

    @pytest.mark.parametrize("clock", [3, None, HostClock, object()])
    def test_what_is_no_clock(self, clock):
        with pytest.raises(TypeError, match=r"^clock is .*; expected 'host', 'events', 'graph' or a Clock"):
            measure(lambda: None, clock=clock)

    def test_graphs_replay_many_calls(self):
        graph = HostClock()
        graph.unroll = 20
        self.refused("a graph replays 20 of them", clock=graph, cold=True)
        self.refused(r"GraphClock\(unroll=3\)", clock=graph, inputs=[1, 2, 3])
        assert measure_all({"a": lambda _: None}, clock=graph, inputs=[1, 2], budget_s=0)

    def test_events_without_a_gpu(self):
        torch = pytest.importorskip("torch", reason="needs torch")
        if torch.cuda.is_available():
            pytest.skip("there is a GPU here; tests/gpu covers it")
        for clock in ("events", "graph"):
            with pytest.raises(RuntimeError, match=r"needs a CUDA or ROCm device that torch sees; use clock='host'"):
                measure(lambda: None, clock=clock)

    @pytest.mark.parametrize("name", ["events", "graph"])
    def test_torchs_clocks_do_not_see_jax(self, name):
        jax = pytest.importorskip("jax", reason="needs jax")
        clock = HostClock()
        clock.name = name
        with pytest.raises(RuntimeError, match=r"returns JAX arrays, and the .* clock times torch's stream only"):
            measure(lambda: jax.numpy.zeros(2), clock=clock)


def test_jax_work_is_waited_for():
    """Four times the work takes longer, which a clock that only asks would not see."""
    jax = pytest.importorskip("jax", reason="needs jax")
    a = jax.numpy.full((512, 512), 1e-3)
    once, often = jax.jit(lambda a: a @ a), jax.jit(lambda a: a @ a @ a @ a @ a @ a @ a @ a @ a)
    found = measure_all({"1": lambda: once(a), "8": lambda: often(a)}, budget_s=0.2)
    assert found["8"] / found["1"] > 2


class TestPromises:
    """Functions whose calls do nothing yet: timed, each would take no time at all."""

    ran: ClassVar[list] = []

    def steps(self):
        self.ran.append(1)
        yield 1

    async def waits(self):
        self.ran.append(1)

    async def both(self):
        self.ran.append(1)
        yield 1

    class Callable:
        def __call__(self):
            yield 1

    def test_a_function_that_is_one_is_never_called(self):
        for fn in (self.steps, self.waits, self.both, functools.partial(self.steps), self.Callable()):
            with pytest.raises(
                TypeError, match=r"^'call' is an? .*function.*: a call of it does no work yet; measure a"
            ):
                measure(fn, name="call")
        assert self.ran == []

    def test_a_result_that_is_one(self):
        for fn in (
            lambda: self.steps(),
            lambda: self.waits(),
            lambda: self.both(),
            lambda: map(str, [1]),
            lambda: filter(None, [1]),
            lambda: zip([1], [2], strict=True),
            lambda: concurrent.futures.Future(),
        ):
            with pytest.raises(TypeError, match=r"^'call' returns an? .*, which has not done its work yet: measure a"):
                measure(fn, name="call")
        assert self.ran == []

    @pytest.mark.parametrize(
        "nest",
        [
            lambda one: [1.0, one],
            lambda one: (one, [2]),
            lambda one: {"loss": 1.0, "later": {"a": [one]}},
            lambda one: {one},
            lambda one: [0.0] * 1000 + [one],
        ],
    )
    def test_a_result_that_holds_one(self, nest):
        for one in (iter([1]), itertools.chain([1]), enumerate([1]), reversed([1]), concurrent.futures.Future(),
                    self.steps(), self.waits()):  # fmt: skip
            with pytest.raises(TypeError, match=r"^'call' returns an? .*, which has not done its work yet: measure a"):
                measure(lambda one=one: nest(one), name="call")
        assert self.ran == []

    def test_the_search_ends(self):
        endless = []
        endless.append(endless)
        refuse_promise("call", endless)
        refuse_promise("call", [[0.0] * 10**6] * 10**4)

    def test_a_result_of_a_pool(self):
        with (
            multiprocessing.pool.ThreadPool(1) as pool,
            pytest.raises(TypeError, match="an ApplyResult, which has not"),
        ):
            measure(lambda: pool.apply_async(int), name="call")

    def test_a_future_of_torch(self):
        torch = pytest.importorskip("torch", reason="needs torch")
        with pytest.raises(TypeError, match="a Future, which has not done its work yet"):
            measure(lambda: torch.futures.Future(), name="call")

    @pytest.mark.parametrize(
        "result", [[1], range(3), {"a": [1, (2,)]}, np.ones(3), threading.Event(), "text", io.StringIO()]
    )
    def test_other_results_are_measured(self, result):
        assert measure(lambda: result, budget_s=0, min_samples=1).median_s > 0


class TestQueuedSamples:
    """A clock that can read later is asked for the next sample before the last one is read."""

    class Clock:
        name, resolution_s = "events", 1e-9

        def __init__(self) -> None:
            self.in_flight = self.most = self.taken = 0

        def bind(self, call):
            clock = self

            class Run:
                def __call__(self, calls):
                    return self.begin(calls)()

                def begin(self, calls):
                    clock.in_flight += 1
                    clock.taken += 1
                    clock.most = max(clock.most, clock.in_flight)
                    number = clock.taken

                    def read():
                        clock.in_flight -= 1
                        return number * 1e-3 * calls

                    return read

            return Run()

    def test_samples_are_queued_and_all_are_read_in_order(self):
        clock = self.Clock()
        m = measure(lambda: None, clock=clock, calls=2, settle=0, min_samples=30, max_samples=30)
        assert clock.most > 4
        assert clock.in_flight == 0
        assert len(m.times_s) == 30
        assert list(m.times_s) == sorted(m.times_s)

    def test_candidates_stay_paired(self):
        times = measure_all({"a": lambda: None, "b": lambda: None}, clock=self.Clock(), calls=1, settle=0,
                            min_samples=20, max_samples=20)  # fmt: skip
        assert len(times["a"].times_s) == len(times["b"].times_s) == 20


def test_equally_fast_candidates_make_equally_many_calls():
    slow, fast, other = (_Candidate(name, lambda calls: 0.0, None, 0.0, calls) for name, calls in
                         (("slow", 1), ("fast", 32), ("other", 16)))  # fmt: skip
    _even_out([slow, fast, other])
    assert (slow.calls, fast.calls, other.calls) == (1, 32, 32)
