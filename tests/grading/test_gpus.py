"""One submission at a time on each GPU, whatever executor and however many graders there are."""

import multiprocessing
import os
import tempfile
import threading
import time

import pytest

from rooflab.grading import grade_command
from rooflab.grading.gpus import held_gpu, visible_gpus


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize(
    ("variables", "found"),
    [({"CUDA_VISIBLE_DEVICES": "0, 1"}, ("0", "1")), ({"CUDA_VISIBLE_DEVICES": ""}, ()),
     ({"HIP_VISIBLE_DEVICES": "3"}, ("3",)), ({"CUDA_VISIBLE_DEVICES": "MIG-1/2"}, ("MIG-1/2",))],
)  # fmt: skip
def test_the_variables_decide_which_there_are(variables, found):
    assert visible_gpus(variables) == found


def test_each_is_held_by_one_at_a_time():
    held, most, lock = [], [0], threading.Lock()

    def work():
        with held_gpu(("0", "1")) as gpu:
            with lock:
                assert gpu not in held
                held.append(gpu)
                most[0] = max(most[0], len(held))
            time.sleep(0.02)
            with lock:
                held.remove(gpu)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == [2]
    assert held == []


def _hold_and_die(folder):
    tempfile.tempdir = folder
    with held_gpu(("0",)):
        os.kill(os.getpid(), 9)


def test_a_killed_process_holds_none(tmp_path):
    process = multiprocessing.get_context("spawn").Process(target=_hold_and_die, args=(str(tmp_path),))
    process.start()
    process.join(60)
    assert process.exitcode == -9
    with held_gpu(("0",)) as gpu:
        assert gpu == "0"


def test_without_a_gpu_the_command_says_what_to_do(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ValueError, match="leave --accelerator out"):
        grade_command._gpu_jobs("local", 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert grade_command._gpu_jobs("local", 8) == 2
    assert grade_command._gpu_jobs("dask:tcp://x", 8) == 8
