"""One submission at a time on each GPU, whatever executor and however many graders there are."""

import multiprocessing
import os
import threading

import pytest

from rooflab.grading import grade_command
from rooflab.grading.gpus import held_gpu, visible_gpus


@pytest.mark.parametrize(
    ("variables", "found"),
    [({"CUDA_VISIBLE_DEVICES": "0, 1"}, ("0", "1")), ({"CUDA_VISIBLE_DEVICES": ""}, ()),
     ({"HIP_VISIBLE_DEVICES": "3"}, ("3",)), ({"CUDA_VISIBLE_DEVICES": "MIG-1/2"}, ("MIG-1/2",))],
)  # fmt: skip
def test_the_variables_decide_which_there_are(variables, found):
    assert visible_gpus(variables) == found


def test_each_is_held_by_one_at_a_time():
    held, most, lock, both = [], [0], threading.Lock(), threading.Barrier(2)

    def work():
        with held_gpu((f"test-0 {os.getpid()}", f"test-1 {os.getpid()}")) as gpu:
            with lock:
                assert gpu not in held
                held.append(gpu)
                most[0] = max(most[0], len(held))
            both.wait(120)  # each meets another one, and there are eight
            with lock:
                held.remove(gpu)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [2]
    assert held == []


def _hold_and_die(name):
    with held_gpu((name,)):
        os.kill(os.getpid(), 9)


def test_a_killed_process_holds_none():
    name = f"test-2 {os.getpid()}"
    process = multiprocessing.get_context("spawn").Process(target=_hold_and_die, args=(name,))
    process.start()
    process.join(200)
    assert process.exitcode == -9
    with held_gpu((name,)) as gpu:
        assert gpu == name


def test_what_fails_while_a_gpu_is_held_is_told():
    name = f"test-3 {os.getpid()}"
    with pytest.raises(OSError, match="a disk"), held_gpu((name,)):
        raise OSError("a disk")
    with held_gpu((name,)) as gpu:
        assert gpu == name


def test_without_a_gpu_the_command_says_what_to_do(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ValueError, match="leave --accelerator out"):
        grade_command._gpu_jobs("local", 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert grade_command._gpu_jobs("local", 8) == 2
    assert grade_command._gpu_jobs("dask:tcp://x", 8) == 8
