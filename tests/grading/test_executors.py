"""Workers that die, and graders that are stopped: everybody is graded once, and nothing outlives the run."""

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from rooflab.extras import MissingExtra
from rooflab.grading import worker
from rooflab.grading.executors import open_executor, slurm_cluster

from ..package.processes import wait_for
from .processtree import all_gone, command, descendants
from .smallclass import LAB

pytestmark = [
    pytest.mark.xdist_group("grading"),
    pytest.mark.skipif(sys.platform != "linux", reason="submissions are graded on Linux only"),
]

WRONG = "def total(values):\n    return 7\n"
RAISES = "def scale(x, k):\n    raise ValueError('no')\n"
HANGS = "def total(values):\n    while True:\n        pass\n"


def hand_in(small, students=6):
    """A class with right and wrong answers."""
    for number in range(students):
        answers = {"total": WRONG} if number % 3 == 1 else {"scale": RAISES} if number % 3 == 2 else {}
        small.submit(f"s{number}", **answers)


def for_ever(small):
    """Let what hangs do so for longer than any test waits."""
    (small.root / "grading.toml").write_text("[limits]\ncall_s = 1000\ntotal_s = 2000\n")


def expected(students=6):
    return {f"s{number}": {0: 5.0, 1: 3.0, 2: 2.0}[number % 3] for number in range(students)}


def scores(small):
    return {student: told["score"] for student, told in small.grades().items()}


def test_a_worker_that_is_killed_costs_nobody_a_point(small, tmp_path):
    hand_in(small, 8)
    log = tmp_path / "log"
    grader = subprocess.Popen(
        **small.command("grade", "week1", "--jobs", "2", SMALL_CLASS_LOG=str(log)), stdout=subprocess.PIPE, text=True
    )
    wait_for(lambda: log.exists() and len(log.read_text().split()) >= 2, 200)
    workers = [pid for pid in descendants(grader.pid) if "spawn_main" in command(pid)]
    os.kill(workers[0], signal.SIGKILL)
    printed, _ = grader.communicate(timeout=200)
    assert grader.returncode == 0, printed
    assert scores(small) == expected(8)


def test_a_submission_that_always_kills_its_worker_is_given_up_and_the_class_goes_on(small, tmp_path):
    hand_in(small)
    small.submit("killer")
    log = tmp_path / "log"
    printed = small.grade("--jobs", "2", fails=True, SMALL_CLASS_LOG=str(log), SMALL_CLASS_KILL="1")
    assert "Not graded, because the grader itself failed: killer" in printed
    assert "ended 3 times" in printed
    assert log.read_text().split().count("killer") == 3
    found = scores(small)
    assert {student: score for student, score in found.items() if student != "killer"} == expected()
    told = small.grades()["killer"]
    assert all(manual for name, (_, _, manual) in told["grades"].items() if name.endswith("-check")), "for a person"
    assert "killer" not in small.finished(), "the next run tries again"
    small.grade()
    assert scores(small) == expected() | {"killer": 5.0}


@pytest.mark.parametrize("how", ["ctrl-c", "SIGTERM", "SIGKILL", "SIGKILL of its group"])
def test_nothing_outlives_a_run_that_is_stopped(small, tmp_path, how):
    hand_in(small, 2)
    for_ever(small)
    for number in range(4):
        small.submit(f"t{number}", total=HANGS)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    told = small.command("grade", "week1", "--jobs", "2", TMPDIR=str(temporary))
    grader = subprocess.Popen(
        **told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    seen = {}

    def hanging():
        seen.update(descendants(grader.pid))
        return len(small.finished()) == 2 and any("sandbox.server" in command(pid) for pid in seen)

    wait_for(hanging, 200)
    time.sleep(0.3)
    seen.update(descendants(grader.pid))
    assert len(seen) > 6
    number = {"ctrl-c": signal.SIGINT, "SIGTERM": signal.SIGTERM}.get(how, signal.SIGKILL)
    if how in ("ctrl-c", "SIGKILL of its group"):  # a terminal sends Ctrl-C to all
        os.killpg(grader.pid, number)
    else:
        grader.send_signal(number)
    printed, _ = grader.communicate(timeout=200)
    assert grader.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number, -9)
    assert all_gone(seen) == {}
    wait_for(lambda: not list(temporary.iterdir()), 30)
    assert "Traceback" not in printed


def test_a_worker_whose_grader_is_gone_makes_nothing_more(tmp_path):
    """What it was about to begin would stay: it ends as soon as it has cleaned up."""
    code = (
        "import os, sys, time\n"
        "from multiprocessing import Pipe\n"
        "from rooflab.grading import worker\n"
        "worker.close_all = lambda: time.sleep(2)\n"
        "ours, theirs = Pipe()\n"
        "os.mkdir('folder')\n"
        "worker.begin(theirs, 'folder')\n"
        "ours.close()\n"
        "time.sleep(1)\n"
        "with worker.held_slot(('run', 'lab'), lambda folder: print('made in', folder)): pass\n"
        "print('went on')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("alive", [True, False])
def test_a_worker_waits_until_it_has_cleaned_up_only_where_its_grader_is_gone(alive, monkeypatch):
    waited = []
    monkeypatch.setattr(worker.multiprocessing, "parent_process", lambda: SimpleNamespace(is_alive=lambda: alive))
    worker._leave_in_order(SimpleNamespace(join=lambda: waited.append("for it")))
    assert waited == ([] if alive else ["for it"])


def test_nothing_outlives_a_run_that_ends(small, tmp_path):
    hand_in(small, 3)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    told = small.command("grade", "week1", "--jobs", "2", TMPDIR=str(temporary))
    grader = subprocess.Popen(**told, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen = {}
    while grader.poll() is None:
        seen.update(descendants(grader.pid))
        time.sleep(0.02)
    assert grader.returncode == 0
    assert len(seen) > 6
    assert all_gone(seen) == {}
    assert list(temporary.iterdir()) == []


def test_a_second_grader_of_the_same_assignment_waits_outside(small):
    for_ever(small)
    small.submit("s0", total=HANGS)
    first = subprocess.Popen(**small.command("grade", "week1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: (small.journal / "secret").exists(), 200)
        printed = small.grade(fails=True)
        assert "week1 is being graded by another process" in printed
    finally:
        first.send_signal(signal.SIGTERM)
        first.wait(200)


# --- clusters ---------------------------------------------------------------------------------------------------------

CLUSTER = """
import sys, time
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def cluster(small):
    pytest.importorskip("distributed", reason='Dask is not installed: pip install "rooflab[cluster]"')
    told = small.command()
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], env=told["env"] | {"SMALL_CLASS_LOG": str(small.home / "log")},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    address = process.stdout.readline().strip()
    assert address, "the cluster has not started"
    yield process, address
    process.stdin.close()
    assert process.wait(200) == 0
    process.stdout.close()


def workers_of(cluster):
    return [pid for pid in descendants(cluster.pid) if "spawn_main" in command(pid)]


def test_a_cluster_grades_as_this_machine_does_also_when_a_worker_is_killed(small, cluster):
    process, address = cluster
    hand_in(small, 9)
    log = small.home / "log"
    grader = subprocess.Popen(
        **small.command("grade", "week1", "--executor", f"dask:{address}"), stdout=subprocess.PIPE, text=True
    )
    wait_for(lambda: log.exists() and len(log.read_text().split()) >= 2, 120)
    seen = descendants(process.pid)
    os.kill(workers_of(process)[0], signal.SIGKILL)
    printed, _ = grader.communicate(timeout=200)
    assert grader.returncode == 0, printed
    assert scores(small) == expected(9)
    recorded = small.grades()
    runs = log.read_text().split()
    assert set(runs) == set(expected(9))
    assert sum(runs.count(student) - 1 for student in set(runs)) <= 4, "only what was in flight has run again"
    local = small.grade("--again", "--jobs", "2")
    assert "9 students" in local
    assert small.grades() == recorded, "the same scores, flags and comments as locally"
    kept = [pid for pid in seen if "examiner" in command(pid) or "sandbox.server" in command(pid)]
    assert all_gone({pid: seen[pid] for pid in kept}, 30) == {}, "the workers live on, without what the run left there"


def test_no_cluster_is_told_in_a_sentence(small):
    pytest.importorskip("distributed", reason='Dask is not installed: pip install "rooflab[cluster]"')
    nowhere = open_executor("dask:tcp://127.0.0.1:9", 1, patience_s=1.0)
    with pytest.raises(ValueError, match=r"No Dask cluster answers at tcp://127\.0\.0\.1:9"), nowhere:
        pass


def test_a_job_of_slurm_runs_one_worker():
    jobqueue = pytest.importorskip("dask_jobqueue", reason='not installed: pip install "rooflab[cluster]"')
    with jobqueue.SLURMCluster(cores=1, processes=1, memory="4GB", queue="teaching", walltime="00:30:00") as cluster:
        script = cluster.job_script()
    assert script.startswith("#!/usr/bin/env bash")
    for line in ("#SBATCH -p teaching", "#SBATCH --mem=4G", "#SBATCH -t 00:30:00", "#SBATCH -n 1"):
        assert line in script
    assert f"{sys.executable} -m distributed.cli.dask_worker" in script
    assert "--nthreads 1" in script


def test_slurm_asks_for_as_many_jobs_as_wanted(monkeypatch):
    jobqueue = pytest.importorskip("dask_jobqueue", reason='not installed: pip install "rooflab[cluster]"')
    asked = []
    monkeypatch.setattr(jobqueue.SLURMCluster, "scale", lambda self, n=None, jobs=0, **more: asked.append(jobs))
    monkeypatch.setenv("ROOFLAB_SLURM_MEMORY", "6GB")
    with slurm_cluster(3) as cluster:
        assert "#SBATCH --mem=6G" in cluster.job_script()
    assert asked[0] == 3


def test_a_library_that_lacks_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    for name in ("dask:tcp://127.0.0.1:9", "slurm"):
        with pytest.raises(MissingExtra, match=r"rooflab\[cluster\]"), open_executor(name, 1):
            pass


def test_an_unknown_executor_is_told():
    unknown = open_executor("kubernetes", 1)
    with pytest.raises(ValueError, match="no executor 'kubernetes'; expected local, dask:ADDRESS"), unknown:
        pass


def test_the_journal_is_json_that_a_person_can_read(small):
    small.submit("s0")
    small.grade()
    told = json.loads((small.journal / "outcomes" / "s0" / f"{LAB}.json").read_text())
    assert told["outcome"]["checks"]["total-check"]["score"] == 2
