"""The fake machine against hand-computed cases, and the properties that exact grading rests on."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.simulate import FakeMachine, Settings, _uniform

WORST = {
    "kernels": {"a": 50_000, "b": 80_000},
    "kernel_bytes": {"b": 1 << 20},
    "compile_ns": 1_000_000,
    "tune_factors": [3.0, 2.0],
    "jitter": 0.1,
    "hiccup_every": 7,
    "hiccup_ns": 40_000,
    "outlier_share": 0.1,
    "drift_per_call": 0.01,
    "neighbour_calls": [[10, 20]],
    "cache_bytes": 1 << 20,
    "queue_depth": 4,
    "resolution_ns": 1_000,
    "seed": 5,
}
ACTIONS = st.lists(st.sampled_from(["a", "b", "wait", "now", "flush"]), max_size=40)


def act(machine: FakeMachine, actions: list[str]) -> list[float]:
    readings = []
    for action in actions:
        if action in ("a", "b"):
            machine.launch(action, buffer=len(readings) % 3)  # buffers change with the readings
        elif action == "now":
            readings.append(machine.now())
        else:
            getattr(machine, action)()
    return readings


def durations_ns(machine: FakeMachine, kernel: str | None = None) -> list[int]:
    return [round(1e9 * d) for d in machine.durations_s(kernel)]


def run(calls: int, **settings) -> list[int]:
    """Device times of so many calls of the only kernel, each waited for."""
    machine = FakeMachine(**settings)
    for _ in range(calls):
        machine.launch()
        machine.wait()
    return durations_ns(machine)


def test_launches_queue_up_and_wait_drains():
    machine = FakeMachine(kernels={"work": 100_000}, launch_ns=5_000, wait_ns=3_000)
    for _ in range(3):
        machine.launch()
    assert machine.now() == 15e-6
    machine.wait()
    assert machine.now() == pytest.approx((5_000 + 300_000 + 3_000) / 1e9, abs=0)
    spans = [event[-2:] for event in machine.log if event[0] == "launch"]
    assert spans == [
        (5_000, 105_000),
        (105_000, 205_000),
        (205_000, 305_000),
    ]


def test_short_kernels_are_bound_by_their_launches():
    machine = FakeMachine(kernels={"work": 1_000}, launch_ns=5_000, wait_ns=3_000)
    for _ in range(4):
        machine.launch()
    machine.wait()
    assert machine.now() == 24e-6  # four launches, the last kernel, the wait


def test_a_full_queue_blocks_the_host():
    machine = FakeMachine(kernels={"work": 100_000}, launch_ns=5_000, queue_depth=2)
    times = []
    for _ in range(4):
        machine.launch()
        times.append(machine.now())
    assert times == [5e-6, 10e-6, 105e-6, 205e-6]  # the third waits for the end of the first, the fourth of the second


def test_an_idle_device_costs_only_the_wait():
    machine = FakeMachine(wait_ns=3_000)
    machine.wait()
    machine.wait("any result")
    assert machine.now() == 6e-6


def test_the_first_launch_of_each_kernel_compiles_on_the_host():
    machine = FakeMachine(kernels={"a": 0, "b": 0}, launch_ns=1_000, compile_ns=500_000)
    times = []
    for kernel in ("a", "a", "b", "b"):
        machine.launch(kernel)
        times.append(machine.now())
    assert times == [501e-6, 502e-6, 1003e-6, 1004e-6]


def test_tuning_slows_the_first_calls_of_each_kernel():
    machine = FakeMachine(kernels={"a": 100, "b": 1000}, tune_factors=[4, 1.5])
    for kernel in ("a", "b", "a", "b", "a", "b"):
        machine.launch(kernel)
    assert durations_ns(machine, "a") == [400, 150, 100]
    assert durations_ns(machine, "b") == [4000, 1500, 1000]


def test_hiccups_come_every_so_many_calls():
    assert run(6, kernels={"work": 100}, hiccup_every=3, hiccup_ns=50) == [100, 100, 150, 100, 100, 150]


def test_drift_is_linear_up_to_its_limit():
    assert run(5, kernels={"work": 1000}, drift_per_call=0.1, drift_limit=1.25) == [1000, 1100, 1200, 1250, 1250]


def test_a_neighbour_slows_the_calls_of_its_ranges():
    slowed = run(6, kernels={"work": 100}, neighbour_calls=[[1, 3], [4, 5]], neighbour_factor=2)
    assert slowed == [100, 200, 200, 100, 200, 100]


def test_jitter_only_adds_and_stays_within_its_bound():
    times = run(500, kernels={"work": 100_000}, jitter=0.2, seed=3)
    assert min(times) >= 100_000
    assert max(times) <= 120_000
    assert len(set(times)) > 450
    assert sorted(times)[250] == pytest.approx(105_000, abs=1_500)  # the median of u^2 is 1/4


def test_outliers_are_as_frequent_as_asked():
    times = run(2000, kernels={"work": 100}, outlier_share=0.05, outlier_factor=10, seed=1)
    assert set(times) == {100, 1000}
    assert times.count(1000) == pytest.approx(100, abs=30)


def test_the_clock_shows_whole_steps():
    machine = FakeMachine(kernels={"work": 0}, launch_ns=700, resolution_ns=1_000)
    readings = []
    for _ in range(4):
        machine.launch()
        readings.append(machine.now())
    assert readings == [0.0, 1e-6, 2e-6, 2e-6]
    assert machine.resolution_s == 1e-6


MEMORY = {"kernels": {"copy": 0}, "kernel_bytes": {"copy": 1000}, "memory_bytes_per_ns": 1, "cache_bytes_per_ns": 4}


@pytest.mark.parametrize(
    ("buffers", "steady_ns"),
    # Share in the cache: 1, 2000 / 2000, 2000 / 3000, 2000 / 4000; a byte takes 1 ns from memory, else 0.25 ns.
    [(1, 250), (2, 250), (3, 500), (4, 625)],
)
def test_rotating_buffers_empty_the_cache_by_degrees(buffers, steady_ns):
    machine = FakeMachine(**MEMORY, cache_bytes=2000)
    for i in range(3 * buffers):
        machine.launch("copy", buffer=i % buffers)
    assert durations_ns(machine) == [1000] * buffers + [steady_ns] * 2 * buffers


def test_a_flush_empties_the_cache_and_takes_device_time():
    machine = FakeMachine(**MEMORY, cache_bytes=2000, launch_ns=0, wait_ns=0)
    machine.launch("copy")
    machine.flush()
    machine.launch("copy")
    assert durations_ns(machine) == [1000, 1000]
    machine.wait()
    assert machine.now() == 4e-6


def test_stamps_are_those_of_the_device():
    machine = FakeMachine(kernels={"work": 100_000}, launch_ns=5_000, wait_ns=3_000)
    idle = machine.stamp()
    machine.launch()
    machine.launch()
    assert (idle, machine.stamp()) == (0.0, 205e-6)
    machine.wait()
    assert machine.stamp() == 208e-6


def test_the_log_tells_what_a_timer_did():
    machine = FakeMachine(kernels={"a": 10_000, "b": 20_000}, launch_ns=1_000, wait_ns=2_000)
    act(machine, ["now", "a", "now", "wait", "b", "now"])
    assert machine.order() == ["a", "b"]
    assert machine.busy_reads() == 2
    assert machine.log == [
        ("read", 0),
        ("launch", 1_000, "a", 1, 1_000, 11_000),
        ("read", 1_000),
        ("wait", 13_000),
        ("launch", 14_000, "b", 2, 14_000, 34_000),
        ("read", 14_000),
    ]


@given(ACTIONS)
def test_same_settings_and_calls_give_the_same_readings_across_json(actions):
    copied = json.loads(json.dumps(WORST))
    first, second = FakeMachine(**WORST), FakeMachine(**copied)
    assert act(first, actions) == act(second, actions)
    assert first.log == second.log


@given(ACTIONS)
def test_time_never_goes_back_and_kernels_never_overlap(actions):
    machine = FakeMachine(**WORST)
    readings = act(machine, actions)
    assert readings == sorted(readings)
    host = [event[1] for event in machine.log]
    assert host == sorted(host)
    spans = [event[4:6] for event in machine.log if event[0] == "launch"]
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert all(event[4] <= event[5] for event in machine.log if event[0] == "launch")


@given(ACTIONS, st.lists(st.integers(0, 40), max_size=10))
def test_waits_and_readings_change_no_device_time(actions, places):
    """Two correct timers that wait at different moments see the same durations."""
    busier = list(actions)
    for place in places:
        busier[place:place] = ["wait", "now"]
    plain, waited = FakeMachine(**WORST), FakeMachine(**WORST)
    for machine, todo in ((plain, actions), (waited, busier)):
        for action in todo:
            machine.launch(action) if action in ("a", "b") else getattr(machine, action)()
    assert plain.durations_s() == waited.durations_s()


def test_two_seeds_and_two_streams_differ():
    draws = {(seed, stream): [_uniform(seed, stream, i) for i in range(1000)] for seed in (0, 1) for stream in (1, 2)}
    for numbers in draws.values():
        assert 0 <= min(numbers) < 0.01
        assert 0.99 < max(numbers) < 1
        assert sum(numbers) / 1000 == pytest.approx(0.5, abs=0.05)
    assert len({round(numbers[0], 9) for numbers in draws.values()}) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernels": {}}, "kernels"),
        ({"kernels": {"work": -1}}, "kernels"),
        ({"kernel_bytes": {"copy": 8}}, "kernel_bytes"),
        ({"launch_ns": -1}, "launch_ns is -1; expected at least 0"),
        ({"queue_depth": 0}, "queue_depth is 0; expected at least 1"),
        ({"drift_limit": 0.5}, "drift_limit"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Settings(**settings)


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(TypeError, match=r"no setting 'launch_s'; it has .*launch_ns"):
        FakeMachine(launch_s=1)
    with pytest.raises(ValueError, match="no kernel 'matmul' on this machine; it has 'work'"):
        FakeMachine().launch("matmul")


def test_an_endless_loop_ends():
    machine = FakeMachine(max_launches=10)
    for _ in range(10):
        machine.launch()
    with pytest.raises(RuntimeError, match="more than 10 launches: does the loop end"):
        machine.launch()
