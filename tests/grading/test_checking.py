"""`rooflab check`: a student's own copy, with the same paths as in grading and without a sandbox."""

import json
import subprocess
import time

import pytest

from rooflab.grading.exercises import gist
from rooflab.grading.gradingrun import StudentResult
from rooflab.grading.outcome import Outcome
from rooflab.grading.ownlab import is_visible, own_lab
from rooflab.grading.ownmachine import TIMES, Guests, Timed, remarked
from rooflab.grading.plainnotebook import Cell
from rooflab.grading.rebuild import Step

pytestmark = pytest.mark.xdist_group("grading")


def check(small, path, folder=None):
    told = small.command("check", path)
    done = subprocess.run(
        told["args"],
        env=told["env"],
        cwd=folder or small.root,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_right_copy_passes_wherever_it_is(small, tmp_path):
    path = small.submit("s0")
    elsewhere = tmp_path / "a folder"
    elsewhere.mkdir()
    copy = elsewhere / "my copy.ipynb"
    copy.write_bytes(path.read_bytes())
    code, printed, _ = check(small, copy.name, elsewhere)
    assert code == 0, printed
    lines = [line for line in printed.splitlines() if line.startswith(("total", "scale", "why"))]
    assert [" ".join(line.split()) for line in lines] == [
        "total | 1 of 1 | 2 of 2 |", "scale | 1 of 1 | 3 of 3 |", "why | read by a person | 4 |",
    ]  # fmt: skip
    assert "Visible checks: 5 of 5 points." in printed
    assert sorted(one.name for one in elsewhere.iterdir()) == ["my copy.ipynb"], "nothing is written beside it"


def test_what_is_wrong_is_said(small):
    hangs = "import os\n\n\ndef scale(x, k):\n    os._exit(7)\n"
    path = small.submit("s0", total="def total(values):\n    return 7\n", scale=hangs)
    code, printed, _ = check(small, path)
    assert code == 1
    assert "one and two are three" in printed
    assert "its process ended with exit code 7" in printed
    assert "Visible checks: 0 of 5 points." in printed


def test_several_copies_and_one_that_is_blank(small):
    right, blank = small.submit("s0"), small.root / "release" / "week1" / "small.ipynb"
    told = small.command("check", right, blank)
    done = subprocess.run(**told, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "Visible checks: 5 of 5 points." in done.stdout
    assert "Visible checks: 0 of 5 points." in done.stdout
    assert done.stdout.count("There is no answer yet.") == 2
    assert "could not be run" not in done.stdout
    assert "is not defined" not in done.stdout


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is broken: it is no JSON"),
        ("", "is empty"),
        ("[]", "is no notebook"),
        (json.dumps({"cells": [{"cell_type": "code", "source": "1"}]}), "has no check"),
    ],
)
def test_a_file_that_is_no_lab_is_told_in_one_sentence(small, tmp_path, text, why):
    path = tmp_path / "file.ipynb"
    path.write_text(text)
    code, printed, told = check(small, path)
    assert (code, printed) == (1, "")
    assert why in told
    assert len(told.strip().splitlines()) == 1


def test_a_file_that_is_not_there_is_told(small):
    code, _, told = check(small, "nowhere.ipynb")
    assert code == 1
    assert "There is no notebook nowhere.ipynb" in told


def test_a_call_that_is_longer_than_in_grading_is_remarked(tmp_path, monkeypatch):
    guests = Guests(str(tmp_path))
    monkeypatch.setattr(guests, "start", lambda what: time.sleep(3) or Guests.start(guests, what))
    session = Timed(guests, TIMES)
    try:
        session.run(Step("solution", "import time\ntime.sleep(0.3)"))
        session.run(Step("solution", "1"))
    finally:
        session.close()
    assert 0.3 <= session.longest_s < 3.0, "what the process takes to start is not counted"
    assert remarked(Outcome("lab"), 9.9).remarks == ()
    (told,) = remarked(Outcome("lab"), 12.3).remarks
    assert told.startswith("A call or a cell took 12 s; grading stops it after 10 s")


def test_a_hint_stands_right_behind_what_it_is_for():
    note = "a batch of one call\n  expected: 1\n  found:    2\n  hint:     Far too large: {'n': 1}"
    assert gist(note) == "a batch of one call: Far too large."


def test_remarks_in_a_row_are_divided_once():
    failed = {"one": Outcome("one", failure="Its process ended with exit code 3."), "two": Outcome("two", failure="No")}
    assert StudentResult("ada", failed, {}).remark == "Its process ended with exit code 3; No"


def test_cells_of_the_student_run_once_and_those_that_checks_need_in_both():
    cells = [
        Cell("code", "import math\nLIMIT = 3"),
        Cell("code", "def f(x): return x", grade_id="f", marks={"solution": True}),
        Cell("code", "plot = f(2)"),
        Cell("code", "base = LIMIT"),
        Cell("code", "assert f(1) < base", grade_id="f-1", marks={"grade": True, "points": 1}),
    ]
    kinds = [cell.kind for cell in own_lab("lab", cells).cells]
    assert kinds == ["setup", "solution", "own", "setup", "check"]


@pytest.mark.parametrize("points", [float("nan"), float("inf"), -5, 10**400, "2", None])
def test_points_that_are_none_count_nothing(points):
    answer = Cell("code", "def f(): return 1", grade_id="f", marks={"solution": True})
    check = Cell("code", "assert f() == 1", grade_id="f-1", marks={"grade": True, "points": points})
    assert own_lab("lab", [answer, check]).checks[0].points == 0


def test_a_check_without_code_is_the_graders():
    lab = own_lab("lab", [
        Cell("code", "# The grader runs further checks here.", grade_id="a", marks={"grade": True, "points": 1}),
        Cell("code", "%matplotlib inline\nassert True", grade_id="b", marks={"grade": True, "points": 1}),
    ])  # fmt: skip
    assert [is_visible(cell) for cell in lab.checks] == [False, True]
