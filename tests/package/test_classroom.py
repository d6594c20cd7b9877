import dataclasses

import pytest

from rooflab.book import open_book
from rooflab.classroom import ExerciseScore, Grade, Grading, _reason, grade_lab


@pytest.fixture
def lab(book_folder):
    return open_book().labs[0]


def test_untouched_gets_nothing_and_solved_gets_all_that_checks_can_give(book_folder, lab, capsys):
    before = {path: path.read_bytes() for path in book_folder.rglob("*.ipynb")}
    grading = grade_lab(book_folder, lab)
    assert grading.ok
    assert [(e.name, e.score, e.points, e.written) for e in grading.solved.exercises] == [
        ("middle", 5, 5, False),
        ("normalize", 5, 5, False),
        ("why", 0, 4, True),
    ]
    assert (grading.blank.score, grading.blank.points, grading.blank.by_hand) == (0, 10, 4)
    assert {path: path.read_bytes() for path in book_folder.rglob("*.ipynb")} == before
    assert not (book_folder / "gradebook.db").exists()
    assert "graded" in capsys.readouterr().err


def test_what_nbgrader_cannot_grade_is_told_in_one_line(book_folder, lab):
    text = lab.solution.read_text()
    lab.solution.write_text(text.replace('"grade_id": "normalize"', '"grade_id": "middle"'))  # twice the same
    grading = grade_lab(book_folder, lab, progress=False)
    assert not grading.ok
    assert grading.error.startswith("nbgrader failed: ")
    assert "metadata may be corrupted" in grading.error
    assert "\n" not in grading.error
    assert grading.blank.exercises == ()


@pytest.mark.parametrize(("blank", "solved", "ok"), [(0, 5, True), (1, 5, False), (0, 4, False), (0, 0, False)])
def test_only_nothing_and_everything_are_ok(blank, solved, ok):
    grades = [
        Grade("e", (ExerciseScore("a", "A", got, 5), ExerciseScore("w", "W", 0, 4, True))) for got in (blank, solved)
    ]
    assert Grading("lab", *grades, 1.0).ok is ok
    assert not Grading("lab", *grades, 1.0, error="no").ok


def test_a_student_without_solutions_cannot_grade(book_folder, lab):
    with pytest.raises(ValueError, match="s9_demo/lab1_demo lacks an edition: build both with `make build`"):
        grade_lab(book_folder, dataclasses.replace(lab, solution=None))


def test_a_lab_without_points_is_not_ok():
    nothing = (ExerciseScore("why", "Why", 0, 4, written=True),)
    assert not Grading("l", Grade("blank", nothing), Grade("solved", nothing), 1.0).ok


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("[INFO] a\nTraceback\n  File x\nsqlite3.DataError: no\n[ERROR] Please see the log", "sqlite3.DataError: no"),
        ("[X | ERROR] no assignment\n[X | INFO] bye", "[X | ERROR] no assignment"),
        ("last words", "last words"),
        ("", "it said nothing"),
    ],
)  # fmt: skip
def test_the_reason_is_the_exception_or_the_first_error(log, reason):
    assert _reason(log) == reason
