"""The tools are scripts beside one another; here they are imported by name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools")]

# Kept answers stand in for a cell of their lab; alone they cannot be imported.
collect_ignore_glob = ["*/wrong_*.py", "*/right_*.py"]


@pytest.fixture(scope="session")
def roots(tmp_path_factory):
    """Return the two courses that are tested: "book", this repository, and "demo", the small one."""
    import courses

    return {"book": courses.ROOT, "demo": courses.copy(courses.FIXTURE, tmp_path_factory.mktemp("demo"))}


@pytest.fixture(scope="session")
def scores_of(roots):
    """Return a function that scores kept answers of a lab (all, or those named) in a process of their own."""
    import courses

    seen = {}

    def scores(book, script, *names):
        if (book, script, *names) not in seen:
            only = [part for name in names for part in ("--only", name)]
            command = [
                sys.executable,
                courses.ROOT / "tools" / "variants.py",
                "--json",
                "--root",
                roots[book],
                *only,
                script,
            ]
            env = {**os.environ, "PYTHONPATH": str(courses.ROOT / "shared"), "ROOFLAB_DEVICE": "cpu"}
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
            assert done.stdout, done.stderr
            [seen[book, script, *names]] = json.loads(done.stdout.splitlines()[-1]).values()
        return seen[book, script, *names]

    return scores
