"""The short form of the benchmark: only what holds on any machine, however busy."""

import os
import sys

import pytest

pytest.importorskip("torch", reason="the lab of the benchmark uses torch")
pytestmark = [
    pytest.mark.xdist_group("grading-bench"),
    pytest.mark.skipif(sys.platform != "linux", reason="submissions are graded on Linux only"),
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    from .bench import Bench

    return Bench(tmp_path_factory.mktemp("bench"))


def test_it_is_several_times_as_fast_and_gives_the_same_scores(bench, capsys):
    from .bench import rates

    ratio = rates(bench, ours=16, theirs=2, rounds=1, jobs=os.cpu_count() or 1)
    assert "scores that differ: none" in capsys.readouterr().out
    assert ratio > 2, "with 16 submissions most of the time goes into the start"


def test_a_running_submission_takes_less_than_its_limit(bench, capsys):
    from .bench import memory

    most, whole = memory(bench, students=6, jobs=2)
    assert 20e6 < most < 400e6, capsys.readouterr().out
    assert most < whole
