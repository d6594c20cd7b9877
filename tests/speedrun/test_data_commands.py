"""The command `rooflab speedrun data`, and the page that describes the data."""

import argparse
import re
from dataclasses import replace
from pathlib import Path

import pytest

import corpus_pins
from rooflab.speedrun.data import CorpusMissing, code
from rooflab.speedrun.data.commands import add_data_commands

from .wheels import make_wheel, small_pins

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ROOFLAB_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(code, "pinned", lambda: small_pins(tmp_path / "index"))
    return tmp_path / "home"


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    add_data_commands(parser.add_subparsers(required=True))
    options = parser.parse_args(["data", *words])
    return options.call(options)


def test_made_packed_unpacked_and_listed(home, tmp_path, capsys, monkeypatch):
    pins = small_pins(tmp_path / "index")
    assert run("make", "code", "--wheels", str(tmp_path / "index")) == 0
    told = capsys.readouterr()
    made = re.search(r"code: ([\d,]+) tokens for training, [\d,]+ for validation .* digest (\w+)\.", told.out)
    assert made
    assert re.search(r"encoding +done", told.err)
    assert run("pack", str(tmp_path / "code.pack")) == 0
    assert "rooflab speedrun data unpack code.pack" in capsys.readouterr().out
    digest = code.make_code(folder=tmp_path / "twice", wheels=tmp_path / "index")["digest"]
    monkeypatch.setattr(code, "pinned", lambda: replace(pins, digest=digest))
    monkeypatch.setenv("ROOFLAB_HOME", str(tmp_path / "other"))
    assert run("unpack", str(tmp_path / "code.pack")) == 0
    assert made[0] in capsys.readouterr().out
    assert run("list") == 0
    told = capsys.readouterr()
    assert re.search(rf"code +\| +{made[1]} .*{made[2]}", told.out)
    assert re.search(r"stdlib +\| +\d,\d+,\d+", told.out)
    assert "rooflab speedrun data make fineweb" in told.out


def test_a_list_of_nothing_but_the_library(home, capsys):
    assert run("list") == 0
    told = capsys.readouterr().out
    assert "rooflab speedrun data make code" in told
    assert not home.exists(), "to look changes nothing"


def test_what_is_missing_is_not_packed(home, tmp_path):
    with pytest.raises(CorpusMissing, match="rooflab speedrun data make code"):
        run("pack", str(tmp_path / "x"))


def test_stopped_leaves_a_line_that_says_so(home, tmp_path, capsys, monkeypatch):
    def stop(*arguments, tell, **more):
        tell("encoding", 1, 3)
        raise KeyboardInterrupt

    monkeypatch.setattr(code, "make_code", stop)
    with pytest.raises(KeyboardInterrupt):
        run("make", "code")
    assert re.search(r"encoding +stopped", capsys.readouterr().err)


# The page and the maintainer's tool


def test_the_page_shows_the_pins():
    page = (ROOT / "docs" / "speedrun-data.md").read_text(encoding="utf-8")
    assert corpus_pins.with_table(page) == page, "run: tools/corpus_pins.py table"
    for wheel in code.pinned().wheels:
        assert page.count(f"\n| {wheel.name} | {wheel.version} | {wheel.licence} |") == 1


def test_the_figures_of_the_page_follow_from_the_pins():
    page = (ROOT / "docs" / "speedrun-data.md").read_text(encoding="utf-8")
    for part, word in (("train", "training"), ("valid", "validation")):
        size = sum(wheel.source_bytes for wheel in code.pinned().wheels if wheel.part == part)
        assert f"{size / 1e6:.1f} MB of source for {word}" in page
    assert code.pinned().digest in page


def test_the_tool_pins_wheels_and_refuses_other_licences(tmp_path, monkeypatch, capsys):
    index = tmp_path / "index"
    pins = small_pins(index)
    monkeypatch.setattr(corpus_pins, "PINS", tmp_path / "pins.toml")
    monkeypatch.setattr(corpus_pins, "TRAIN", "alpha beta")
    monkeypatch.setattr(corpus_pins, "VALID", "gamma")
    assert corpus_pins.main("pin", str(index)) == 0
    found = code.read_pins((tmp_path / "pins.toml").read_text(encoding="utf-8"))
    assert [wheel.name for wheel in found.wheels] == ["gamma", "alpha", "beta"]
    assert {wheel.sha256 for wheel in found.wheels} == {wheel.sha256 for wheel in pins.wheels}
    assert all(wheel.source_bytes for wheel in found.wheels)
    make_wheel(index, "gamma", {}, licence="GPL-3.0-only")
    with pytest.raises(ValueError, match="gamma: expected a permissive licence, found"):
        corpus_pins.pin(index)
    assert corpus_pins.main() == 2
    assert "tools/corpus_pins.py" in capsys.readouterr().out
