import dataclasses
import json
import subprocess
import sys

import pytest

from rooflab.book import open_book
from rooflab.classroom import (
    ExerciseScore,
    Grade,
    Grading,
    _environment,
    _lay_out,
    _nbgrader,
    _reason,
    _scores,
    grade_lab,
)


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


def copy_cell(path, grade_id, *, source=None):
    """Copy the cell of this mark below itself, as a student would."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = notebook["cells"]
    at = next(i for i, cell in enumerate(cells) if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)
    copied = json.loads(json.dumps(cells[at])) | {"id": "copied"}
    cells.insert(at + 1, copied | ({"source": source} if source else {}))
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return at + 1


def test_what_a_reader_has_written_takes_no_part(book_folder, lab):
    lab.path.write_text(lab.solution.read_text(encoding="utf-8"), encoding="utf-8")
    grading = grade_lab(book_folder, lab, progress=False)
    assert grading.ok
    assert grading.blank.score == 0


def test_a_copied_cell_is_named_before_anything_runs(book_folder, lab):
    path = lab.solution
    at = copy_cell(path, "middle")
    grading = grade_lab(book_folder, lab, progress=False)
    assert not grading.ok
    assert grading.error == (
        f"cells {at} and {at + 1} of {path} bear the same mark 'middle', as copied cells do: delete all but one of them"
    )
    assert grading.blank.exercises == grading.solved.exercises == ()


@pytest.mark.parametrize("text", [None, "c = (("])
def test_a_course_without_its_configuration_says_so(book_folder, lab, text):
    config = book_folder / "nbgrader_config.py"
    if text is None:
        config.unlink()
    else:
        config.write_text(text)
    with pytest.raises(ValueError, match=r"nbgrader_config\.py cannot be used .*: restore it, with git for example"):
        grade_lab(book_folder, lab, progress=False)


def test_what_nbgrader_cannot_grade_is_told_in_one_line(book_folder, lab):
    text = lab.solution.read_text()
    lab.solution.write_text(text.replace('"points": 2', '"point": 2'))
    grading = grade_lab(book_folder, lab, progress=False)
    assert not grading.ok
    assert grading.error.startswith("nbgrader failed: ")
    assert "\n" not in grading.error
    assert grading.blank.exercises == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1/0", "(ZeroDivisionError: division by zero)"),
        ("import sys\nsys.exit(3)", "(SystemExit: 3)"),
        ("import os\nos.exit()", "(AttributeError: module 'os' has no attribute 'exit')"),
        ("", "(it makes no course of solutions/ and labs/)"),
    ],
)
def test_a_configuration_that_does_not_run_says_so(book_folder, lab, text, told):
    (book_folder / "nbgrader_config.py").write_text(text)
    grading = grade_lab(book_folder, lab, progress=False)
    assert not grading.ok
    assert grading.error == (
        f"nbgrader failed: nbgrader_config.py cannot be used {told}: restore it, with git for example"
    )


def test_a_kernel_that_dies_is_told_with_its_cell_and_edition(book_folder, lab):
    text = lab.solution.read_text(encoding="utf-8")
    dies = text.replace("return float(np.median(times_s))", "__import__('os')._exit(1)")
    assert dies != text
    lab.solution.write_text(dies, encoding="utf-8")
    grading = grade_lab(book_folder, lab, progress=False)
    assert grading.error == (
        "nbgrader failed on the solved edition: the kernel died in cell 6 ('middle-check-1'): "
        "it was killed, as for lack of memory, or the cell ended it"
    )


VALIDATE = """
import json, logging, sys, types
from nbgrader.server_extensions.validate_assignment.handlers import ValidateAssignmentHandler as Handler
handler = types.SimpleNamespace(root_dir=".", log=logging.getLogger())
handler.load_config = lambda: Handler.load_config(handler)
for _ in range(2):  # the button is pressed twice in one server
    found = Handler.validate_notebook(handler, sys.argv[1])
print(json.dumps(found))
"""


def test_nbgrader_names_a_copied_cell_and_grades_the_class(book_folder, lab, tmp_path):
    course = tmp_path / "course"
    course.mkdir()
    _lay_out(course, book_folder, lab)
    submitted = course / "submitted" / "solved" / "s9_demo" / "lab1_demo.ipynb"
    copy_cell(submitted, "middle-check-1")
    # The copied answer is the untouched one; the last copy is the one that counts.
    untouched = json.loads(lab.path.read_text(encoding="utf-8"))["cells"]
    answer = next(c["source"] for c in untouched if c["metadata"].get("nbgrader", {}).get("grade_id") == "middle")
    copy_cell(submitted, "middle", source=answer)
    env = _environment(course)
    nbgrader = [sys.executable, "-m", "nbgrader"]

    told = subprocess.run([*nbgrader, "validate", submitted], cwd=course, env=env, capture_output=True, text=True)
    assert told.stdout.count("VALIDATION FAILED ON 2 CELL(S)!") == 1
    for name in ("middle", "middle-check-1"):
        assert f"The cell '{name}' is here 2 times: a copied cell keeps its mark.\n" in told.stdout
    assert "corrupted" not in told.stdout + told.stderr

    button = [sys.executable, "-c", VALIDATE, str(submitted.relative_to(course))]
    pressed = subprocess.run(button, cwd=course, env=env, capture_output=True, text=True)
    found = json.loads(pressed.stdout)
    assert found["success"], found["value"]
    assert [each["error"].partition(":")[0] for each in found["value"]["failed"]] == [
        "The cell 'middle' is here 2 times",
        "The cell 'middle-check-1' is here 2 times",
    ]

    assert _nbgrader(course, "s9_demo", None) == ""
    scores = {who: {e.name: e.score for e in _scores(course, lab, who)} for who in ("blank", "solved")}
    assert scores["blank"] == {"middle": 0, "normalize": 0, "why": 0}
    assert scores["solved"] == {"middle": 0, "normalize": 5, "why": 0}


@pytest.mark.parametrize(("blank", "solved", "ok"), [(0, 5, True), (1, 5, False), (0, 4, False), (0, 0, False)])
def test_only_nothing_and_everything_are_ok(blank, solved, ok):
    grades = [
        Grade("e", (ExerciseScore("a", "A", got, 5), ExerciseScore("w", "W", 0, 4, True))) for got in (blank, solved)
    ]
    assert Grading("lab", *grades, 1.0).ok is ok
    assert not Grading("lab", *grades, 1.0, error="no").ok


def test_a_student_without_solutions_cannot_grade(book_folder, lab):
    with pytest.raises(ValueError, match="s9_demo/lab1_demo lacks its instructor edition: build it with `make build`"):
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
        ("reason: told\nsqlite3.DataError: no", "told"),
        ("", "it said nothing"),
    ],
)  # fmt: skip
def test_the_reason_is_the_exception_or_the_first_error(log, reason):
    assert _reason(log) == reason
