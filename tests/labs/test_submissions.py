"""Submissions that some tool or hand has damaged: nbgrader's log says whose, which file, and what to do."""

import json
from pathlib import Path

import courses
import pytest

import variants

LAB = Path("solutions/s9_demo/lab1_demo.py")


@pytest.fixture(scope="module")
def course(roots, tmp_path_factory):
    course = courses.Course(roots["demo"], tmp_path_factory.mktemp("damaged"))
    course.build()
    course.nbgrader("generate_assignment", "s9_demo", "--force")
    return course


def hand_in(course, student, change):
    """Hand in the solved lab, changed: ``change`` gets the notebook and its path."""
    course.submit(student, LAB, variants.load(LAB, course.root).exercises)
    path = course.root / "submitted" / student / "s9_demo" / "lab1_demo.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    change(notebook, path)
    if path.exists():
        path.write_text(json.dumps(notebook), encoding="utf-8")


def strip(notebook, path):
    for cell in notebook["cells"]:
        cell["metadata"].pop("nbgrader", None)


def rename(notebook, path):
    for cell in notebook["cells"]:
        mark = cell["metadata"].get("nbgrader", {})
        if mark.get("grade_id") in ("middle", "normalize-hidden-1"):
            mark["grade_id"] = f"my-{mark['grade_id']}"


def test_a_submission_without_marks_is_told_and_flagged(course):
    hand_in(course, "ann", strip)
    log = " ".join(course.nbgrader("autograde", "s9_demo", "--student", "ann").split())
    assert (
        "submitted/ann/s9_demo/lab1_demo.ipynb lacks 10 marked cells (given-1, given-2, middle, ...); the 6 graded "
        "ones get 0 points and are flagged for you. Ask ann to put the answers into a fresh lab1_demo.ipynb, then "
        "autograde with --force."
    ) in log
    grades = course.grades("s9_demo")["ann"]["lab1_demo"]
    assert {(got, flagged) for got, _, flagged in grades.values()} == {(0, True)}
    assert len(grades) == 6


def test_a_renamed_mark_costs_its_own_points_only(course):
    hand_in(course, "bob", rename)
    log = " ".join(course.nbgrader("autograde", "s9_demo", "--student", "bob").split())
    assert (
        "submitted/bob/s9_demo/lab1_demo.ipynb has marks that this lab does not know (my-middle, my-normalize-hidden-1)"
        "; their cells are run and not graded."
    ) in log
    assert "lacks 2 marked cells (middle, normalize-hidden-1); the 1 graded one gets 0 points and is flagged" in log
    grades = course.grades("s9_demo")["bob"]["lab1_demo"]
    assert grades.pop("normalize-hidden-1") == [0, 2, True]
    grades.pop("why")
    assert all(got == most and not flagged for got, most, flagged in grades.values())


def test_a_file_with_another_name_is_told(course):
    hand_in(course, "eve", lambda notebook, path: path.rename(path.with_name("lab1_demo (1).ipynb")))
    log = " ".join(course.nbgrader("autograde", "s9_demo", "--student", "eve", fails=True).split())
    assert (
        "submitted/eve/s9_demo/lab1_demo (1).ipynb is not graded, because no notebook of s9_demo has this name: "
        "rename it to lab1_demo.ipynb, then autograde again."
    ) in log


def test_a_whole_submission_raises_no_warning(course):
    hand_in(course, "zoe", lambda notebook, path: None)
    log = course.nbgrader("autograde", "s9_demo", "--student", "zoe")
    assert "lacks" not in log
    assert "does not know" not in log
    assert "is not graded" not in log
