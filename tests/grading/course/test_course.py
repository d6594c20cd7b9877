"""`rooflab course` makes a course, keeps it up to date, and leaves alone what students and graders wrote."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from coursework import ROOT, build, cells_of, dump, edit, give_grades

from rooflab.grading.lab import seed_in

SOURCE, RELEASE = "source/lab1_demo/lab1_demo.ipynb", "release/lab1_demo/lab1_demo.ipynb"
SCRIPT = "solutions/s9_demo/lab1_demo.py"
LAST_CHECK = '# %% hidden="normalize" points=2\nx = np.random.default_rng().random((7, 2))'
SECRET = "assert middle([4.0, 8.0, 9.0]) == 8.0  # only the grader knows"
PRIVATE = f'# A remark of mine.\n\n# %% seed=424242\n\n# %% hidden="middle" points=2\n{SECRET}\n'


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def state_of(out, name="lab1_demo"):
    return next(line for line in out.splitlines() if line.startswith(name))


def hand_in(folder, *students):
    for part in ("submitted", "autograded", "feedback"):
        for student in students:
            path = folder / part / student / "lab1_demo" / "lab1_demo.ipynb"
            path.parent.mkdir(parents=True)
            path.write_text(f"{part} of {student}", encoding="utf-8")


def test_a_course_holds_the_book_and_the_students_get_the_books_own_edition(made, built):
    assert (made / SOURCE).read_text(encoding="utf-8") == (built / "solutions/s9_demo/lab1_demo.ipynb").read_text(
        encoding="utf-8"
    )
    assert (made / RELEASE).read_bytes() == (built / "labs/s9_demo/lab1_demo.ipynb").read_bytes()
    assert sorted(path.name for path in made.iterdir()) == [
        "README.md", "course.json", "gradebook.db", "nbgrader_config.py", "release", "source",
    ]  # fmt: skip


def test_the_command_says_what_it_made_and_a_second_run_changes_nothing(clone, tmp_path, rooflab):
    folder = tmp_path / "perf"
    code, out, err = rooflab("course", folder, "--id", "perf101", "--due", "lab1_demo=2026-12-24 18:00 Europe/Berlin")
    assert (code, err) == (0, "")
    assert state_of(out).split() == ["lab1_demo", "14", "2026-12-24", "17:00", "UTC", "made;", "due", "date", "set"]
    assert "nbgrader release_assignment lab1_demo" in out
    assert folder.stat().st_mode & 0o077 == 0, "solutions and grades are open to others"
    before = tree(folder)
    code, out, err = rooflab("course", folder)
    assert (code, err) == (0, "")
    assert state_of(out).endswith("unchanged")
    assert tree(folder) == before


@pytest.mark.parametrize("given", ["2026-12-24T18:00", "2026-12-24 19:00 Europe/Berlin", "2026-12-24T13:00-05:00"])
def test_due_dates_are_those_that_nbgrader_understands(course, clone, rooflab, given):
    from nbgrader.utils import parse_utc

    code, out, _ = rooflab("course", course, "--due", f"lab1_demo={given}")
    assert code == 0
    assert "2026-12-24 18:00 UTC" in state_of(out)
    assert f"{parse_utc(given):%Y-%m-%d %H:%M} UTC" in state_of(out)
    assert "no due date" in state_of(rooflab("course", course, "--due", "lab1_demo=none")[1])


@pytest.mark.parametrize("given", ["lab1_demo=soon", "lab1_demo", "lab1_demo=2026-12-24 18:00 Mars/Olympus", "=2026"])
def test_what_is_no_due_date_is_refused_with_an_example(course, rooflab, given, capsys):
    with pytest.raises(SystemExit):
        rooflab("course", course, "--due", given)
    assert "2026-12-24T18:00" in capsys.readouterr().err


def test_a_new_version_of_a_lab_comes_in_and_nothing_of_the_students_changes(course, clone, rooflab):
    hand_in(course, "ada", "bob")
    edit(clone / SCRIPT, "Sort before you take the middle one.", "Sort first.")
    build(clone)
    before = tree(course)
    code, out, _ = rooflab("course", course)
    assert code == 0
    assert state_of(out).endswith("updated")
    assert "Sort first." in (course / RELEASE).read_text(encoding="utf-8")
    changed = {name for name, bytes_ in tree(course).items() if before.get(name) != bytes_}
    assert changed == {SOURCE, RELEASE, "gradebook.db", "course.json"}


def test_changed_points_reach_the_gradebook_of_an_ungraded_lab(course, clone, rooflab):
    edit(clone / SCRIPT, 'check="middle" points=2', 'check="middle" points=4')
    build(clone)
    code, out, _ = rooflab("course", course)
    assert code == 0
    assert "16" in state_of(out).split()


def test_a_graded_lab_takes_a_new_version_that_leaves_its_cells_and_points(course, clone, rooflab):
    give_grades(course, {"ada": 1.0, "bob": 0.5})
    hand_in(course, "ada")
    grades = [line for line in dump(course) if 'INTO "grade"' in line or "submitted_" in line]
    edit(clone / SCRIPT, "Sort before you take the middle one.", "Sort first.")
    build(clone)
    code, out, _ = rooflab("course", course, "--due", "lab1_demo=2027-01-07T12:00")
    assert code == 0
    assert state_of(out).endswith("updated; due date set")
    assert [line for line in dump(course) if 'INTO "grade"' in line or "submitted_" in line] == grades


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (LAST_CHECK, "x = np.ones((7, 2))", "lab1_demo/normalize-hidden-2 is gone"),
        ('check="middle" points=2', 'check="middle" points=4', "points of lab1_demo/middle-check-1 are 4, and were 2"),
        ('exercise="middle"', 'exercise="centre"', "is gone"),
    ],
)  # fmt: skip
def test_what_would_change_the_meaning_of_grades_is_refused_and_all_else_is_done(
    course, clone, rooflab, old, new, told
):
    give_grades(course, {"ada": 1.0})
    text = (clone / SCRIPT).read_text(encoding="utf-8")
    assert old in text
    changed = text.replace(old, new)
    if "centre" in new:
        changed = changed.replace('check="middle"', 'check="centre"').replace('hidden="middle"', 'hidden="centre"')
    (clone / SCRIPT).write_text(changed, encoding="utf-8")
    build(clone)
    before = tree(course)
    code, out, err = rooflab("course", course)
    assert code == 1
    assert told in err
    assert "make a new course folder" in err
    assert len(err.strip().splitlines()) == 1
    assert {name for name, bytes_ in tree(course).items() if before.get(name) != bytes_} <= {"course.json"}
    code, out, err = rooflab("course", course, "--due", "lab1_demo=2027-01-07T12:00")
    assert "2027-01-07 12:00 UTC" in state_of(out)
    assert [line for line in dump(course) if 'INTO "grade"' in line]


def test_a_file_that_was_edited_by_hand_stays(course, clone, rooflab):
    edit(course / SOURCE, "Sort before you take the middle one.", "My own hint.")
    edit(course / "README.md", "# The course", "# My course")
    with (course / "nbgrader_config.py").open("a", encoding="utf-8") as file:
        file.write("c.Execute.timeout = 5\n")
    before = tree(course)
    code, out, _ = rooflab("course", course)
    assert code == 0
    assert "edited by hand" in state_of(out)
    assert "edited by hand" in state_of(out, "README.md")
    assert tree(course) == before
    (course / SOURCE).unlink()
    assert state_of(rooflab("course", course)[1]).endswith("made")


def test_a_student_edition_that_was_lost_or_interrupted_is_made_again(course, clone, rooflab, monkeypatch):
    shutil.rmtree(course / "release")
    assert state_of(rooflab("course", course)[1]).endswith("student edition made again")
    edit(clone / SCRIPT, "Sort before you take the middle one.", "Sort first.")
    build(clone)
    with monkeypatch.context() as patch:
        patch.setattr("rooflab.grading.course.release", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert rooflab("course", course)[0] == 130
    assert "Sort first." not in (course / RELEASE).read_text(encoding="utf-8")
    assert state_of(rooflab("course", course)[1]).endswith("student edition made again")
    assert "Sort first." in (course / RELEASE).read_text(encoding="utf-8")


def test_a_new_lab_joins_a_course_of_the_whole_book_and_not_one_of_chosen_labs(course, clone, tmp_path, rooflab):
    chosen = tmp_path / "chosen"
    assert rooflab("course", chosen, "--lab", "s9_demo/lab1_demo")[0] == 0
    shutil.copy(clone / SCRIPT, clone / "solutions/s9_demo/lab2_more.py")
    edit(
        clone / "solutions/s9_demo/lab2_more.py",
        'check.session("s9_demo/lab1_demo")',
        'check.session("s9_demo/lab2_more")',
    )
    build(clone)
    assert state_of(rooflab("course", course)[1], "lab2_more").endswith("made")
    assert "lab2_more" not in rooflab("course", chosen)[1]
    assert state_of(rooflab("course", chosen, "--lab", "lab2_more")[1], "lab2_more").endswith("made")
    for path in ("solutions/s9_demo/lab2_more.py", "solutions/s9_demo/lab2_more.ipynb", "labs/s9_demo/lab2_more.ipynb"):
        (clone / path).unlink()
    assert "left: not in the book" in state_of(rooflab("course", course)[1], "lab2_more")


@pytest.mark.parametrize("suffix", [".py", ".ipynb"])
def test_private_checks_and_seeds_reach_the_source_and_never_the_students(clone, tmp_path, rooflab, suffix):
    own, folder = tmp_path / "own", tmp_path / "perf"
    own.mkdir()
    if suffix == ".py":
        (own / "lab1_demo.py").write_text(PRIVATE, encoding="utf-8")
    else:
        cell = {"cell_type": "code", "id": "a", "metadata": {"rooflab": {"hidden": "middle", "points": 2}}}
        cell |= {"source": SECRET, "outputs": [], "execution_count": None}
        notebook = {"cells": [cell], "metadata": {"rooflab": {"seed": 424242}}, "nbformat": 4, "nbformat_minor": 5}
        (own / "lab1_demo.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    code, out, _ = rooflab("course", folder, "--private", own)
    assert code == 0
    assert "16" in state_of(out).split()
    assert SECRET in cells_of(folder / SOURCE)["middle-hidden-101"]
    assert seed_in(folder / SOURCE) == "424242"
    assert seed_in(folder / RELEASE) == ""
    names = list(cells_of(folder / SOURCE))
    assert names.index("middle-hidden-101") == names.index("middle-hidden-1") + 1
    given = b"".join(path.read_bytes() for path in (folder / "release").rglob("*") if path.is_file())
    for secret in (
        b"only the grader knows",
        b"424242",
        b"8.0, 9.0",
        b"HIDDEN TESTS",
        b"A remark of mine",
        b'"rooflab": {',
    ):
        assert secret not in given
    assert cells_of(folder / RELEASE)["middle-hidden-101"] == cells_of(folder / RELEASE)["middle-hidden-1"]
    assert [path.name for path in (folder / "release").rglob("*") if path.is_file()] == ["lab1_demo.ipynb"]
    (own / f"lab1_demo{suffix}").unlink()
    assert "14" in state_of(rooflab("course", folder)[1]).split()


def test_the_folder_private_of_a_course_is_found_by_itself(course, clone, rooflab):
    (course / "private").mkdir()
    (course / "private" / "lab1_demo.py").write_text(PRIVATE, encoding="utf-8")
    assert "16" in state_of(rooflab("course", course)[1]).split()
    give_grades(course, {"ada": 1.0})
    (course / "private" / "lab1_demo.py").write_text(PRIVATE + PRIVATE.split("\n\n")[2], encoding="utf-8")
    code, _, err = rooflab("course", course)
    assert code == 1
    assert "lab1_demo/middle-hidden-102 is new" in err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('# %% hidden="middel" points=2\npass\n', "lab1_demo.py:1: 'middel' is no exercise of the lab"),
        ('# %% hidden="middle"\npass\n', "lab1_demo.py:1: a check has points above 0"),
        ('# %% hidden="middle" points=2\n', "lab1_demo.py:1: a check is plain code"),
        ('# %% hidden="middle" points=2\nif:\n', "lab1_demo.py:1: this is no valid Python"),
        ('# %% exercise="middle"\npass\n', "lab1_demo.py:1: expected '# %% hidden="),
        ("import os\n", "lab1_demo.py:1: text stands before the first"),
        ("# %%\nimport os\n", "lab1_demo.py:1: this code belongs to no check"),
        ("# %% seed=1\n# %% seed=2\n", "lab1_demo.py has 2 seeds"),
        ("# %% seed=-1\n", "lab1_demo.py:1: a seed is a whole number"),
    ],
)  # fmt: skip
def test_a_private_file_that_cannot_be_merged_is_named_with_its_line(course, clone, rooflab, text, told):
    (course / "private").mkdir()
    (course / "private" / "lab1_demo.py").write_text(text, encoding="utf-8")
    before = tree(course)
    code, _, err = rooflab("course", course)
    assert code == 1
    assert told in err
    assert len(err.strip().splitlines()) == 1
    assert tree(course) == before


def test_private_checks_are_kept_out_of_the_clone_and_bear_a_labs_name(course, clone, rooflab, tmp_path):
    (clone / "mine").mkdir()
    code, _, err = rooflab("course", course, "--private", clone / "mine")
    assert (code, "keep private checks elsewhere" in err) == (1, True)
    code, _, err = rooflab("course", course, "--private", tmp_path / "nowhere")
    assert (code, "There is no folder" in err) == (1, True)
    (course / "private").mkdir()
    (course / "private" / "lab7_other.py").write_text(PRIVATE, encoding="utf-8")
    code, _, err = rooflab("course", course)
    assert (code, "bears the name of no lab" in err) == (1, True)


def test_calls_that_cannot_be_meant_are_refused_in_one_sentence(course, clone, rooflab, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("mine")
    for words, code, told in (
        ([full], 1, "is not empty"),
        ([course, "--id", "other"], 1, "This course is called perf101"),
        ([course, "--lab", "u1_demo"], 2, "is no lab"),
        ([course, "--lab", "lab9"], 2, "lab9"),
        ([course, "--due", "lab9=2026-12-24"], 1, "There is no assignment lab9"),
        ([course, "--roster", "x.csv"], 1, "add --export"),
        ([course, "--export", "csv", "--lab", "lab1_demo"], 1, "An export changes nothing"),
        ([tmp_path / "new", "--id", "a/b"], 1, "is no id of a course"),
    ):
        seen, _, err = rooflab("course", *words)
        assert (seen, told in err) == (code, True), (words, err)
        assert len(err.strip().splitlines()) == 1
    assert [path.name for path in full.iterdir()] == ["thesis.tex"]


def test_without_the_book_one_sentence_says_so(tmp_path, rooflab, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rooflab.book.find_root", lambda *_: None)
    code, _, err = rooflab("course", tmp_path / "course")
    assert (code, "inside a clone" in err) == (2, True)


def test_a_damaged_course_says_so(course, clone, rooflab):
    (course / "course.json").write_text('{"id": 7}', encoding="utf-8")
    code, _, err = rooflab("course", course)
    assert (code, "bring it back from a copy" in err) == (1, True)


def test_nbgrader_works_in_a_course_away_from_the_clone(course, tmp_path):
    """nbgrader's own commands grade in the sandbox, with a package that is only importable."""
    import courses

    home = tmp_path / "home"
    home.mkdir()
    env = courses.environment(home)
    submitted = course / "submitted" / "ada" / "lab1_demo"
    submitted.mkdir(parents=True)
    shutil.copy(course / SOURCE, submitted)
    for step in ("autograde", "generate_feedback"):
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", step, "lab1_demo"], cwd=course, env=env, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    page = (course / "feedback" / "ada" / "lab1_demo" / "lab1_demo.html").read_text(encoding="utf-8")
    assert "np.random.default_rng()" not in page
    assert "lab1_demo" in page
    assert (course / ".rooflab" / "grading" / "lab1_demo" / "outcomes" / "ada").is_dir(), "rooflab grade has done it"
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", "autograde", "lab9"], cwd=course, env=env, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "knows no assignment 'lab9'" in done.stderr


def test_the_buttons_of_formgrader_grade_in_the_sandbox_too(course, tmp_path):
    import courses

    (tmp_path / "home").mkdir()
    for student in ("ada", "bob"):
        submitted = course / "submitted" / student / "lab1_demo"
        submitted.mkdir(parents=True)
        shutil.copy(course / SOURCE, submitted)
    code = (
        "from nbgrader.apps import NbGrader, NbGraderAPI; from nbgrader.coursedir import CourseDirectory\n"
        "app = NbGrader(); app.initialize([]); api = NbGraderAPI(CourseDirectory(parent=app), parent=app)\n"
        "for told in (api.autograde('lab1_demo', 'bob'), api.generate_feedback('lab1_demo', 'bob')):\n"
        "    assert told['success'], told\n"
        "    assert 'Sandbox' in told['log'], told\n"
        "told = api.autograde('lab1_demo', 'eve')\n"
        "assert not told['success'] and 'handed in nothing' in told['error'], told\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=course, env=courses.environment(tmp_path / "home"),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (course / "feedback" / "bob" / "lab1_demo" / "lab1_demo.html").is_file()
    assert not (course / "feedback" / "ada").exists()


def test_a_penalty_for_being_late_is_a_plugin_as_the_page_says(course, tmp_path, rooflab):
    import courses

    text = (ROOT / "docs" / "classroom.md").read_text(encoding="utf-8")
    [plugin] = [code for code in re.findall(r"```python\n(.*?)```", text, re.S) if "late_submission_penalty" in code]
    with (course / "nbgrader_config.py").open("a", encoding="utf-8") as file:
        file.write(plugin)
    assert rooflab("course", course, "--due", "lab1_demo=2026-12-24 19:00 Europe/Berlin")[0] == 0
    for student, moment in (("ada", "2026-12-24 17:59:00 UTC"), ("bob", "2026-12-25 18:30:00 UTC")):
        folder = course / "submitted" / student / "lab1_demo"
        folder.mkdir(parents=True)
        shutil.copy(course / SOURCE, folder)
        (folder / "timestamp.txt").write_text(moment)
    (tmp_path / "home").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", "autograde", "lab1_demo"], cwd=course,
        env=courses.environment(tmp_path / "home"), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert rooflab("course", course, "--export", "csv")[0] == 0
    rows = [line.split(",") for line in (course / "grades.csv").read_text().splitlines()]
    # Ten points by checks; the second day after the due date has begun.
    assert [(row[0], row[4], row[5]) for row in rows[1:]] == [("ada", "10", "0"), ("bob", "8", "2")]
    for due, penalty in (("2027-01-07T12:00", "0"), ("2026-12-24T18:00", "2")):
        code, out, _ = rooflab("course", course, "--due", f"lab1_demo={due}")
        assert code == 0
        assert "penalties changed: 1" in out, out
        assert rooflab("course", course, "--export", "csv")[0] == 0
        rows = [line.split(",") for line in (course / "grades.csv").read_text().splitlines()]
        assert [row[5] for row in rows[1:]] == ["0", penalty]


def test_a_course_without_rooflab_says_so_and_hands_out_nothing(course, tmp_path):
    """Else nbgrader would go on with its defaults, and leave model answers in the student edition."""
    shutil.rmtree(course / "release")
    code = (
        "import sys; sys.modules['rooflab'] = None\n"
        "from nbgrader.apps import NbGraderApp; NbGraderApp.launch_instance(['generate_assignment', 'lab1_demo'])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=course, env=os.environ | {"HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "This course needs rooflab" in done.stderr
    assert not (course / "release").exists()
