"""The environment of the project: made once, found ready in a moment, made again when it was left half-made."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A project without dependencies and with a build back end of its own: bootstrap's steps, in seconds, without network.
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
BACKEND = """
import pathlib, zipfile
NAME = "tiny-1.0.dist-info"
def _write(folder):
    path = pathlib.Path(folder) / "tiny-1.0-py3-none-any.whl"
    meta = "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr(NAME + "/METADATA", meta)
        wheel.writestr(NAME + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(NAME + "/RECORD", "")
    return path.name
def build_wheel(folder, settings=None, metadata=None): return _write(folder)
def build_editable(folder, settings=None, metadata=None): return _write(folder)
"""
NEVER = "rooflab-no-such-package==1.0\n"


def project(folder: Path, lock: str = "# nothing\n") -> Path:
    """A checkout, in a folder with a space in its name, that holds only what bootstrap needs."""
    root = folder / "a checkout"
    (root / "tools").mkdir(parents=True)
    for name in ("bootstrap.py", "children.py"):
        shutil.copy(ROOT / "tools" / name, root / "tools")
    shutil.copy(ROOT / "Makefile", root)
    (root / "pyproject.toml").write_text(PYPROJECT)
    (root / "backend.py").write_text(BACKEND)
    (root / "requirements.lock").write_text(lock)
    (root / "requirements-cuda.lock").write_text("")
    return root


def environment(**extra: str) -> dict[str, str]:
    """The variables for bootstrap: nothing of the Python that runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "VIRTUAL"))}
    return kept | {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "ROOFLAB_PYTHON": sys.executable} | extra


def bootstrap(root: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "tools/bootstrap.py"], cwd=root, env=environment(**extra), text=True, capture_output=True
    )


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence that explains a failure: nothing but it is on standard error."""
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_it_is_made_once_and_brought_up_to_date(tmp_path):
    root = project(tmp_path)
    first = bootstrap(root)
    assert first.returncode == 0, first.stderr
    assert ".venv is ready" in first.stdout
    kept = (root / ".venv" / ".ready").stat().st_mtime_ns
    second = bootstrap(root)
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert (root / ".venv" / ".ready").stat().st_mtime_ns == kept  # nothing was done again
    (root / "requirements.lock").write_text("# changed\n")
    assert "up to date" in bootstrap(root).stdout
    assert bootstrap(root).stdout == ""
    # A checkout that was moved has an environment that points to where it was.
    moved = root.rename(tmp_path / "moved")
    assert "Making .venv again" in bootstrap(moved).stdout


def test_a_half_made_environment_is_made_again(tmp_path):
    root = project(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "tools/bootstrap.py"], cwd=root, env=environment(), stdout=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    limit = time.monotonic() + 60
    while not (root / ".venv" / "bin").exists():
        assert time.monotonic() < limit
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (root / ".venv" / ".ready").exists()
    again = bootstrap(root)
    assert again.returncode == 0, again.stderr
    assert "half-made" in again.stdout
    assert (root / ".venv" / ".ready").exists()


# A build that starts a process of its own and does not end: what pip runs when it is stopped.
ENDLESS = """
import pathlib, subprocess, sys, time
def build_editable(folder, settings=None, metadata=None):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pathlib.Path("pids.part").write_text("%d %d" % (__import__("os").getpid(), child.pid))
    pathlib.Path("pids.part").rename("pids")
    time.sleep(600)
"""


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGKILL, -9)],
    ids=lambda each: getattr(each, "name", ""),
)
def test_nothing_runs_on_when_it_is_stopped(tmp_path, number, code):
    root = project(tmp_path)
    (root / "backend.py").write_text(ENDLESS)
    process = subprocess.Popen(
        [sys.executable, "tools/bootstrap.py"], cwd=root, env=environment(), text=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    limit = time.monotonic() + 120
    while not (root / "pids").exists():
        assert process.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.05)
    process.send_signal(number)
    _, told = process.communicate(timeout=120)
    assert process.returncode == code
    assert told.strip() == ("" if number == signal.SIGKILL else "Stopped. The next make starts over.")
    pids = [int(pid) for pid in (root / "pids").read_text().split()]
    limit = time.monotonic() + 60
    while any(map(running, pids)):
        assert time.monotonic() < limit, "pip or what it started runs on"
        time.sleep(0.05)
    (root / "backend.py").write_text(BACKEND)
    again = bootstrap(root)
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("retries", ["0", "1"])
def test_without_a_network_one_sentence_says_so(tmp_path, retries):
    root = project(tmp_path, NEVER)
    closed = "http://127.0.0.1:9"  # the discard port: nothing listens there
    network = {"PIP_NO_INDEX": "0", "HTTPS_PROXY": closed, "https_proxy": closed, "PIP_TIMEOUT": "2"}
    done = bootstrap(root, **network, PIP_RETRIES=retries)
    assert "cannot be reached" in sentence(done)
    assert not (root / ".venv" / ".ready").exists()


def test_a_lock_that_cannot_be_fetched_leaves_a_finished_environment(tmp_path):
    root = project(tmp_path)
    assert bootstrap(root).returncode == 0
    before = (root / "requirements.lock").read_text()
    (root / "requirements.lock").write_text(NEVER)
    assert bootstrap(root).returncode == 1
    (root / "requirements.lock").write_text(before)
    back = bootstrap(root)
    assert (back.returncode, back.stdout) == (0, "")


def test_an_unknown_failure_shows_the_last_lines_of_the_log(tmp_path):
    root = project(tmp_path, NEVER)
    done = bootstrap(root)
    assert done.returncode == 1
    assert "No matching distribution" in done.stderr
    assert "install.log" in done.stderr


def test_a_full_disk_is_named_before_and_while_installing(tmp_path):
    """The disk is not filled: the free space is told to bootstrap, and pip's words are put into its log."""
    root = project(tmp_path)
    code = (
        "import sys; sys.path.insert(0, 'tools'); import bootstrap, shutil, types\n"
        "shutil.disk_usage = lambda path: types.SimpleNamespace(free=1.5e9)\n"
        "sys.exit(bootstrap.main())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, env=environment(), text=True, capture_output=True)
    assert "1.5 GB are free" in sentence(done)
    assert not (root / ".venv").exists()
    words = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n"
    code = (
        "import sys; sys.path.insert(0, 'tools'); import bootstrap\n"
        f"bootstrap.build = lambda version, python: (open(bootstrap.LOG, 'w').write({words!r}), bootstrap.explain(0))\n"
        "sys.exit(bootstrap.main())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, env=environment(), text=True, capture_output=True)
    assert "disk is full" in sentence(done)


def test_a_python_that_is_none_is_named(tmp_path):
    root = project(tmp_path)
    told = sentence(bootstrap(root, ROOFLAB_PYTHON="/nowhere/python3"))
    assert told == "ROOFLAB_PYTHON is '/nowhere/python3', and no Python runs there: name one of 3.11, 3.12 or 3.13."


def only_on_path(folder: Path, **programs: str) -> dict[str, str]:
    """An environment whose PATH holds these programs and nothing else."""
    folder.mkdir()
    for name, target in programs.items():
        (folder / name.replace("_", ".")).symlink_to(target)
    return {"PATH": str(folder), "HOME": str(folder)}


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_with_only_python_3_10_says_what_is_needed(tmp_path, other_python):
    older = other_python("3.10")
    root = project(tmp_path)
    variables = only_on_path(tmp_path / "bin", python3=older, python3_10=older)
    done = subprocess.run([shutil.which("make"), "test"], cwd=root, env=variables, text=True, capture_output=True)
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert len(told) == 1
    assert "needs Python 3.11, 3.12 or 3.13; found: 3.10" in told[0]
    assert not (root / ".venv").exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_without_any_python_says_so(tmp_path):
    root = project(tmp_path)
    variables = only_on_path(tmp_path / "bin")
    done = subprocess.run([shutil.which("make"), "test"], cwd=root, env=variables, text=True, capture_output=True)
    assert done.returncode != 0
    assert "no python3 was found" in done.stderr
