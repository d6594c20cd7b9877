"""One small class, graded in this process: gradebook, notebooks, feedback, class report, nbgrader's own tools."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from rooflab.grading.classreport import write_class_report
from rooflab.grading.coursefolder import open_course
from rooflab.grading.exercises import exercises_of
from rooflab.grading.grade import grade_assignment
from rooflab.grading.gradingrun import Options

from .smallclass import ASSIGNMENT, LAB, SECRET_LINE, SHARED, SmallClass, source_notebook

pytestmark = [
    pytest.mark.xdist_group("grading"),
    pytest.mark.skipif(sys.platform != "linux", reason="submissions are graded on Linux only"),
]

PLUGIN = '''
from nbgrader.plugins import BasePlugin


class Half(BasePlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        """Half a point for each hour."""
        return min(score, 0.5 * round(total_seconds_late / 3600))
'''
EXTRA = """
import sys
sys.path.insert(0, str(__import__("pathlib").Path(__file__).resolve().parent))
c.AssignLatePenalties.plugin_class = "latepolicy.Half"
"""
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"
HELP = f'''def total(values):
    print("{EVIL}")
    raise ValueError("{EVIL}")
'''


@pytest.fixture(scope="module")
def course(released, tmp_path_factory):
    """The class, graded once."""
    small = SmallClass(tmp_path_factory.mktemp("class"), released, EXTRA)
    (small.root / "latepolicy.py").write_text(PLUGIN)
    small.nbgrader("db", "assignment", "add", ASSIGNMENT, "--duedate", "2026-02-01 08:00:00 UTC")
    small.submit("right", "2026-02-01 07:00:00 UTC", why="Because **I** say so.")
    small.submit("late", "2026-02-01 11:00:00 UTC")
    small.submit("wrong", total="def total(values):\n    return 8 if len(values) > 1 and 1 in values else 0\n")
    small.submit("evil", total=HELP, why=EVIL)
    small.submit("blank", total=None, scale=None, who=None)
    small.submit("broken").write_text("{")
    return small


@pytest.fixture(scope="module")
def run(course):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_DATA_DIR", str(course.home / "data"))
        return grade_assignment(open_course(course.root), ASSIGNMENT, Options(seed="fixed"))


def test_scores_and_flags_are_in_the_gradebook(course, run):
    told = course.grades()
    assert {student: one["score"] for student, one in told.items()} == {
        "right": 5, "late": 5, "wrong": 3, "evil": 3, "blank": 0, "broken": 0,
    }  # fmt: skip
    assert told["right"]["grades"]["why"] == (None, None, True), "an answer in words waits for a person"
    assert told["late"]["grades"]["why"] == (0, None, False), "an untouched one gets nothing"
    assert told["broken"]["grades"]["total-check"] == (None, None, True)
    assert told["right"]["grades"]["scale-check"] == (3, None, False)


def test_comments_say_why_and_hold_no_html(course, run):
    told = {student: one["comments"] for student, one in course.grades().items()}
    assert "one and two are three" in told["wrong"]["total"][0]
    assert told["right"]["total"][0] is None
    assert told["blank"]["scale"][0] == "No response."
    assert "broken" in told["broken"]["who"][0]
    text = told["evil"]["total"][0]
    assert "ValueError" in text
    assert not re.search(r"<[a-zA-Z/!]", text)


def test_the_penalty_is_nbgraders_own(course, run):
    told = course.grades()
    assert told["late"]["penalty"] == 1.5
    assert told["right"]["penalty"] in (None, 0)
    other = course.root.parent / "by_nbgrader"
    shutil.copytree(course.root, other / "course")
    (other / "home").mkdir()
    theirs = SmallClass.__new__(SmallClass)  # the folder is there already
    theirs.root, theirs.home = other / "course", other / "home"
    theirs.nbgrader("autograde", ASSIGNMENT, "--student", "late", "--force")
    assert theirs.grades()["late"]["penalty"] == told["late"]["penalty"]
    assert theirs.grades()["late"]["score"] == told["late"]["score"]


def test_graded_notebooks_are_valid_and_bear_the_marks(course, run):
    import nbformat

    for student in ("right", "late", "wrong", "evil", "blank", "broken"):
        text = (course.root / "autograded" / student / ASSIGNMENT / f"{LAB}.ipynb").read_text()
        notebook = nbformat.reads(text, as_version=4)
        nbformat.validate(notebook)
        marks = {
            cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader
            for cell in notebook.cells
            if cell.metadata.get("nbgrader")
        }
        assert set(marks) == {"who", "who-check", "total", "total-check", "scale", "scale-check", "why"}, student
        assert marks["total-check"].points == 2
        assert marks["total-check"].grade
        assert marks["total-check"].locked
        assert marks["why"].solution
    evil = json.loads((course.root / "autograded" / "evil" / ASSIGNMENT / f"{LAB}.ipynb").read_text())
    shown = ["".join(cell["source"]) for cell in evil["cells"] if cell["cell_type"] == "markdown"]
    assert not any(re.search(r"<(script|img)", text) for text in shown)


def test_feedback_shows_no_hidden_check_and_runs_nothing(course, run):
    for student in ("right", "wrong", "evil"):
        page = (course.root / "feedback" / student / ASSIGNMENT / f"{LAB}.html").read_text()
        assert SECRET_LINE.split(",")[0] not in page
        assert "hidden 4711" not in page
        assert "seven" not in page
        assert "<script>alert" not in page
        assert not re.search(r"<[^>]*onerror", page)
        assert "one and two are three" in page, "the visible check is shown"
    assert "ValueError" in (course.root / "feedback" / "evil" / ASSIGNMENT / f"{LAB}.html").read_text()


def page_of(course, student):
    from bs4 import BeautifulSoup

    path = course.root / "feedback" / student / ASSIGNMENT / f"{LAB}.html"
    return BeautifulSoup(path.read_text(), "html.parser")


def rows_of(page):
    return [
        [" ".join(cell.get_text(" ").split()) for cell in row.select("th, td")] for row in page.select("#points tr")
    ]


def test_feedback_says_what_each_exercise_is_worth_and_what_to_look_at(course, run):
    page = page_of(course, "wrong")
    assert page.title.get_text() == "A small lab: feedback"
    assert rows_of(page) == [
        ["exercise", "points", "what to look at"],
        ["The exercise total", "0 of 2", "one and two are three"],
        ["The exercise scale: scale", "3 of 3", ""],
        ["The exercise scale: why", "0 of 4", "No response."],
    ]
    assert "3 of 9 points" in page.select_one("#overview").get_text(" ")
    for link in page.select("#points a"):
        assert page.select_one(link["href"].replace("#", "#", 1)) is not None
    answer = page.select_one("#total")
    assert "def total" in answer.get_text()
    assert "one and two are three" in answer.select_one(".comment").get_text()
    assert [check["id"] for check in page.select("details.check[open]")] == ["total-check"]


def test_feedback_needs_no_network_and_runs_no_scripts(course, run):
    for student in ("right", "evil", "broken"):
        page = page_of(course, student)
        assert not page.select("script, link, iframe")
        assert all(picture["src"].startswith("data:") for picture in page.select("img"))


def test_feedback_tells_what_being_late_has_cost_and_what_waits(course, run):
    late = page_of(course, "late").select_one("#overview").get_text(" ")
    assert "3.5 of 9 points" in late
    assert "1.5 of 5 were taken off because it was handed in late" in late
    right = page_of(course, "right").select_one("#overview").get_text(" ")
    assert "5 of 5 points" in right
    assert "A person has yet to look at answers worth 4 more" in right


def test_feedback_on_a_file_that_is_none_has_the_lab_s_own_text(course, run):
    page = page_of(course, "broken")
    assert "Nothing could be graded" in page.select_one("#overview").get_text(" ")
    assert page.select_one(".failure").get_text()
    assert "The exercise scale" in page.select_one("#notebook").get_text()
    assert "No response" not in page.get_text()


def test_nbgraders_own_commands_go_on(course, run):
    course.nbgrader("db", "student", "list")
    course.nbgrader("export", "--to", "grades.csv")
    with (course.root / "grades.csv").open() as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert float(rows["wrong"]["raw_score"]) == 3
    assert float(rows["late"]["late_submission_penalty"]) == 1.5


def test_what_a_person_gave_stays_and_is_flagged(course, run):
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        for name, points in (("why", 2.5), ("total-check", 1.0)):
            grade = gradebook.find_grade(name, LAB, ASSIGNMENT, "wrong")
            grade.manual_score, grade.needs_manual_grade = points, False
        gradebook.find_comment("total", LAB, ASSIGNMENT, "wrong").manual_comment = "Nearly."
        gradebook.db.commit()
    grade_assignment(open_course(course.root), ASSIGNMENT, Options(again=True, students=("wrong",)))
    told = course.grades()["wrong"]
    assert told["grades"]["why"] == (0, 2.5, True)
    assert told["grades"]["total-check"] == (0, 1.0, True)
    assert told["comments"]["total"][1] == "Nearly."
    assert told["score"] == 3 + 2.5 + 1


def test_feedback_follows_points_given_by_hand_and_nothing_runs_again(course, run):
    from nbgrader.api import Gradebook

    page = course.root / "feedback" / "right" / ASSIGNMENT / f"{LAB}.html"
    before = page.read_text()
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        gradebook.find_grade("why", LAB, ASSIGNMENT, "right").manual_score = 3.25
        gradebook.find_comment("why", LAB, ASSIGNMENT, "right").manual_comment = "Well said."
        gradebook.db.commit()
    again = grade_assignment(open_course(course.root), ASSIGNMENT, Options(refresh=True))
    assert all(result.done_before for result in again.results)
    assert ("Well said." in before, "Well said." in page.read_text()) == (False, True)
    assert "8.25" in page.read_text()
    right = next(result for result in again.results if result.student == "right")
    assert (right.score, right.points, right.waiting) == (8.25, 9, 0), "nothing waits that a person has looked at"


def test_a_plugin_for_penalties_that_fails_is_said(course, run, monkeypatch):
    from rooflab.grading import grade, gradebook

    def fails(*of):
        raise gradebook.PenaltyError("the plugin for late submissions failed (NameError: x): mend it, and grade again")

    monkeypatch.setattr(grade, "penalize", fails)
    with pytest.raises(ValueError, match=r"Nobody's results can be completed: the plugin for late .*: mend it"):
        grade_assignment(open_course(course.root), ASSIGNMENT, Options(refresh=True))
    assert course.grades()["right"]["grades"]["why"] == (None, 3.25, True)


def test_nothing_goes_over_the_network(small):
    """Graded where there is no network but a loopback device, which is up and counts."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("needs unshare and ip, of util-linux and iproute2")
    small.submit("ada")
    told = small.command("grade", ASSIGNMENT, "--jobs", "1")
    script = 'ip link set lo up && "$@" && echo && cat /proc/self/net/dev'
    alone = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c", script, "sh"]
    told["args"] = [*alone, *told["args"]]
    done = subprocess.run(**told, capture_output=True, text=True, timeout=300, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip(f"no network of its own can be made here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert "5 of 5" in done.stdout
    devices = [line.split(":") for line in done.stdout.splitlines() if re.match(r"\s*\w+:\s+\d", line)]
    assert [name.strip() for name, _ in devices] == ["lo"]
    assert set(devices[0][1].split()) == {"0"}, "bytes and packets"


def test_a_rerun_does_nothing_and_a_change_only_what_changed(course, run):
    before = course.grades()
    again = grade_assignment(open_course(course.root), ASSIGNMENT, Options())
    assert all(result.done_before for result in again.results)
    assert again.level == run.level
    assert course.grades() == before
    path = course.root / "submitted" / "blank" / ASSIGNMENT / f"{LAB}.ipynb"
    path.write_text((course.root / "submitted" / "right" / ASSIGNMENT / f"{LAB}.ipynb").read_text())
    third = grade_assignment(open_course(course.root), ASSIGNMENT, Options())
    assert [result.student for result in third.fresh] == ["blank"]
    assert course.grades()["blank"]["score"] == 5


def test_a_stranger_and_an_unknown_assignment_are_told(course, run):
    opened = open_course(course.root)
    with pytest.raises(ValueError, match="nobody_known has handed in nothing for week1; those who have: "):
        grade_assignment(opened, ASSIGNMENT, Options(students=("nobody_known",)))
    with pytest.raises(ValueError, match=r"knows no assignment 'week9' \(it knows: week1\)"):
        grade_assignment(opened, "week9", Options())


def test_feedback_shows_no_line_of_a_module_that_only_the_instructor_has(tmp_path):
    notebook = source_notebook()
    (check,) = (cell for cell in notebook["cells"] if "total-check" in str(cell["metadata"]))
    check["source"] = "import teacher_4711\n\nteacher_4711.compare(total)\n"  # nothing hidden: its outputs are shown
    course = SmallClass(tmp_path / "class", notebook=notebook)
    (tmp_path / "teacher_4711.py").write_text("def compare(f):\n    assert f([2, 3]) == 5  # right-4711\n")
    course.submit("ada", total="def total(values):\n    return values[9]\n")
    course.grade(PYTHONPATH=f"{SHARED}{os.pathsep}{tmp_path}")
    page = (course.root / "feedback" / "ada" / ASSIGNMENT / f"{LAB}.html").read_text(encoding="utf-8")
    assert "IndexError" in page
    assert "right-4711" not in page
    assert str(tmp_path) not in page


@pytest.mark.parametrize("name", ["C++ (2026) [a]", "ASSIGNMENT", "x"])
def test_a_course_may_lie_in_a_folder_of_any_name(released, tmp_path, name):
    lies = SmallClass(tmp_path / name, released)
    lies.submit("ada")
    assert "ada     | 5 of 5" in lies.grade("--no-feedback")


def test_a_machine_that_holds_no_student_code_stops_the_class_with_a_sentence(course, run, monkeypatch):
    from rooflab.grading import grade
    from rooflab.grading.sandbox import SandboxUnavailable

    def nowhere(pool, function, tasks, ahead, wait):
        for key, _ in tasks:
            yield key, None, SandboxUnavailable("Student code cannot be held on this machine: install bubblewrap.")

    before = course.grades()
    monkeypatch.setattr(grade, "run_all", nowhere)
    with pytest.raises(ValueError, match=r"cannot be held on this machine: install bubblewrap\.$"):
        grade_assignment(open_course(course.root), ASSIGNMENT, Options(again=True))
    assert course.grades() == before


def test_the_exercises_of_a_class(run):
    labs = run.results[0].labs
    found = {exercise.name: exercise for exercise in exercises_of(labs, run.results)}
    assert set(found) == {"total", "scale", "why"}
    total = found["total"]
    assert total.title == "The exercise total"
    assert (total.points, total.full, len(total.scores)) == (2, 2, 5), "the broken file is not counted"
    assert total.reasons[0].students
    assert {student for reason in total.reasons for student in reason.students} == {"wrong", "evil", "blank"}
    assert sorted(found["why"].waiting) == ["evil", "right"]


def test_a_run_keeps_no_pictures_of_a_class(run):
    outcomes = [outcome for result in run.results for outcome in result.outcomes.values()]
    assert any(outcome.checks for outcome in outcomes)
    assert not any(outcome.outputs or check.outputs for outcome in outcomes for check in outcome.checks.values())


def test_the_class_report_takes_any_text(run, tmp_path):
    half = [
        replace(one, outcomes={name: replace(each, remarks=("half \ud800",)) for name, each in one.outcomes.items()})
        for one in run.results
    ]
    page = write_class_report(tmp_path / "class.html", replace(run, results=half)).read_text(encoding="utf-8")
    assert "half ?" in page


def test_the_class_report_needs_nothing_and_runs_nothing(run, tmp_path):
    from bs4 import BeautifulSoup

    page = write_class_report(tmp_path / "class.html", run).read_text(encoding="utf-8")
    soup = BeautifulSoup(page, "html.parser")
    assert not soup.select("script, link, iframe, img, object")
    assert not [tag for tag in soup(True) if any(name.startswith("on") for name in tag.attrs)]
    pictures = soup.select("svg")
    assert len(pictures) == 3
    assert all(picture["role"] == "img" and "students" in picture["aria-label"] for picture in pictures)
    assert "The exercise total: of 5 students 3 got no points, 2 got all points (of 2)." in page
    assert [tag.get_text() for tag in soup.select("#exercises code")] == ["total", "scale"], "the hardest first"
    text = soup.get_text(" ")
    assert "broken" in soup.select_one("#failures").get_text()
    assert EVIL not in page
    assert "<script>alert(1)" in text, "it is there as text"
    assert "bubblewrap" in text or "landlock" in text
    assert "1024 MiB" in text
    assert "evil" in soup.select_one("#waiting").get_text()
