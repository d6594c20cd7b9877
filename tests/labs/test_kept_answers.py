"""Every kept answer gets the points that it deserves, scored without a kernel (tools/variants.py)."""

import functools
from pathlib import Path

import courses
import pytest

import variants

SCRIPTS = {"demo": courses.labs_of(courses.FIXTURE), "book": courses.labs_of(courses.ROOT)}
FOLDERS = {"demo": courses.FIXTURE / "tests" / "labs", "book": courses.ROOT / "tests" / "labs"}
LABS = [(book, script) for book, scripts in SCRIPTS.items() for script in scripts]
BOOK = SCRIPTS["book"]


def answers_in(book, script):
    files = sorted((FOLDERS[book] / script.stem).glob("*.py"))
    return ["blank", "solved", *(path.stem for path in files)]


def kept(roots, book, script):
    return _kept(roots[book], script, FOLDERS[book] / script.stem)


@functools.cache
def _kept(root, script, folder):
    lab = variants.load(script, root)
    return lab, {variant.name: variant for variant in variants.variants_of(lab, folder)}


@pytest.mark.parametrize(
    ("book", "script", "name"),
    [(book, script, name) for book, script in LABS for name in answers_in(book, script)],
    ids=lambda value: value.stem if isinstance(value, Path) else value,
)
def test_an_answer_gets_what_it_deserves(book, script, name, roots, scores_of):
    _, variants_of_lab = kept(roots, book, script)
    scores = {grade: tuple(pair) for grade, pair in scores_of(book, script)[name].items()}
    assert variants.complaints(variants_of_lab[name], scores) == []


@pytest.mark.parametrize("script", BOOK, ids=lambda script: script.stem)
def test_a_lab_of_the_book_keeps_enough_answers(script, roots):
    lab, variants_of_lab = kept(roots, "book", script)
    wrong = [variant.target for variant in variants_of_lab.values() if variant.target]
    right = [v for v in variants_of_lab.values() if v.target is None and v.answers and v.name != "blank"]
    assert {exercise: wrong.count(exercise) for exercise in lab.exercises if wrong.count(exercise) < 5} == {}
    assert len(right) >= 2
    assert all(len(variant.answers) >= 2 for variant in right)
    strangers = {path.name for path in (FOLDERS["book"] / lab.name).iterdir()} - {f"{n}.py" for n in variants_of_lab}
    assert strangers - {"__pycache__"} == set()


@pytest.mark.parametrize("script", BOOK, ids=lambda script: script.stem)
def test_a_lab_of_the_book_has_its_measure(script, roots):
    lab, _ = kept(roots, "book", script)
    marks = [cell["metadata"].get("nbgrader", {}) for cell in lab.instructor]
    written = [mark for mark in marks if mark.get("grade") and mark.get("solution")]
    assert 4 <= len(lab.exercises) <= 8
    assert len(written) == 1
    assert 15 <= sum(mark.get("points", 0) for mark in marks) <= 30


def test_labs_have_names_of_their_own():
    assert len({script.stem for script in BOOK}) == len(BOOK)
    folders = {path.name for path in FOLDERS["book"].iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {script.stem for script in BOOK}
