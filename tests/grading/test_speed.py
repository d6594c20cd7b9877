"""Shares of the roof from times that a test makes up; a real GPU has tests of its own."""

import random

import pytest

from rooflab import speed


def times(own, null=1e-3, copy=1.1e-3, **more):
    return {"own": own, "null": [null] * len(own), "copy": [copy] * len(own), **more}


def test_what_the_protocol_takes_is_subtracted():
    found = speed._speed(times([1.2e-3] * 20))
    assert found.ratio == pytest.approx(0.5)
    assert found.seconds == pytest.approx(0.2e-3)
    assert found.bound_s == pytest.approx(0.1e-3)


def test_the_slower_ceiling_is_the_roof():
    found = speed._speed(times([1.4e-3] * 20, product=[1.3e-3] * 20))
    assert found.ratio == pytest.approx(0.75)


def test_noise_is_no_gift():
    with pytest.raises(speed.Unsteady, match="a call takes between -100 and 900 µs"):
        speed._speed(times([0.9e-3, 1.9e-3] * 10))


def test_a_ceiling_that_others_slow_is_none():
    with pytest.raises(speed.Unsteady, match="roof's time is between 100 and 300 µs"):
        speed._speed(times([1.2e-3] * 20) | {"copy": [1.1e-3, 1.3e-3] * 10})


def test_one_call_that_was_disturbed_costs_nothing():
    assert speed._speed(times([1.2e-3] * 19 + [2.0])).ratio == pytest.approx(0.5)


@pytest.mark.parametrize("enough", [1, 2, 3, None])
def test_more_calls_are_timed_where_some_are_disturbed(monkeypatch, enough):
    pytest.importorskip("torch", reason="needs torch")
    seen = []

    def evaluated(times, together):
        seen.append(len(times["own"]))
        if enough is None or len(seen) < enough:
            raise speed.Unsteady("disturbed")
        return "done"

    monkeypatch.setattr(speed, "_speed", evaluated)
    if enough is None:
        with pytest.raises(speed.Unsteady):
            on_the_cpu(lambda x, i: x * i[:, None], "torch")
    else:
        assert on_the_cpu(lambda x, i: x * i[:, None], "torch") == "done"
    assert seen == [2, 4, 6][:enough]


def test_what_is_faster_than_the_device_is_refused():
    with pytest.raises(speed.TooFast, match="at the least"):
        speed._speed(times([1.05e-3] * 20))


def test_points_go_by_the_favourable_end_of_the_band():
    found = speed.Speed(0.79, 0.77, 0.81, 1e-3, 1e-3, 20)
    assert [found.points({0.5: 1, 0.8: 2, 0.9: 3}), found.points({0.9: 3})] == [2, 0]


@pytest.mark.parametrize(
    ("function", "says"), [(lambda x: x * 1.01, "are wrong"), (lambda x: x[:-1], "expected results of the shapes")]
)
def test_every_timed_result_is_verified(function, says):
    pytest.importorskip("torch", reason="needs torch")
    from rooflab import costs
    from rooflab.grading.timed import normal

    with pytest.raises(AssertionError, match=says):
        speed.against_roof(
            function, [normal((64, 64))], reference=lambda x: x, work=costs.elementwise(4096), calls=2, device="cpu"
        )


def on_the_cpu(function, framework):
    from rooflab import costs
    from rooflab.grading.timed import integers, normal

    return speed.against_roof(
        function, [normal((512, 1024), "bf16"), integers((512,), 0, 9, "int32")], dtype="bf16", calls=2, device="cpu",
        reference=lambda x, i: x.float() * i[:, None].float(), work=costs.elementwise(512 * 1024), framework=framework,
    )  # fmt: skip


def test_functions_of_jax_are_timed_and_verified_too(monkeypatch):
    pytest.importorskip("torch", reason="needs torch")
    monkeypatch.setattr(speed, "_speed", lambda times, together: times)  # a busy CPU is no roof
    jnp = pytest.importorskip("jax.numpy", reason="needs JAX")
    seen = []

    def scaled(x, i):
        seen.append((type(x).__module__, x.dtype))
        return x * i[:, None].astype(jnp.bfloat16)

    assert len(on_the_cpu(scaled, "jax")["own"]) == 2
    assert all("jax" in module and dtype == jnp.bfloat16 for module, dtype in seen)
    with pytest.raises(AssertionError, match="are wrong"):
        on_the_cpu(lambda x, i: x, "jax")


class Simulated:
    """A machine on which each reading of the clock is late by a few hundred microseconds, as between processes."""

    inputs, device, lot = (), "cpu", random.Random(0)

    def __init__(self, monkeypatch, *, noise_s, **work_s):
        self.now, self.noise_s, self.work_s, self.most = 0.0, noise_s, work_s, 0
        self.random = random.Random(0)
        monkeypatch.setattr(speed.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(speed._Grader, "open", lambda what, *rest: Runner(self, what))

    def probes(self, work, intense):
        return {"null": "null", "copy": "copy"}

    def most_together(self):
        return 32

    def verify(self, *told):
        pass

    def verify_blocks(self, ask, *told):
        pass

    def ratio(self, calls=20):
        return speed._measured("own", self, None, calls, "torch")


class Runner:
    def __init__(self, machine, name):
        self.machine, self.name, self.blocks = machine, name, None

    def go(self, seed, key, calls):
        machine = self.machine
        machine.most = max(machine.most, calls)
        late = machine.random.expovariate(1 / machine.noise_s) if machine.noise_s else 0.0
        machine.now += 3e-4 + late + calls * (5e-4 + machine.work_s.get(self.name, 0.0))
        return 0

    def fetch(self):
        return []


@pytest.mark.parametrize("noise_s", [0.0, 2e-5, 1.5e-4, 4e-4])
def test_so_many_calls_are_timed_together_that_noise_is_small(monkeypatch, noise_s):
    machine = Simulated(monkeypatch, noise_s=noise_s, own=2e-4, copy=1.4e-4)
    found = machine.ratio()
    assert found.ratio == pytest.approx(0.7, rel=0.05)
    assert found.high - found.low < 0.2
    assert (machine.most > 4) is (noise_s > 0), "4 are those of the pilot"
    assert found.calls in (20 * machine.most, 20) or machine.most == 4


def test_slow_functions_are_not_timed_together(monkeypatch):
    machine = Simulated(monkeypatch, noise_s=4e-4, own=0.3, copy=1.4e-4)
    assert machine.ratio().high < 0.01, "whatever the ceiling is"
    assert machine.most == 4
    assert machine.now < 200 * 0.4


class SlowWhenTried(Runner):
    """Slow whenever one call is asked for, so that few calls are timed together and the clock's noise decides."""

    def go(self, seed, key, calls):
        self.machine.now += 0.1 if calls == 1 and self.name == "own" else 0.0
        return super().go(seed, key, calls)


def test_a_function_that_is_slow_when_it_is_tried_is_not_timed_in_few_calls(monkeypatch):
    machine = Simulated(monkeypatch, noise_s=1.5e-4, own=2e-4, copy=1.4e-4)
    monkeypatch.setattr(speed._Grader, "open", lambda what, *rest: SlowWhenTried(machine, what))
    with pytest.raises(speed.Unsteady, match=r"took 101\.\d ms when it was tried and 0\.\d ms when it was timed"):
        machine.ratio()


def test_another_framework_is_refused():
    with pytest.raises(ValueError, match="expected 'torch' or 'jax'"):
        on_the_cpu(lambda x, i: x, "tensorflow")


def test_what_is_wrong_is_not_timed():
    pytest.importorskip("torch", reason="needs torch")
    calls = []
    with pytest.raises(AssertionError, match="are wrong"):
        on_the_cpu(lambda x, i: calls.append(1) or x, "torch")
    assert len(calls) == 1


def test_infinities_are_right_where_they_are_expected(monkeypatch):
    torch = pytest.importorskip("torch", reason="needs torch")
    from rooflab import costs
    from rooflab.grading.timed import normal

    monkeypatch.setattr(speed, "_speed", lambda times, together: times)

    def masked(x):
        return x.masked_fill(torch.ones_like(x).tril().bool(), -torch.inf)

    for given, wrong in ((masked, False), (lambda x: masked(x).nan_to_num(), True), (lambda x: -masked(-x), True)):
        told = {"reference": masked, "work": costs.elementwise(64), "calls": 2, "device": "cpu", "length": 8}
        if wrong:
            with pytest.raises(AssertionError, match="are wrong"):
                speed.against_roof(given, [normal((8, 8))], **told)
        else:
            speed.against_roof(given, [normal((8, 8))], **told)


def test_a_gpu_without_room_for_the_check_is_for_a_person():
    torch = pytest.importorskip("torch", reason="needs torch")

    def full(x, i):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of")

    with pytest.raises(speed.Unsteady, match=r"no room for this check.* \(CUDA out of memory\)"):
        on_the_cpu(full, "torch")
