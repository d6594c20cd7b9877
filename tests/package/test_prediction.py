"""Guesses: typed, late, kept over restarts, or stood in for by the model."""

import json
import math

import numpy as np
import pytest

from rooflab import display, logbook, prediction, records
from rooflab.logbook import begin, this_run, values_of
from rooflab.measurement import Measurement, Ratio
from rooflab.prediction import UnknownQuestion, commit, predict, report
from rooflab.prediction import prediction as asked

Q = "the largest product takes"
UNIT = "s1_measurement/u1_step_cost"


@pytest.fixture(autouse=True)
def alone(home, monkeypatch, tmp_path):
    """No record beside the run, unless a test puts one there."""
    monkeypatch.setattr(records, "records_folder", lambda: tmp_path / "records")
    begin(UNIT)


@pytest.fixture
def notebook(monkeypatch):
    """A reader sits before a notebook; returns what was displayed: forms, and bundles with their texts."""
    import IPython.display

    shown = []
    monkeypatch.delenv("ROOFLAB_HEADLESS", raising=False)
    for module in (prediction, display):
        monkeypatch.setattr(module, "in_notebook", lambda: True)
    monkeypatch.setattr(prediction, "is_headless", lambda: False)
    monkeypatch.setattr(IPython.display, "display", lambda *objects, **_: shown.extend(objects))
    return shown


def texts(shown: list) -> list[str]:
    return [bundle["text/plain"] for bundle in shown if isinstance(bundle, dict)]


class TestHeadless:
    def test_the_models_own_answer_stands_in(self, capsys):
        predict(Q, unit="ms", model=0.002)
        report(Q, 0.004)
        said = capsys.readouterr().out
        assert said.startswith(f"Prediction: {Q} (ms). Nobody is here to guess; the model's own answer stands in.\n")
        row = said.splitlines()[-1]
        assert [cell.strip() for cell in row.split("|")] == ["2 ms", "2 ms", "4 ms", "2"]
        assert said.splitlines()[-3] == Q
        assert this_run()[Q] == {"guess": None, "model": 0.002, "measured": 0.004, "unit": "s"}

    def test_without_a_model(self, capsys):
        predict(Q, unit="x", model=None)
        report(Q, Ratio([2.99, 3.0, 3.01]))
        said = capsys.readouterr().out
        assert "no model stands in" in said
        assert [cell.strip() for cell in said.splitlines()[-1].split("|")] == ["–", "–", "3x", "–"]

    def test_a_ratio_that_something_disturbed_is_said_to_be(self, capsys):
        predict(Q, unit="x", model=None)
        report(Q, Ratio([2.0, 3.0, 4.0]))
        assert capsys.readouterr().out.endswith(
            "Disturbed: the middle three fifths of 3 samples gave 2.4x to 3.6x. Close other programs and run this cell "
            "again.\n"
        )

    def test_nothing_came_of_the_measurement(self, capsys):
        predict(Q, model=3.0)
        report(Q, math.nan)
        row = capsys.readouterr().out.splitlines()[-1]
        assert [cell.strip() for cell in row.split("|")] == ["3", "3", "–", "–"]
        assert this_run()[Q]["measured"] is None

    @pytest.mark.parametrize("model", [0.0, math.inf, math.nan])
    def test_no_ratio_to_a_model_of(self, model, capsys):
        predict(Q, model=model)
        report(Q, 3.0)
        assert capsys.readouterr().out.rstrip().endswith("–")
        json.dumps(values_of(UNIT), allow_nan=False)

    def test_a_model_may_be_computed(self):
        predict(Q, model=lambda: 7)
        assert asked(Q).model == 7.0

    @pytest.mark.parametrize(
        ("measured", "value"), [(Measurement("m", (1.0, 2.0, 9.0)), 2.0), (Ratio([1.0, 5.0, 6.0]), 5.0), (3, 3.0)]
    )
    def test_kinds_of_measurements(self, measured, value):
        predict(Q, unit="s", model=1.0)
        report(Q, measured)
        assert this_run()[Q]["measured"] == value

    @pytest.mark.parametrize(
        ("unit", "says"), [("Gb", r"GB \(bytes\) or Gbit"), ("GB/S", "did you mean 'GB/s'"), (3, "a unit as text")]
    )
    def test_a_unit_that_is_none_is_refused_before_the_question_is_asked(self, unit, says):
        with pytest.raises((ValueError, TypeError), match=says):
            predict(Q, unit=unit, model=1.0)
        with pytest.raises(UnknownQuestion):
            asked(Q)

    @pytest.mark.parametrize("wrong", ["3", [3.0], np.ones(2), True, 1j, Measurement("m", (1.0,)), object()])
    def test_a_model_that_is_no_number(self, wrong):
        with pytest.raises(TypeError, match="expected the model's answer as a number in SI units, or None; found"):
            predict(Q, unit="s", model=wrong)

    @pytest.mark.parametrize("wrong", ["3", [3.0], None, {"a": 1}, True])
    def test_a_measurement_that_is_no_number(self, wrong):
        predict(Q, unit="s", model=1.0)
        with pytest.raises(TypeError, match="expected a number in SI units, or a Measurement; found"):
            report(Q, wrong)
        assert asked(Q).measured is None

    @pytest.mark.parametrize("number", [np.float32(2.0), np.int64(2), np.array(2.0)])
    def test_scalars_of_a_library_are_numbers(self, number):
        predict(Q, unit="s", model=number)
        report(Q, number)
        assert (asked(Q).model, asked(Q).measured) == (2.0, 2.0)

    def test_a_whole_number_beyond_all_floats(self):
        predict(Q, model=10**400)
        report(Q, 10**400)
        assert (asked(Q).model, asked(Q).measured) == (math.inf, math.inf)

    @pytest.mark.parametrize("question", ["", " ", None, 3])
    def test_a_question_is_text(self, question):
        with pytest.raises(TypeError, match="expected the question as text"):
            predict(question, model=1.0)

    def test_percent_stay_percent(self, capsys):
        predict(Q, unit="%", model=0.4)
        report(Q, 0.5)
        assert [cell.strip() for cell in capsys.readouterr().out.splitlines()[-1].split("|")][:3] == [
            "40 %",
            "40 %",
            "50 %",
        ]

    def test_a_key_of_its_own(self):
        predict(Q, model=1.0)
        report(Q, 2.0, key="short")
        assert list(this_run()) == ["short"]


def test_a_question_that_nobody_asked():
    with pytest.raises(UnknownQuestion) as caught:
        report(Q, 1.0)
    assert str(caught.value) == f"Nobody asked {Q!r}: run its predict(...) cell first. Asked so far: none."
    predict("another", model=1.0)
    with pytest.raises(KeyError, match="Asked so far: 'another'"):
        commit(Q, "3")


class TestReader:
    def test_a_guess_in_any_unit(self, notebook):
        predict(Q, unit="ms", model=0.002)
        for text, value in {"3": 0.003, "20 us": 2e-5, "3e-3 s": 0.003, " 1,000 ": 1.0, "about 5 ms": 0.005}.items():
            assert commit(Q, text).startswith("Committed: ")
            assert asked(Q).guess == pytest.approx(value)
        assert commit(Q, "3") == "Committed: 3 ms. Now measure."

    @pytest.mark.parametrize("text", ["", "many", "3 GB", "1,5", "nan", "1e999", "3 ms 4", "<b>", "0", "-3 ms"])
    def test_bad_text_is_one_sentence_and_changes_nothing(self, notebook, home, text):
        predict(Q, unit="ms", model=0.002)
        commit(Q, "3")
        before = (home / prediction.GUESSES).read_bytes()
        said = commit(Q, text)
        assert said.startswith("Expected ")
        assert said.endswith(". Your guess of 3 ms stands.")
        assert "\n" not in said
        assert asked(Q).guess == 0.003
        assert (home / prediction.GUESSES).read_bytes() == before

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("0", "Committed: 0. Now measure."),
            ("12", "Committed: 12. Now measure."),
            ("13", "Expected a whole number from 0 to 12; found '13'."),
            ("-1", "Expected a whole number from 0 to 12; found '-1'."),
            ("3.5", "Expected a whole number from 0 to 12; found '3.5'."),
        ],
    )
    def test_how_many_of_so_many(self, notebook, text, said):
        predict(Q, model=3, out_of=12)
        assert commit(Q, text) == said

    def test_a_guess_of_an_earlier_run_is_called_so(self, notebook, restart):
        predict(Q, unit="ms", model=0.002)
        commit(Q, "4")
        restart()
        predict(Q, unit="ms", model=0.002)
        report(Q, 0.04)
        assert texts(notebook)[-1].splitlines()[-1] == "Your earlier guess is off by a factor of 10."

    @pytest.mark.parametrize("early", ["", "3"])
    def test_after_the_measurement_it_is_too_late(self, notebook, early):
        predict(Q, unit="ms", model=0.002)
        if early:
            commit(Q, early)
        report(Q, 0.004)
        assert commit(Q, "4") == "The measurement is on the table; run the predict cell again to guess afresh."
        assert asked(Q).guess == (0.003 if early else None)
        predict(Q, unit="ms", model=0.002)
        assert commit(Q, "4").startswith("Committed")

    @pytest.mark.parametrize("kept", ["NaN", "Infinity", "true", '"3"', "[3]", "null"])
    def test_what_is_kept_and_is_no_number_is_no_guess(self, notebook, home, restart, kept):
        predict(Q, unit="ms", model=None)
        commit(Q, "3")
        path = home / prediction.GUESSES
        path.write_text(path.read_text().replace("0.003", kept))
        restart()
        predict(Q, unit="ms", model=None)
        assert asked(Q).guess is None
        assert commit(Q, "4") == "Committed: 4 ms. Now measure."

    def test_guesses_outlive_the_kernel_unit_by_unit(self, notebook, restart):
        predict(Q, unit="ms", model=None)
        commit(Q, "3")
        restart()
        begin("s1_measurement/u2_roofline")
        predict(Q, unit="ms", model=None)
        assert asked(Q).guess is None
        commit(Q, "5")
        restart()
        begin(UNIT)
        predict(Q, unit="ms", model=None)
        assert asked(Q).guess == 0.003

    @pytest.mark.parametrize("content", ["[1]", "{", '{"s1_measurement/u1_step_cost: the largest product takes": "3"}'])
    def test_a_corrupt_file_of_guesses(self, notebook, home, content):
        (home / prediction.GUESSES).write_text(content)
        predict(Q, unit="ms", model=None)
        assert asked(Q).guess is None
        assert commit(Q, "3").startswith("Committed")

    def test_unwritable(self, notebook, unwritable, capsys):
        predict(Q, unit="ms", model=None)
        commit(Q, "3")
        predict(Q, unit="ms", model=None)
        assert asked(Q).guess == 0.003
        assert capsys.readouterr().out.count("cannot write") == 1

    @pytest.mark.parametrize(
        ("guess", "measured", "verdict"),
        [
            ("4", 0.004, "Your guess is within 1 % of the measurement."),
            ("4", 0.0044, "Your guess is within 10 % of the measurement."),
            ("4", 0.04, "Your guess is off by a factor of 10."),
            ("40", 0.004, "Your guess is off by a factor of 10."),
            (
                "",
                0.004,
                "No guess was committed before this measurement: a prediction made afterwards teaches nothing.",
            ),
            ("4", -0.004, ""),
            ("4", math.nan, ""),
            ("4", math.inf, ""),
        ],
    )
    def test_verdict(self, notebook, guess, measured, verdict):
        predict(Q, unit="ms", model=0.002)
        if guess:
            commit(Q, guess)
        report(Q, measured)
        (text,) = texts(notebook)
        assert text.splitlines()[0] == Q
        assert text.splitlines()[3:] == ([verdict] if verdict else [])

    def test_the_recorded_device_stands_beside(self, notebook, tmp_path):
        folder = tmp_path / "records" / "nvidia-h200"
        folder.mkdir(parents=True)
        record = {"device": {"name": "NVIDIA H200"}, "values": {Q: {"measured": 1e-5}}}
        (folder / "u1_step_cost.json").write_text(json.dumps(record))
        predict(Q, unit="ms", model=0.002)
        report(Q, 0.004)
        (text,) = texts(notebook)
        assert "recorded (H200)" in text.splitlines()[1]
        assert "10 µs" in text.splitlines()[2]
        assert "<table" in notebook[-1]["text/html"]

    def test_the_question_is_escaped(self, notebook):
        predict("<script>alert(1)</script>", model=1.0)
        report("<script>alert(1)</script>", 1.0)
        title = notebook[0].children[0]
        assert "<script>" not in title.value
        assert "<script>" not in notebook[-1]["text/html"]


class TestForm:
    def form(self, notebook, **options):
        predict(Q, **{"unit": "ms", "model": 0.002} | options)
        title, row, status = notebook[-1].children
        return title, *row.children, status

    def test_typing_and_pressing_the_button(self, notebook):
        _, field, button, status = self.form(notebook)
        field.value = "3"  # in a browser: Enter, or leaving the field
        assert status.value == "Committed: 3 ms. Now measure."
        button.click()
        assert asked(Q).guess == 0.003
        field.value = "a <b>"
        assert "&lt;b&gt;" in status.value
        assert asked(Q).guess == 0.003

    def test_the_value_changes_with_enter_and_not_with_every_key(self, notebook):
        _, field, _, _ = self.form(notebook)
        assert field.continuous_update is False

    def test_the_last_guess_is_shown(self, notebook, restart):
        self.form(notebook)
        commit(Q, "3")
        restart()
        *_, status = self.form(notebook)
        assert status.value == "Last time you said 3 ms."

    @pytest.mark.parametrize(
        ("unit", "hint"), [("", "a number"), ("x", "how many times, such as 3"), ("ms", "such as 3 ms")]
    )
    def test_hint(self, notebook, unit, hint):
        _, field, _, _ = self.form(notebook, unit=unit)
        assert field.placeholder == hint


def test_the_unit_of_a_run_is_part_of_the_key():
    begin("a/b")
    assert prediction._key(Q) == f"a/b: {Q}"
    assert logbook.current_unit() == "a/b"
