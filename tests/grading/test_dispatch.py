import concurrent.futures as futures
import multiprocessing
import os
import signal
from contextlib import contextmanager

import pytest

from rooflab.grading.dispatch import TRIES, run_all


class KilledWorker(Exception):
    """As Dask has it."""


class ScriptedPool(futures.Executor):
    """Runs a task when its result is asked for, alone in its thread; a task named in `killers` breaks the pool."""

    def __init__(self, killers, log):
        self.killers, self.log, self.waiting = killers, log, []

    def submit(self, function, /, *words):
        future = futures.Future()
        self.waiting.append((future, function, words))
        self.log.append((words[0], len([each for each in self.waiting if not each[0].done()])))
        return future

    def step(self):
        for future, function, words in self.waiting:
            if future.done():
                continue
            if words[0] in self.killers:
                for other, _, _ in self.waiting:
                    if not other.done():
                        other.set_exception(futures.BrokenExecutor("a worker died"))
            else:
                future.set_result(function(*words))
            return


def scripted(monkeypatch, tasks, killers, ahead=4):
    log, opened = [], []

    @contextmanager
    def pool():
        opened.append(ScriptedPool(killers, log))
        yield opened[-1]

    real = futures.wait
    monkeypatch.setattr(
        futures, "wait", lambda running, *how, **more: (opened[-1].step(), real(running, *how, **more))[1]
    )
    done = list(run_all(pool, lambda name: name.upper(), [(name, name) for name in tasks], ahead))
    return done, log, len(opened)


def test_all_tasks_are_done_once(monkeypatch):
    done, log, opened = scripted(monkeypatch, "abcdefgh", "")
    assert sorted(done) == [(name, name.upper(), None) for name in "abcdefgh"]
    assert len(log) == 8
    assert opened == 1
    assert max(running for _, running in log) == 4


def test_a_killer_is_found_out_and_the_others_lose_nothing(monkeypatch):
    done, log, opened = scripted(monkeypatch, "abcdefgh", "c")
    failed = {key: error for key, _, error in done if error}
    assert list(failed) == ["c"]
    assert isinstance(failed["c"], futures.BrokenExecutor)
    assert sorted(key for key, _, error in done if error is None) == list("abdefgh")
    tries = [name for name, _ in log].count("c")
    assert tries == TRIES
    assert opened == TRIES + 1
    alone = [running for name, running in log if name == "c"][1:]
    assert alone == [1, 1], "after the first death it ran beside nobody"


def test_two_killers_in_flight_together(monkeypatch):
    done, _, _ = scripted(monkeypatch, "abcdef", "be")
    assert {key for key, _, error in done if error} == {"b", "e"}
    assert len(done) == 6


def test_an_exception_of_a_task_is_no_death():
    def explode(number):
        return 1 / number

    with futures.ThreadPoolExecutor(2) as threads:

        @contextmanager
        def pool():
            yield threads

        done = {key: error for key, _, error in run_all(pool, explode, [("zero", 0), ("one", 1)], 2)}
    assert isinstance(done["zero"], ZeroDivisionError)
    assert done["one"] is None


def test_a_cluster_that_reports_a_killer_is_believed_when_it_ran_alone():
    log = []

    def work(name):
        log.append(name)
        if name == "killer":
            raise KilledWorker(name)
        return name

    @contextmanager
    def pool():
        with futures.ThreadPoolExecutor(2) as threads:
            yield threads

    done = {key: error for key, _, error in run_all(pool, work, [(name, name) for name in ("a", "killer", "b")], 3)}
    assert isinstance(done["killer"], KilledWorker)
    assert done["a"] is None
    assert done["b"] is None
    assert log.count("killer") <= 2


def die_or_double(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_a_real_pool_whose_worker_is_killed():
    context = multiprocessing.get_context("spawn")
    done = list(run_all(lambda: futures.ProcessPoolExecutor(2, context), die_or_double, [(n, n) for n in range(8)], 4))
    assert {key: result for key, result, error in done if error is None} == {n: 2 * n for n in range(8) if n != 3}
    assert [key for key, _, error in done if error] == [3]
