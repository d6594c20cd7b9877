"""The host's clock on a machine whose truth is known, and what waiting means for the real frameworks."""

import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from rooflab import clocks
from rooflab.clocks import EventClock, GraphClock, HostClock, cache_flusher, made_by_jax, named_clock, wait
from rooflab.device import Device
from rooflab.simulate import FakeMachine


def host_clock(machine: FakeMachine) -> HostClock:
    return HostClock(now=machine.now, wait=machine.wait, resolution_s=machine.resolution_s)


def test_an_asynchronous_device_is_waited_for():
    machine = FakeMachine(kernels={"work": 100_000}, launch_ns=5_000, wait_ns=3_000)
    run = host_clock(machine).bind(lambda _: machine.launch())
    assert run(1) == pytest.approx(108e-6)  # launch, device, wait
    assert run(10) == pytest.approx(5e-6 + 10 * 100e-6 + 3e-6)  # launches hide behind the device's work
    assert machine.busy_reads() == 0


def test_what_was_queued_before_is_not_charged():
    machine = FakeMachine(kernels={"work": 100_000, "other": 10_000_000})
    run = host_clock(machine).bind(lambda _: machine.launch("work"))
    machine.launch("other")
    assert run(1) == pytest.approx(108e-6)


def test_the_number_of_the_call_is_handed_over():
    seen = []
    HostClock().bind(seen.append)(4)
    assert seen == [0, 1, 2, 3]


def test_resolution():
    assert HostClock().resolution_s == time.get_clock_info("perf_counter").resolution > 0
    assert HostClock(now=lambda: 0.0).resolution_s == 0
    assert HostClock(resolution_s=1e-3).resolution_s == 1e-3


def test_named_clocks():
    assert named_clock("host").name == "host"
    own = HostClock()
    assert named_clock(own) is own
    with pytest.raises(ValueError, match=r"^clock is 'sun'; expected one of 'host', 'events', 'graph' or a Clock\.$"):
        named_clock("sun")


@pytest.mark.parametrize(("clock", "words"), [(EventClock, "device events"), (GraphClock, "graph replay")])
@pytest.mark.parametrize("torch", [None, SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))])
def test_device_clocks_need_a_gpu(monkeypatch, clock, words, torch):
    monkeypatch.setitem(sys.modules, "torch", torch)  # None: not installed
    with pytest.raises(RuntimeError, match=rf"^Timing by {words} needs a CUDA or ROCm device .*clock='host' here\.$"):
        clock()


def test_frameworks_that_were_never_imported_are_not_imported():
    code = "import sys; from rooflab.clocks import wait; wait([1]); print({'torch', 'jax'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], check=True, text=True, capture_output=True)
    assert told.stdout.strip() == "set()"


@pytest.fixture
def jax():
    return pytest.importorskip("jax", reason="needs jax")


class TestJax:
    def test_waiting_for_any_nesting_and_for_all_that_came_before(self, jax):
        """A device works in order: when the last result is there, so are those before it, however long they take."""
        heavy = jax.jit(lambda a: a @ a @ a @ a @ a @ a)
        light = jax.jit(lambda a: a + 1)
        a = jax.numpy.full((1000, 1000), 1e-3)
        wait((heavy(a), light(a)))
        shares = []
        while len(shares) < 20 and max(shares, default=0.0) <= 0.8:  # a process that is held up reads the time late
            start = time.perf_counter()
            first = heavy(a)
            wait({"nested": [light(a), None, "text", np.zeros(2)]})
            waited_s = time.perf_counter() - start
            first.block_until_ready()
            shares.append(waited_s / (time.perf_counter() - start))
        assert max(shares) > 0.8, shares

    def test_waited_calls_take_longer_than_calls_that_only_ask(self, jax):
        """Compared with itself: no absolute time. Asking returns long before half of the work is done."""
        a = jax.numpy.full((1000, 1000), 1e-3)
        heavy = jax.jit(lambda a: a @ a @ a @ a @ a @ a)
        wait(heavy(a))
        waits = HostClock().bind(lambda _: heavy(a))
        asks = HostClock(wait=lambda value: value is None and wait()).bind(lambda _: kept.append(heavy(a)))
        kept: list = []
        waited, asked = [], []
        for _ in range(5):
            waited.append(waits(1))
            asked.append(asks(1))
            wait(kept)
        assert min(asked) < 0.5 * min(waited)

    def test_made_by_jax(self, jax):
        x = jax.numpy.zeros(2)
        assert made_by_jax({"a": [1, x]})
        assert not made_by_jax([1, "a", None, np.zeros(2)])


def test_nothing_is_made_by_jax_without_jax(monkeypatch):
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    assert not made_by_jax(np.zeros(2))


class TestFlusher:
    @pytest.mark.parametrize(("cache_bytes", "expected"), [(2**20, 2**21), (0, 2**27)])
    def test_twice_the_cache_is_written_on_a_cpu(self, monkeypatch, cache_bytes, expected):
        written = []
        monkeypatch.setattr("rooflab.device._found", lambda: Device("cpu", "x", cache_bytes=cache_bytes))
        monkeypatch.setattr(np, "zeros", lambda n, dtype: written.append(n) or np.empty(n, dtype))
        cache_flusher()()
        assert written == [expected]

    def test_an_accelerator_that_only_jax_sees_is_written_by_jax(self, monkeypatch, jax):
        waited = []
        monkeypatch.setattr(jax, "block_until_ready", lambda x: waited.append(x.nbytes) or x)
        monkeypatch.setattr(
            "rooflab.device._found", lambda: Device("tpu", "x", jax="tpu", torch="cpu", cache_bytes=2**20)
        )
        cache_flusher()()
        assert waited == [2**21]

    @pytest.mark.parametrize(("cache", "nbytes"), [(100, 2**28), (2**29, 2**30)])
    def test_a_gpu_is_written_by_torch(self, monkeypatch, cache, nbytes):
        """Twice its cache, and at least what do_bench writes."""
        written = []
        buffer = SimpleNamespace(zero_=lambda: written.append(True))
        torch = SimpleNamespace(empty=lambda n, dtype, device: written.append((n, device)) or buffer, uint8="uint8")
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setattr("rooflab.device._found", lambda: Device("cuda", "x", torch="cuda", cache_bytes=cache))
        flush = cache_flusher()
        flush()
        flush()
        assert written == [(nbytes, "cuda"), True, True]


def test_torch_is_waited_for_where_it_has_a_device(monkeypatch):
    waited = []
    cuda = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, synchronize=lambda: waited.append("cuda")
    )
    mps = SimpleNamespace(is_available=lambda: True)
    torch = SimpleNamespace(cuda=cuda, mps=SimpleNamespace(synchronize=lambda: waited.append("mps")),
                            backends=SimpleNamespace(mps=mps))  # fmt: skip
    monkeypatch.setitem(clocks.sys.modules, "torch", torch)
    wait()
    cuda.is_available = lambda: False
    wait()
    mps.is_available = lambda: False
    wait()
    assert waited == ["cuda", "mps"]
