"""A small book and courses made out of it."""

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rooflab.book import open_book
from rooflab.cli import main

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "labs")]


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A clone of a book with one lab, and the course made out of it; neither is to be changed."""
    root = tmp_path_factory.mktemp("book") / "clone"
    shutil.copytree(ROOT / "tests" / "fixtures" / "course", root)
    for name in ("pyproject.toml", "nbgrader_config.py"):
        shutil.copy(ROOT / name, root)
    for name in ("tools", "shared"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    build(root)
    return root


def build(root):
    subprocess.run([sys.executable, root / "tools" / "build.py"], check=True, capture_output=True)


@pytest.fixture(scope="session")
def made(built, tmp_path_factory):
    """A fresh course; not to be changed."""
    folder = tmp_path_factory.mktemp("made") / "perf101"
    from rooflab.grading.course import Order, make_course

    make_course(folder, open_book(built), Order())
    return folder


@pytest.fixture
def clone(built, tmp_path, monkeypatch):
    """A copy of the book that a test may change, as the working folder."""
    root = tmp_path / "clone"
    shutil.copytree(built, root)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def course(made, tmp_path):
    """A copy of the fresh course that a test may change."""
    folder = tmp_path / "perf101"
    shutil.copytree(made, folder)
    return folder


@pytest.fixture
def rooflab(capsys):
    """Run the command line in this process: returns exit code, output, errors."""

    def run(*words):
        capsys.readouterr()
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def edit(path, old, new):
    """Replace a text that is there exactly once."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
    path.write_text(text.replace(old, new), encoding="utf-8")


def give_grades(folder, points, *, assignment="lab1_demo", late=0.0):
    """Enter graded submissions as an autograder would; ``points`` by student, for every graded cell alike."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
            for student, share in points.items():
                gradebook.update_or_create_student(student)
                submission = gradebook.add_submission(assignment, student)
                for notebook in submission.notebooks:
                    notebook.late_submission_penalty = late
                    for grade in notebook.grades:
                        grade.auto_score = share * grade.max_score
                        grade.needs_manual_grade = False
            gradebook.db.commit()


def dump(folder):
    """Everything that the gradebook says, as text."""
    with sqlite3.connect(folder / "gradebook.db") as database:
        lines = list(database.iterdump())
    database.close()
    return lines


def cells_of(path):
    """The sources of a notebook's cells by their mark."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return {
        cell["metadata"]["nbgrader"]["grade_id"]: "".join(cell["source"])
        for cell in notebook["cells"]
        if "nbgrader" in cell["metadata"]
    }
