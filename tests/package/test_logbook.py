"""What the logbook keeps of a run."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from rooflab import logbook, state
from rooflab.logbook import begin, current_unit, log, log_curves, now, plain, this_run, values_of
from rooflab.measurement import Measurement, Ratio

UNIT = "s1_measurement/u1_step_cost"


class TestPlain:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (math.nan, None),
            (math.inf, None),
            (-math.inf, None),
            (np.float64(math.nan), None),
            (np.float32(0.5), 0.5),
            (np.int64(3), 3),
            (np.bool_(True), True),
            (True, True),
            (None, None),
            ("µ", "µ"),
            (np.array([[1.0, math.nan], [math.inf, 2.0]]), [[1.0, None], [None, 2.0]]),
            ((1, [2.0, (3,)]), [1, [2.0, [3]]]),
            (range(3), [0, 1, 2]),
            ({1: math.nan, "a": {"b": np.arange(2)}}, {"1": None, "a": {"b": [0, 1]}}),
            (Ratio([1.0, 2.0, 3.0]), 2.0),
        ],
    )
    def test_values(self, value, expected):
        found = plain(value)
        assert found == expected
        assert json.loads(json.dumps(found, allow_nan=False)) == expected
        assert type(found) in (dict, list, str, bool, int, float, type(None))

    def test_a_measurement_keeps_its_quantiles(self):
        kept = plain(Measurement("m", (1.0, 2.0, 3.0), settled=False, clock="events"))
        assert kept == {"median_s": 2.0, "p20_s": pytest.approx(1.4), "p80_s": pytest.approx(2.6), "clock": "events",
                        "samples": 3, "settled": False}  # fmt: skip

    @pytest.mark.parametrize("value", [Path("/tmp"), b"bytes", {1, 2}, object(), 1j])
    def test_other_kinds_are_refused(self, value):
        kind = type(value).__name__
        with pytest.raises(TypeError, match=rf"^A record holds numbers, strings, lists and dicts; found {kind}\.$"):
            plain([value])


def test_log_and_read_back(home):
    begin(UNIT)
    log("a", 1.0)
    log("b", [1, 2])
    log("a", 2.0)
    assert this_run() == {"a": 2.0, "b": [1, 2]}
    assert values_of(UNIT) == {"a": 2.0, "b": [1, 2]}
    assert values_of("other/unit") == {}
    lines = [json.loads(line) for line in (home / "logbook.jsonl").read_text().splitlines()]
    assert [line["key"] for line in lines] == ["a", "b", "a"]
    assert lines[0]["device"]
    assert lines[0]["time"].endswith("+00:00")


def test_a_run_begins_empty(home):
    begin(UNIT)
    log("a", 1)
    begin("s1_measurement/u2_roofline")
    assert current_unit() == "s1_measurement/u2_roofline"
    assert this_run() == {}
    assert values_of(UNIT) == {"a": 1}


def test_what_was_logged_cannot_be_changed_from_outside(home):
    begin(UNIT)
    mutable = [1]
    log("a", mutable)
    mutable.append(2)
    this_run()["b"] = 1
    assert this_run() == {"a": [1]}


def test_the_recorder_has_a_file_of_its_own(home, tmp_path, monkeypatch):
    monkeypatch.setenv("ROOFLAB_LOGBOOK", str(tmp_path / "elsewhere" / "log.jsonl"))
    begin(UNIT)
    log("a", 1)
    assert (tmp_path / "elsewhere" / "log.jsonl").is_file()
    assert not (home / "logbook.jsonl").exists()
    assert values_of(UNIT) == {"a": 1}


def test_foreign_lines_are_passed_over(home):
    begin(UNIT)
    log("a", 1)
    with (home / "logbook.jsonl").open("a") as file:
        file.write(f'3\nnull\n{{"unit": "{UNIT}"}}\n{{"unit": "{UNIT}", "key": "b", "val')
    assert values_of(UNIT) == {"a": 1}


def test_unwritable(unwritable, capsys):
    begin(UNIT)
    log("a", 1)
    log("b", math.nan)
    assert values_of(UNIT) == {"a": 1, "b": None}
    assert capsys.readouterr().out.count("cannot write") == 1


def test_curves(home):
    begin(UNIT)
    log_curves("sweep", {"torch": (np.array([1, 2]), [math.nan, 0.5]), "JAX": (range(1, 2), [1.0])})
    assert this_run()["sweep"] == {"torch": {"x": [1, 2], "y": [None, 0.5]}, "JAX": {"x": [1], "y": [1.0]}}


def test_now_is_iso_in_utc():
    assert logbook.datetime.datetime.fromisoformat(now()).utcoffset().total_seconds() == 0


def test_lines_of_another_kind_are_passed_over(home):
    begin("s1/u1")
    log("a", 1)
    for line in ({"unit": "s1/u1", "key": [1], "value": 2}, {"unit": "s1/u1", "key": "b"}, ["s1/u1"], 3):
        state.append_line("logbook.jsonl", line)
    assert values_of("s1/u1") == {"a": 1}


@pytest.mark.parametrize("key", [None, 3, ("a", "b")])
def test_a_key_is_text(home, key):
    begin("s1/u1")
    with pytest.raises(TypeError, match="expected a name to log a value under"):
        log(key, 1)
    assert this_run() == {}


def test_a_value_without_an_end(home):
    begin("s1/u1")
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="expected a value that ends; found one under 'a' that holds itself"):
        log("a", endless)
    assert this_run() == {}


@pytest.mark.parametrize("series", [[1], 3, {"a": 3}, {"a": (1, 2)}, {"a": ([1], [2], [3])}])
def test_what_is_no_sweep_is_refused(home, series):
    with pytest.raises(TypeError, match=r"^expected (a sweep as label to|the) positions and (the )?values.*; found"):
        logbook.log_curves("c", series)
    assert logbook.this_run() == {}
