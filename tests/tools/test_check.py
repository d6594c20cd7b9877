"""`make check` and the set-up of `make test`: they tell what failed, and only that."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import test_setup

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def check():
    """tools/check.py under a name of its own: rooflab has a module of that name too."""
    spec = importlib.util.spec_from_file_location("tools_check", ROOT / "tools" / "check.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["tools_check"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["tools_check"]


def test_a_failing_part_is_told_with_its_output_and_its_remedy(check, monkeypatch, capsys):
    good = check.Part("good", ("-c", "print('chatter')"))
    bad = check.Part("bad", ("-c", "print('the reason'); raise SystemExit(3)"), "make build")
    monkeypatch.setattr(check, "PARTS", (good, bad))
    assert check.main() == 1
    told = capsys.readouterr().out
    assert "the reason" in told
    assert "chatter" not in told
    assert "mend it with: make build" in told
    assert "1 of 2 parts failed" in told


def test_all_in_order(check, monkeypatch, capsys):
    monkeypatch.setattr(check, "PARTS", (check.Part("good", ("-c", "pass")),))
    assert check.main() == 0
    assert "all in order" in capsys.readouterr().out


SLOW = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
time.sleep(600)
"""


def start(*arguments: str, **pipes: int) -> "subprocess.Popen[str]":
    """`make check` with one part: Python with these arguments."""
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import check\n"
    code += f"check.PARTS = (check.Part('slow', ('-c', *{arguments!r})),)\nsys.exit(check.command_line())"
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, **pipes)


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_stopped_check_ends_all_that_runs(tmp_path, number):
    pid = tmp_path / "pid"
    process = start(SLOW, str(pid))
    limit = time.monotonic() + 60
    while not (pid.exists() and pid.read_text()):
        assert time.monotonic() < limit
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(number)
    _, told = process.communicate(timeout=120)
    assert (process.returncode, told) == (128 + number, "Stopped.\n")
    limit = time.monotonic() + 60
    while not has_ended(int(pid.read_text())):
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_a_reader_that_has_read_enough_leaves_no_trace():
    read, write = os.pipe()
    os.close(read)
    process = start("pass", stdout=write)
    os.close(write)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (1, "")


def test_the_set_up_says_why_tests_will_be_skipped(monkeypatch, capsys):
    monkeypatch.setattr(test_setup, "NEEDED", {"rooflab-no-such-program": ("a-package", "a thing")})
    monkeypatch.setattr(test_setup.os, "geteuid", lambda: 1000)
    assert test_setup.main() == 0
    told = capsys.readouterr().out
    assert "Tests of a thing will be skipped: a-package is missing" in told


def test_the_set_up_installs_as_root(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(test_setup, "NEEDED", {"rooflab-no-such-program": ("a-package", "a thing")})
    monkeypatch.setattr(test_setup.os, "geteuid", lambda: 0)
    monkeypatch.setattr(test_setup.shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    monkeypatch.setattr(test_setup, "install", lambda packages: asked.extend(packages) or "E: no such package")
    assert test_setup.main() == 0
    assert asked == ["a-package"]
    assert "E: no such package" in capsys.readouterr().out
