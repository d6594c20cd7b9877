"""Tests of a group run on one worker, one after the other: what measures, or makes what others use, needs it."""

import subprocess
import sys

MODULE = """
import os, pathlib, time, pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("n", range(8))
def test_it(n):
    time.sleep(0.02)
    pathlib.Path("workers").mkdir(exist_ok=True)
    pathlib.Path("workers", os.environ["PYTEST_XDIST_WORKER"]).touch()
"""


def test_a_group_stays_on_one_worker(tmp_path):
    (tmp_path / "test_inner.py").write_text(MODULE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadgroup"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "workers").iterdir())) == 1, "pytest-xdist spreads a group over workers"
