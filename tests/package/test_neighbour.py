"""Somebody else's work: it starts, and nothing of it is left."""

import os
import subprocess
import sys
import time

import pytest

from rooflab import neighbour
from rooflab.device import Device
from rooflab.neighbour import busy_neighbour


@pytest.fixture
def started(monkeypatch):
    """The processes that were started."""
    processes = []
    real = subprocess.Popen

    def start(*args, **kwargs):
        processes.append(real(*args, **kwargs))
        return processes[-1]

    monkeypatch.setattr(neighbour.subprocess, "Popen", start)
    monkeypatch.setattr(neighbour, "find_device", lambda: Device("cpu", "x", torch="cpu"))
    return processes


def until(condition, limit_s: float = 30.0) -> bool:
    end = time.monotonic() + limit_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


def test_as_many_as_asked_and_none_is_left(started):
    with busy_neighbour(cores=2):
        assert until(lambda: len(started) == 2)
        assert all(process.poll() is None for process in started)
    assert all(process.returncode is not None for process in started)


def test_two_a_core_by_default(started):
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with busy_neighbour():
        assert until(lambda: len(started) >= 2 * cores)
    assert len(started) == 2 * cores
    assert all(process.returncode is not None for process in started)


def test_nobody_comes_before_the_time(started):
    with busy_neighbour(after_s=1000, cores=1):
        pass
    assert started == []


def test_none_is_left_after_an_exception(started):
    def fails() -> None:
        assert until(lambda: started)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), busy_neighbour(cores=1):
        fails()
    assert started[0].returncode is not None


def test_it_keeps_a_core_busy(started):
    with busy_neighbour(cores=1):
        assert until(lambda: started)
        if not os.path.exists(f"/proc/{started[0].pid}/stat"):
            pytest.skip("no /proc to read a process's time from")

        def ticks() -> int:
            with open(f"/proc/{started[0].pid}/stat") as file:
                return int(file.read().rsplit(")", 1)[1].split()[11])

        assert until(lambda: ticks() > 10)


def test_it_ends_with_its_parent():
    """A parent that is killed cannot clean up; the neighbour notices by itself."""
    code = (
        "import os, signal, subprocess, sys, rooflab.neighbour as n\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', n._SPIN])\n"
        "print(child.pid, flush=True)\nimport time; time.sleep(0.5)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    told = subprocess.run([sys.executable, "-c", code], text=True, stdout=subprocess.PIPE)
    pid = int(told.stdout)

    def gone() -> bool:
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True

    if sys.platform != "linux":
        pytest.skip("looks into /proc")
    assert until(gone)


def test_refused():
    with pytest.raises(ValueError, match=r"^cores is 0; expected 1 or more\.$"), busy_neighbour(cores=0):
        pass
