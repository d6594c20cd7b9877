"""A small book and courses made out of it."""

import shutil
import sys
from pathlib import Path

import pytest

from rooflab.book import open_book
from rooflab.cli import main

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "labs")]


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A clone of a book with one lab, and the course made out of it; neither is to be changed."""
    import coursework

    root = tmp_path_factory.mktemp("book") / "clone"
    shutil.copytree(ROOT / "tests" / "fixtures" / "course", root)
    for name in ("pyproject.toml", "nbgrader_config.py"):
        shutil.copy(ROOT / name, root)
    for name in ("tools", "shared"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    coursework.build(root)
    return root


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
