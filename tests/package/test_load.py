"""What others compute: counted, summed up, and told where it matters."""

import os
import pickle
import sys
import time

import pytest

from rooflab import load, measurement, probe
from rooflab.clocks import HostClock
from rooflab.devicecard import load_row
from rooflab.load import Load, Watch, loads_together
from rooflab.measurement import measure
from rooflab.neighbour import busy_neighbour
from rooflab.samples import Measurement, disturbance

ON_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux counts the time of each core")
QUIET, BUSY = Load(1.0, 0.1, 2, 2), Load(1.0, 1.7, 2, 2)


@pytest.fixture
def counted(monkeypatch):
    """A function that lets so many seconds pass, in which all cores and this process compute so much."""
    now = [100.0, 1000.0, 10.0]
    monkeypatch.setattr(load, "_reading", lambda: tuple(now))
    monkeypatch.setattr(load, "own_cores", lambda: 2)

    def passes(elapsed_s, busy_s, own_s):
        now[:] = [was + more for was, more in zip(now, (elapsed_s, busy_s, own_s), strict=True)]

    return passes


@pytest.mark.parametrize(
    ("elapsed_s", "busy_s", "own_s", "others"), [(2.0, 4.0, 0.6, 1.7), (1.0, 1.0, 1.02, 0.0), (1.0, 2.3, 0.0, 2.0)]
)
def test_others_are_what_is_busy_without_this_process(counted, elapsed_s, busy_s, own_s, others):
    watch = Watch()
    counted(elapsed_s, busy_s, own_s)
    assert watch.load().others == pytest.approx(others)


def test_a_look_at_once_waits_until_the_system_has_counted(counted, monkeypatch):
    monkeypatch.setattr(load.time, "perf_counter", lambda: 100.0)
    waited = []
    Watch().load_now(sleep=waited.append)
    assert waited == [pytest.approx(2 * load.SHORTEST_S)]


@pytest.mark.parametrize(
    ("found", "heavy"),
    [
        (BUSY, True),
        (QUIET, False),
        (Load(0.05, 0.1, 2, 2), False),  # too short to know
        (Load(1.0, 2.0, 64, 64), False),  # of many cores: less than a twentieth
        (Load(1.0, 4.0, 64, 64), True),
        (Load(1.0, 8.0, 16, 1), False),  # beside an accelerator half of the cores are enough
        (Load(1.0, 16.0, 16, 1), True),
        (Load(0.0, 0.0, 2, 2), False),
    ],
)
def test_what_is_too_much(found, heavy):
    assert found.is_heavy is heavy
    assert bool(load_row(found)) is heavy


def test_the_card_says_what_it_means():
    assert load_row(BUSY) == {"load": "others use 1.7 of 2 cores: times of parallel kernels will be wrong"}
    assert "the host adds" in load_row(Load(1.0, 16.0, 16, 1))["load"]
    assert load_row(None) == {}


def test_short_intervals_are_known_together_and_a_shared_one_counts_once():
    short = [Load(0.05, 0.05 + i / 1000, 2, 2) for i in range(4)]
    assert not any(each.is_heavy for each in short)
    assert loads_together([*short, None]).is_heavy
    assert loads_together([BUSY, BUSY, None]) == BUSY
    assert loads_together([None]) is None


def test_the_sentence_below_a_figure_names_the_load():
    steady, wide = (1.0, 1.0, 1.0), (1.0, 2.0, 3.0)
    again = "Close other programs and run this cell again."
    assert disturbance([Measurement("a", steady, load=QUIET)]) == ""
    assert disturbance([Measurement("a", wide, load=QUIET), Measurement("b", steady)]) == (
        "Disturbed: 1 of 2 measurements, spread up to 60% of the median; others used 0.1 of 2 cores meanwhile. "
        "Run this cell again."
    )
    beside = Load(1.0, 0.1, 2, 1)  # the accelerator itself may be shared
    assert disturbance([Measurement("a", wide, load=beside)]).endswith(again)
    stalled = Measurement("a", steady, load=BUSY)
    assert disturbance([stalled, Measurement("b", steady, load=QUIET)]).startswith("Disturbed: 1 of 2 measurements")
    assert stalled.warning == "a: others used 1.7 of 2 cores meanwhile; close what else is running."
    short = [Measurement("a", steady, load=Load(0.05, 0.08 + i / 1000, 2, 2)) for i in range(4)]
    assert disturbance(short) == f"Disturbed: others used 1.6 of 2 cores meanwhile. {again}"


def test_a_ratio_knows_the_load_too():
    steady, wide = (Measurement("m", times_s, load=BUSY, turn=1) for times_s in ((1.0, 1.0, 1.0), (1.0, 2.0, 3.0)))
    again = "Close other programs and run this cell again."
    ratio = wide / steady
    band = "the middle three fifths of 3 samples gave 1.4x to 2.6x"
    assert ratio.warning == f"Disturbed: {band}; others used 1.7 of 2 cores meanwhile. {again}"
    assert (steady / steady).warning == f"Disturbed: others used 1.7 of 2 cores meanwhile. {again}"
    assert pickle.loads(pickle.dumps(ratio)).warning == ratio.warning
    quiet = Measurement("m", (1.0, 1.0), load=QUIET)
    assert (quiet / quiet).warning == ""


def test_measurements_know_the_load_and_pretended_clocks_do_not(counted):
    def call():
        counted(0.05, 0.1, 0.02)

    found = measure(call, calls=1, min_samples=9, max_samples=9).load
    assert (found.elapsed_s, found.others) == (pytest.approx(9 * 0.05), pytest.approx(1.6))
    fake = iter(range(10**6))
    assert measure(lambda: None, clock=HostClock(now=lambda: next(fake), resolution_s=1.0)).load is None


def test_no_load_beside_an_accelerator_that_leaves_cores_free(counted, monkeypatch):
    from rooflab.device import Device

    monkeypatch.setattr("rooflab.device._found", lambda: Device("cuda", "GPU", torch="cuda"))
    found = measurement.measure(lambda: counted(0.05, 0.1, 0.05), calls=1, min_samples=9, max_samples=9).load
    assert (found.needed, found.is_heavy) == (1, False)


@ON_LINUX
def test_a_neighbour_is_seen():
    until = time.monotonic() + 60
    with busy_neighbour(cores=1):
        while True:  # its start may take long, and it may have to share its core
            watch = Watch()
            time.sleep(0.6)
            found = watch.load()
            if found.others > 0.25 or time.monotonic() > until:
                break
    assert found.others > 0.25
    assert found.cores == probe.own_cores()


@ON_LINUX
def test_ones_own_work_is_not_the_others():
    watch, start = Watch(), time.process_time()
    while time.process_time() - start < 0.3:
        pass
    own = load._reading()[2] - watch._start[2]
    assert own >= 0.3
    assert watch.load().others_s <= watch.load().elapsed_s * probe.own_cores() - own + 0.1


def test_where_cores_are_not_counted_the_last_minute_is_known(monkeypatch):
    monkeypatch.setattr(load, "_reading", lambda: None)
    monkeypatch.setattr(load, "own_cores", lambda: 4)
    monkeypatch.setattr(load.time, "process_time", lambda: 30.0)
    monkeypatch.setattr(os, "getloadavg", lambda: (2.5, 0, 0), raising=False)
    watch = Watch()
    assert watch.load() is None
    assert watch.load_now().others == pytest.approx(2.0)
    monkeypatch.delattr(os, "getloadavg")
    assert watch.load_now() is None


def test_a_system_that_counts_nothing_is_unknown(monkeypatch):
    monkeypatch.setattr(load, "busy_ticks", lambda text, cores: 0)
    assert load._reading() is None
    assert Watch().load() is None
