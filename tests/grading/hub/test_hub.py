"""A class in a real JupyterHub: handed out, fetched, solved, submitted, collected, graded, and read about."""

import csv
import json

import hubsetup
import page
import pytest
from desk import Desk
from machine import CLASS, IS_ROOT

# One hub, so one worker.
pytestmark = pytest.mark.xdist_group("hub")

PRIVATE = "Checks of your own, that nobody can look up"
# As Canvas exports a gradebook.
ROSTER = """\
Student,ID,SIS User ID,SIS Login ID,Section,lab1_timer (4711)
    Points Possible,,,,,27
"Lovelace, Ada",101,S-1,ada,Perf 101,
"Babbage, Bob",102,S-2,bob,Perf 101,
"""
LAB, COURSE, NOTEBOOK = "lab1_timer", "perf101", "lab1_timer/lab1_timer.ipynb"


def solutions():
    """The answers of the instructor edition, by exercise."""
    path = hubsetup.ROOT / "solutions" / "s1_measurement" / f"{LAB}.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    marked = [(cell, cell["metadata"].get("nbgrader", {})) for cell in cells if cell["cell_type"] == "code"]
    return {marks["grade_id"]: "".join(cell["source"]) for cell, marks in marked if marks.get("solution")}


def follow(machine, title, *, folder=COURSE):
    """Do as the instructor what a section of docs/classroom.md says."""
    for words in page.commands(title):
        if words[0] != "cd":
            machine.run("grace", *words, folder=folder)


@pytest.fixture(scope="module")
def released(machine, hub):
    """A course in the instructor's home folder, with a private check, handed out."""
    follow(machine, "Make the course", folder=".")
    machine.run("grace", "mkdir", "private", folder=COURSE)
    _write(machine, f"private/{LAB}.py", page.code(PRIVATE))
    follow(machine, PRIVATE)
    follow(machine, "Hand out")
    return machine


def _write(machine, name, text):
    """Put a file into the instructor's course."""
    machine.run(
        "grace", "python", "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])", name, text, folder=COURSE
    )


def points(machine):
    """The exported points of each student."""
    _write(machine, "canvas.csv", ROSTER)
    follow(machine, "Export grades")
    folder = machine.folder / "home" / "grace" / COURSE
    written = {path.name for path in folder.glob("grades*.csv")}
    assert written == {"grades.csv", "grades-canvas.csv", "grades-moodle.csv"}
    with (folder / "grades.csv").open(encoding="utf-8") as file:
        return {row["student_id"]: float(row[LAB]) for row in csv.DictReader(file)}


def test_a_class_from_handing_out_to_feedback(released, hub, browser):
    machine = released
    right = solutions()
    ada, bob = (Desk(browser, hub, name, hubsetup.SCREENSHOTS) for name in ("ada", "bob"))
    assert ada.menu() == ["Assignment List"], "students have no tools of an instructor"
    ada.page.keyboard.press("Escape")
    ada.fetch()
    ada.screenshot("hub_ada_fetched")
    given = (machine.folder / "home" / "ada" / NOTEBOOK).read_text(encoding="utf-8")
    assert "summarize-hidden-101" in given
    assert not any(secret in given for secret in ("the median of four", "9.0, 11.0", "20261224", "HIDDEN TESTS"))
    bob.fetch()
    ada.solve(NOTEBOOK, right | {"colleague": "Nothing waits for the device."})
    bob.solve(NOTEBOOK, {name: right[name] for name in ("summarize", "compare")})
    ada.screenshot("hub_ada_solved")
    ada.submit()
    bob.submit()
    ada.screenshot("hub_ada_submitted")
    bob.close()

    follow(machine, "Collect and grade")
    grace = Desk(browser, hub, "grace", hubsetup.SCREENSHOTS)
    assert {"Formgrader", "Course List"} < set(grace.menu())
    grace.page.keyboard.press("Escape")
    [course] = grace.courses()
    assert course.split() == [COURSE, "local"]
    [row] = grace.formgrader()
    assert row.split()[0] == LAB
    assert "2" in row.split(), "Formgrader counts both submissions"
    grace.close()
    follow(machine, "Give feedback")
    # Two points of each are of the private check; the answer in words waits for a person.
    assert points(machine) == {"ada": 22, "bob": 8}

    read = ada.fetch_feedback()
    assert "22 of 22 points. A person has yet to look at answers worth 5 more." in " ".join(read.split())
    assert not any(secret in read for secret in ("the median of four", "9.0, 11.0")), "of a private check that passed"
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
