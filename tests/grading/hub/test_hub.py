"""A class in a real JupyterHub: handed out, fetched, solved, submitted, collected, graded, and read about."""

import csv
import json

import hubsetup
import pytest
from conftest import SCREENSHOTS
from desk import Desk
from machine import CLASS, IS_ROOT

# One hub, so one worker.
pytestmark = pytest.mark.xdist_group("hub")

LAB, COURSE, NOTEBOOK = "lab1_timer", "perf101", "lab1_timer/lab1_timer.ipynb"


def solutions():
    """The answers of the instructor edition, by exercise."""
    path = hubsetup.ROOT / "solutions" / "s1_measurement" / f"{LAB}.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    marked = [(cell, cell["metadata"].get("nbgrader", {})) for cell in cells if cell["cell_type"] == "code"]
    return {marks["grade_id"]: "".join(cell["source"]) for cell, marks in marked if marks.get("solution")}


def grade(machine):
    """Grade what was collected."""
    machine.run("grace", "nbgrader", "autograde", LAB, folder=COURSE)


@pytest.fixture(scope="module")
def released(machine, hub):
    """A course in the instructor's home folder, made and handed out as docs/classroom.md says."""
    machine.run("grace", "rooflab", "course", COURSE, "--lab", LAB, "--exchange", f"{CLASS}/exchange")
    machine.run("grace", "mkdir", "-p", ".jupyter")
    machine.run("grace", "ln", "-s", f"../{COURSE}/nbgrader_config.py", ".jupyter/nbgrader_config.py")
    machine.run("grace", "nbgrader", "release_assignment", LAB, folder=COURSE)
    return machine


def points(machine):
    """The exported points of each student."""
    machine.run("grace", "rooflab", "course", COURSE, "--export", "csv", "--to", f"{COURSE}/grades.csv")
    with (machine.folder / "home" / "grace" / COURSE / "grades.csv").open(encoding="utf-8") as file:
        return {row["student_id"]: float(row[LAB]) for row in csv.DictReader(file)}


def test_a_class_from_handing_out_to_feedback(released, hub, browser):
    machine = released
    right = solutions()
    ada, bob = (Desk(browser, hub, name, SCREENSHOTS) for name in ("ada", "bob"))
    assert ada.menu() == ["Assignment List"], "students have no tools of an instructor"
    ada.page.keyboard.press("Escape")
    ada.fetch()
    ada.screenshot("hub_ada_fetched")
    bob.fetch()
    ada.solve(NOTEBOOK, right | {"colleague": "Nothing waits for the device."})
    bob.solve(NOTEBOOK, {name: right[name] for name in ("summarize", "compare")})
    ada.screenshot("hub_ada_solved")
    ada.submit()
    bob.submit()
    ada.screenshot("hub_ada_submitted")
    bob.close()

    machine.run("grace", "nbgrader", "collect", LAB, folder=COURSE)
    grade(machine)
    grace = Desk(browser, hub, "grace", SCREENSHOTS)
    assert {"Formgrader", "Course List"} < set(grace.menu())
    grace.page.keyboard.press("Escape")
    [course] = grace.courses()
    assert course.split() == [COURSE, "local"]
    [row] = grace.formgrader()
    assert row.split()[0] == LAB
    assert "2" in row.split(), "Formgrader counts both submissions"
    grace.close()
    machine.run("grace", "nbgrader", "generate_feedback", LAB, folder=COURSE)
    machine.run("grace", "nbgrader", "release_feedback", LAB, folder=COURSE)
    # The answer in words waits for a person.
    assert points(machine) == {"ada": 20, "bob": 6}

    read = ada.fetch_feedback()
    assert "(Score: 20.0 / 25.0)" in read
    assert "BEGIN HIDDEN TESTS" not in read
    assert not ada.problems + bob.problems + grace.problems


@pytest.mark.skipif(not IS_ROOT, reason="without root all accounts are one user of the system")
def test_accounts_cannot_look_into_one_another(released):
    script = (
        f"cat {CLASS}/home/grace/{COURSE}/gradebook.db || ls {CLASS}/home/bob || ls {CLASS}/exchange/{COURSE}/inbound"
    )
    told = released.run("ada", "sh", "-c", f"{script} || echo nothing at all")
    assert told.splitlines()[-1] == "nothing at all"
    assert told.count("Permission denied") == 3
