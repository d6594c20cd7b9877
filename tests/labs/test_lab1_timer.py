"""What students write in the first lab is what the package does, and no draw of fresh settings decides a grade."""

import math
from pathlib import Path
from statistics import median

import courses
import numpy as np
import pytest

import variants
from rooflab import check
from rooflab.clocks import HostClock
from rooflab.measurement import measure, measure_all, median_interval, quantile
from rooflab.simulate import FakeMachine, Settings

SCRIPT = Path("solutions/s1_measurement/lab1_timer.py")
NOISE = {"jitter": 0.3, "hiccup_every": 9, "hiccup_ns": 50_000}


@pytest.fixture(scope="module")
def lab():
    return variants.load(SCRIPT, courses.ROOT)


@pytest.fixture
def solved(lab):
    """The solved exercises, as functions."""
    names = {
        "connect": lambda settings: FakeMachine(**settings),
        "median": median,
        "math": math,
        "np": np,
        "GB_PER_S": 1e9,
    }
    for source in lab.exercises.values():
        exec(source, names)
    return names


def host_clock(machine):
    return HostClock(machine.now, machine.wait)


@pytest.mark.parametrize("cap", [6, 7, 10, 23, 60])
def test_settle_gives_the_interval_of_the_package(solved, cap):
    machine = FakeMachine(**NOISE)
    times = []
    for _ in range(cap + 1):
        start = machine.now()
        machine.launch()
        machine.wait()
        times.append(machine.now() - start)
    found = solved["settle"](NOISE, 0.0, cap)
    assert (found["low_s"], found["high_s"]) == pytest.approx(median_interval(times[1:]), rel=1e-9)
    assert found["samples"] == cap


@pytest.mark.parametrize("count", [1, 2, 5, 10, 33])
def test_summarize_gives_the_percentiles_of_the_package(solved, count):
    times = [1e-4 * (1 + (7 * i % 11) / 10) for i in range(count)]
    found = solved["summarize"](times)
    expected = {f"{name}_s": quantile(times, q) for name, q in (("p20", 0.2), ("median", 0.5), ("p80", 0.8))}
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_the_lab_tells_the_usual_costs_of_the_machine(lab):
    usual = Settings()
    told = f"(a launch costs the host {usual.launch_ns // 1000} µs, a wait {usual.wait_ns // 1000} µs)"
    assert any(told in " ".join(cell["source"].split()) for cell in lab.student)


def test_the_package_measures_the_fake_machine_as_the_lab_does(solved):
    machine = FakeMachine(kernels={"work": 100_000}, compile_ns=10**7)
    found = measure(machine.launch, clock=host_clock(machine), calls=1)
    assert found.median_s == pytest.approx(solved["settle"]({"kernels": {"work": 100_000}}, 0.02, 50)["median_s"])
    assert found.first_call_s == pytest.approx(10**7 / 1e9 + 108e-6)


def test_the_package_interleaves_as_the_lab_does(solved):
    settings = {"kernels": {"a": 100_000, "b": 97_000}, "drift_per_call": 1e-4}
    machine = FakeMachine(**settings)
    both = measure_all({k: lambda k=k: machine.launch(k) for k in "ab"}, clock=host_clock(machine), calls=1)
    assert float(both["a"] / both["b"]) == pytest.approx(solved["compare"](settings, 40)["speedup"], rel=2e-4)


@pytest.mark.parametrize("draw", range(5))
def test_the_solution_passes_every_draw_of_fresh_settings(lab, solved, draw):
    marks = [(cell["metadata"].get("nbgrader", {}).get("grade_id", ""), cell["source"]) for cell in lab.instructor]
    hidden = [source for grade, source in marks if "-hidden-" in grade]
    assert len(hidden) >= len(lab.exercises)
    names = {**solved, "check": check}
    for source in hidden:
        exec(source, names)
