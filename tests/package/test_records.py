"""Which record stands beside a run, and what a record holds."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rooflab import records
from rooflab.device import Device
from rooflab.measurement import Measurement
from rooflab.records import (
    all_records,
    note_progress,
    progress,
    recorded,
    recorded_curves,
    records_folder,
    reference,
    save_record,
    short_name,
)
from rooflab.specs import chip

UNIT = "s1_measurement/u1_step_cost"
H200 = Device(
    "cuda", "NVIDIA H200", chip("h200"), torch="cuda", jax="gpu", capability=(9, 0), versions={"torch": "2.11.0"}
)
EPYC = Device("cpu", "AMD EPYC 7B13 64-Core Processor", torch="cpu", jax="cpu", versions={"torch": "2.13.0"})
T4 = Device("cuda", "Tesla T4", chip("t4"), torch="cuda", capability=(7, 5))
SWEEP = {"torch": {"x": [1, 10], "y": [1e-6, 1e-5]}}


@pytest.fixture
def folder(tmp_path, monkeypatch, home):
    """An empty folder of records."""
    path = tmp_path / "records"
    path.mkdir()
    monkeypatch.setattr(records, "records_folder", lambda: path)
    return path


@pytest.fixture
def both(folder):
    """A record of an H200 and one of a CPU."""
    for device, value in ((H200, 1.0), (EPYC, 2.0)):
        save_record(UNIT, {"rate": value, "sweep": SWEEP}, device=device, commit="abc", folder=folder)
    return folder


def on(monkeypatch, device: Device) -> None:
    monkeypatch.setattr(records, "find_device", lambda: device)


@pytest.mark.parametrize(("device", "expected"), [(EPYC, 1.0), (T4, 1.0), (H200, 2.0)])
def test_the_reference_is_another_device(both, monkeypatch, device, expected):
    on(monkeypatch, device)
    assert recorded("rate") == expected


def test_a_device_may_be_asked_for(both, monkeypatch):
    on(monkeypatch, H200)
    assert recorded("rate", device="nvidia-h200") == 1.0
    assert recorded("rate", device="amd-epyc-7b13-64-core-processor-cpu") == 2.0
    assert reference(device="no-such") is None


def test_where_nothing_is_recorded(folder, both, monkeypatch):
    on(monkeypatch, EPYC)
    assert recorded("no such key", default=7) == 7
    assert recorded("rate", unit="s1_measurement/u9_other") is None
    assert recorded_curves("no such key") == {}
    (folder / "nvidia-h200" / "u1_step_cost.json").unlink()
    assert reference() is None  # the own record is not a reference


def test_no_folder_at_all(tmp_path, monkeypatch, home):
    monkeypatch.setattr(records, "records_folder", lambda: tmp_path / "none")
    assert reference(UNIT) is None
    assert all_records() == []
    assert recorded_curves("sweep") == {}


def test_curves_are_named_after_their_device(both, monkeypatch):
    on(monkeypatch, EPYC)
    assert recorded_curves("sweep") == {"H200: torch": SWEEP["torch"]}
    on(monkeypatch, H200)
    assert recorded_curves("sweep") == {"AMD EPYC 7B13: torch": SWEEP["torch"]}


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD EPYC", "AMD EPYC"),
        ("AMD EPYC 7B13 64-Core Processor", "AMD EPYC 7B13"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "Intel Xeon"),
        ("Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz", "Intel Core i7-8650U"),
        ("Apple M3 Max", "Apple M3 Max"),
        ("CPU", "CPU"),
    ],
)
def test_short_names(name, short):
    assert short_name({"device": {"name": name}}) == short


def test_round_trip(folder):
    values = {
        "m": Measurement("m", (1.0, 2.0)),
        "nan": math.nan,
        "inf": [np.inf, 1],
        "n": np.int32(4),
        "x": np.float32(0.5),
    }
    path = save_record(UNIT, values, device=H200, folder=folder)
    assert path == folder / "nvidia-h200" / "u1_step_cost.json"
    record = json.loads(path.read_text(), parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    assert record["values"]["m"]["median_s"] == 1.5
    assert {k: record["values"][k] for k in ("nan", "inf", "n", "x")} == {
        "nan": None,
        "inf": [None, 1],
        "n": 4,
        "x": 0.5,
    }
    assert record["device"] == {"name": "NVIDIA H200", "kind": "cuda", "chip": "h200", "memory_bytes": 0.0, "count": 1}
    assert record["versions"] == {"torch": "2.11.0"}
    assert re.fullmatch(r"[0-9a-f]{10}|", record["commit"])
    assert all_records() == [record]


def test_a_new_record_takes_the_place_of_the_old(both, monkeypatch):
    on(monkeypatch, EPYC)
    assert recorded("rate") == 1.0
    save_record(UNIT, {"rate": 3.0}, device=H200, folder=both)
    assert recorded("rate") == 3.0
    assert len(list((both / "nvidia-h200").iterdir())) == 1


def test_a_value_that_no_record_holds_leaves_the_old_one(both, monkeypatch):
    on(monkeypatch, EPYC)
    with pytest.raises(TypeError, match="A record holds"):
        save_record(UNIT, {"rate": object()}, device=H200, folder=both)
    assert recorded("rate") == 1.0


def test_a_folder_that_cannot_be_written(unwritable):
    with pytest.raises(OSError, match="file"):
        save_record(UNIT, {}, device=H200, folder=unwritable)


def without(*path: str):
    """A spoiler: the record lacks what lies there."""

    def spoil(record: dict) -> str:
        inner = record
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        return json.dumps(record)

    return spoil


DAMAGED = [
    (lambda record: '{"unit": ', "Expecting value"),
    (lambda record: "", "Expecting value"),
    (lambda record: "[]", "expected a JSON object; found a list"),
    (lambda record: "[" * 10**5, "recursion"),
    (lambda record: b"\xff\xfe", "codec can't decode"),
    (without("values"), "it lacks 'values'"),
    (without("device"), "it lacks 'device'"),
    (without("device", "name"), "its 'device' lacks 'name'"),
    (lambda record: json.dumps(record | {"values": [1]}), "'values' is a list; expected a dict"),
    (lambda record: json.dumps(record | {"device": "H200"}), "'device' is a str; expected a dict"),
    (lambda record: json.dumps(record | {"device": {"name": 200}}), "'name' is a int; expected a str"),
]


@pytest.fixture
def damaged(both, monkeypatch, request):
    """A reference record that is spoilt, on a device that has neither record."""
    on(monkeypatch, T4)
    monkeypatch.setattr(records, "_told", set())
    path = both / "nvidia-h200" / "u1_step_cost.json"
    spoilt = request.param(json.loads(path.read_text()))
    path.write_bytes(spoilt if isinstance(spoilt, bytes) else spoilt.encode())
    records._load.cache_clear()
    return path


class TestDamagedRecords:
    @pytest.mark.parametrize(("damaged", "why"), DAMAGED, indirect=["damaged"], ids=[why for _, why in DAMAGED])
    def test_one_sentence_names_file_and_fault_and_the_others_are_used(self, damaged, why, capsys):
        assert recorded("rate") == 2.0
        assert list(recorded_curves("sweep")) == ["AMD EPYC 7B13: torch"]
        assert [record["values"]["rate"] for record in all_records()] == [2.0]
        (said,) = capsys.readouterr().out.splitlines()
        assert said.startswith(f"{damaged} is no valid record (")
        assert why in said
        assert said.endswith("): restore it from git, or record it again. It is left out.")

    @pytest.mark.parametrize(("damaged", "why"), DAMAGED[:1], indirect=["damaged"])
    def test_the_one_that_was_asked_for_is_an_error(self, damaged, why):
        with pytest.raises(ValueError, match=r"u1_step_cost\.json is no valid record .*: restore it from git"):
            recorded("rate", device="nvidia-h200")

    def test_a_record_that_cannot_be_read(self, both, monkeypatch, capsys):
        on(monkeypatch, T4)
        monkeypatch.setattr(records, "_told", set())
        path = both / "nvidia-h200" / "u1_step_cost.json"
        real = Path.read_text

        def refuse(self, **how):
            if self == path:
                raise PermissionError(13, "Permission denied")
            return real(self, **how)

        records._load.cache_clear()
        monkeypatch.setattr(Path, "read_text", refuse)
        assert recorded("rate") == 2.0
        assert "is no valid record (Permission denied)" in capsys.readouterr().out

    @pytest.mark.parametrize("sweep", [3.0, [1], {"a": 3}, {"a": {"x": [1]}}, {"a": {"x": [1, 2], "y": [1]}},
                                       {"a": {"x": ["1"], "y": [1]}}])  # fmt: skip
    def test_what_is_no_sweep(self, folder, monkeypatch, sweep):
        save_record(UNIT, {"odd": sweep}, device=H200, folder=folder)
        on(monkeypatch, T4)
        with pytest.raises(ValueError, match=r"^The record of H200 holds no sweep under 'odd' .*a key of its own"):
            recorded_curves("odd")


@pytest.mark.parametrize("unit", ["", "s1/", None, 3])
def test_a_record_of_no_unit(folder, unit):
    with pytest.raises(ValueError, match=r"^expected a unit, such as 's1_measurement/u1_step_cost'; found"):
        save_record(unit, {}, device=H200, folder=folder)
    with pytest.raises(TypeError, match=r"^expected what a run logged, values by key; found a list$"):
        save_record(UNIT, [], device=H200, folder=folder)
    assert list(folder.iterdir()) == []


class TestProgress:
    def test_noted_once_and_kept(self, home, restart, monkeypatch):
        note_progress("lab1_timer", "first")
        (time,) = progress()["lab1_timer"].values()
        monkeypatch.setattr(records, "now", lambda: "later")
        note_progress("lab1_timer", "first")
        note_progress("lab1_timer", "second")
        restart()
        assert progress() == {"lab1_timer": {"first": time, "second": "later"}}

    def test_a_corrupt_file_begins_anew(self, home):
        (home / "progress.json").write_text("[1, 2")
        note_progress("lab1_timer", "first")
        assert list(progress()["lab1_timer"]) == ["first"]

    def test_two_notebooks_at_once_lose_nothing(self, home):
        """Each a process of its own, started together."""
        code = ("import sys; from rooflab.records import note_progress; print(1, flush=True); sys.stdin.readline()\n"
                "for i in range(10): note_progress('s/lab', f'{sys.argv[1]}{i}')")  # fmt: skip
        environment = os.environ | {"PYTHONPATH": str(Path(records.__file__).parents[1])}
        both = [subprocess.Popen([sys.executable, "-c", code, name], env=environment, text=True, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE) for name in "ab"]  # fmt: skip
        for process in both:
            process.stdout.readline()
        for process in both:
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in both:
            process.communicate(timeout=200)
            assert process.returncode == 0
        assert set(progress()["s/lab"]) == {f"{name}{i}" for name in "ab" for i in range(10)}

    def test_odd_entries_harm_nothing(self, home):
        (home / "progress.json").write_text('{"s/lab": 3, "s/other": {"a": "then"}}')
        note_progress("s/lab", "first")
        assert progress().keys() == {"s/lab", "s/other"}

    def test_unwritable(self, unwritable, capsys):
        note_progress("lab1_timer", "first")
        assert list(progress()["lab1_timer"]) == ["first"]


class TestCommitted:
    """The records that the repository carries; none is fine, a bad one is not."""

    def test_schema(self):
        for path in sorted(records_folder().glob("*/*.json")):
            record = json.loads(path.read_text(encoding="utf-8"))
            assert set(record) == {"unit", "date", "commit", "device", "versions", "values"}, path
            assert path.stem == record["unit"].rsplit("/", 1)[-1], path
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", record["date"]), path
            assert re.fullmatch(r"[0-9a-f]{7,40}", record["commit"]), path
            assert set(record["device"]) == {"name", "kind", "chip", "memory_bytes", "count"}, path
            assert Device(record["device"]["kind"], record["device"]["name"]).slug == path.parent.name, path
            assert not record["device"]["chip"] or chip(record["device"]["chip"])
            assert record["versions"]["python"], path
            assert record["values"], path

    def test_nothing_else_lies_there(self):
        others = [
            p for p in records_folder().rglob("*") if p.is_file() and p.suffix != ".json" and p.name != ".gitkeep"
        ]
        assert others == []


@pytest.mark.parametrize(("lab", "exercise"), [(None, None), ("", "x"), ("lab", 3)])
def test_progress_of_nothing_is_refused(home, lab, exercise):
    with pytest.raises(TypeError, match=r"^expected the names of a lab and of its exercise; found"):
        records.note_progress(lab, exercise)
    assert records.progress() == {}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
def test_a_pipe_among_the_records_is_left_out_and_not_waited_for(home, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(records, "records_folder", lambda: tmp_path / "records")
    (tmp_path / "records" / "chip").mkdir(parents=True)
    os.mkfifo(tmp_path / "records" / "chip" / "u1.json")
    assert records.all_records() == []
    assert "u1.json is no valid record (it is no file)" in capsys.readouterr().out
