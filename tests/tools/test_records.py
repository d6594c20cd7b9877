"""The tool that measures everything on a GPU: which parts, what becomes of one that fails, and are its words known?"""

import pytest

import records
from records import PARTS, Part, chosen, measure
from rooflab.cli import parse
from rooflab.kernels.catalogue import every_case


def test_parts_are_asked_for_by_name_or_group():
    every, left_out = chosen([], nanogpt="clone")
    assert every == list(PARTS)
    assert left_out == []
    found, left_out = chosen(["race", "rival"], nanogpt="")
    assert {each.group for each in found} == {"rival", "race"}
    assert [each.name for each in found if each.name.startswith("nanogpt")] == []
    assert len(left_out) == 2
    with pytest.raises(ValueError, match="There is no part 'kernel': the parts are kernels-rows, kernels-pointwise"):
        chosen(["kernel"], nanogpt="")


@pytest.mark.parametrize("part", [each for each in PARTS if each.words[0] == "rooflab"], ids=lambda part: part.name)
def test_what_a_part_asks_for_is_there(part):
    words = [word.format(out="out", nanogpt="clone", target="1.2") for word in part.words[1:]]
    assert parse(words).command == words[0]


def test_every_kernel_of_the_benchmark_is_measured_once():
    asked = [word for part in PARTS if part.words[1] == "bench" for word in parse(part.words[1:]).kernel]
    assert sorted(asked) == sorted({case.kernel for case in every_case(device="cpu")})


def test_a_part_that_fails_or_hangs_is_told_and_the_next_one_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "fails.py").write_text("raise SystemExit('no such device')\n")
    (tmp_path / "hangs.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    (tmp_path / "ends.py").write_text("import sys\nprint(*sys.argv[1:])\n")
    parts = [Part("a", "g", ("fails",), 60), Part("b", "g", ("hangs",), 10), Part("c", "g", ("ends", "{out}"), 60)]
    monkeypatch.setattr(records, "PARTS", parts)
    assert records.main(["--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().out
    assert "no such device" in told
    assert "b: stopped after 10 s" in told
    assert (tmp_path / "out" / "b.log").read_text() == "begun\n"
    assert (tmp_path / "out" / "c.log").read_text().strip() == str(tmp_path / "out")
    assert measure(parts[2], tmp_path, {"out": "x"})[0] == "done"


def test_a_place_that_is_none_is_told(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert records.main(["--out", str(tmp_path / "file"), "race"]) == 2
    assert "cannot be made (File exists): name another folder with --out" in capsys.readouterr().err


def test_what_was_not_measured_is_told_when_it_is_stopped(tmp_path, monkeypatch, capsys):
    def stopped(part, out, values):
        if part.name == "b":
            raise KeyboardInterrupt
        return "done", 1.0

    monkeypatch.setattr(records, "PARTS", [Part(name, "g", ("ends",), 60) for name in "abc"])
    monkeypatch.setattr(records, "measure", stopped)
    assert records.main(["--out", str(tmp_path)]) == 1
    assert "Stopped; not measured: b, c." in capsys.readouterr().out


def test_parts_are_listed_and_a_wrong_one_refused(capsys):
    assert records.main(["--list"]) == 0
    assert "nanogpt-pass is left out: it needs --nanogpt" in capsys.readouterr().out
    assert records.main(["nothing"]) == 2
    assert "There is no part 'nothing'" in capsys.readouterr().err
