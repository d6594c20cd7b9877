"""`make check` and the set-up of `make test`: they tell what failed, and only that."""

import importlib.util
import sys
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
