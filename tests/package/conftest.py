"""What the tests of the package share: notebooks, a small clone of a book, and a Rooflab folder of their own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rooflab import logbook, prediction, records, state

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def notebook(tmp_path):
    """Return a function that writes a notebook; a source that begins with "# " is a markdown cell."""
    import nbformat
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    def write(name, *sources):
        cells = [(new_markdown_cell if source.startswith("# ") else new_code_cell)(source) for source in sources]
        path = tmp_path / f"{name}.ipynb"
        nbformat.write(new_notebook(cells=cells), path)
        return path

    return write


@pytest.fixture(scope="session")
def built_book(tmp_path_factory):
    """A book with one unit and one lab, its notebooks built; not to be changed."""
    root = tmp_path_factory.mktemp("book")
    shutil.copytree(ROOT / "tests" / "fixtures" / "course", root, dirs_exist_ok=True)
    for name in ("pyproject.toml", "nbgrader_config.py"):
        shutil.copy(ROOT / name, root)
    for name in ("tools", "shared"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "records").mkdir()
    subprocess.run([sys.executable, root / "tools" / "build.py"], check=True, capture_output=True)
    return root


@pytest.fixture
def book_folder(built_book, tmp_path, monkeypatch):
    """A copy of the small book that a test may change, as the working folder."""
    root = tmp_path / "clone"
    shutil.copytree(built_book, root)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Rooflab folder that exists, a fresh process's memory, and no unit begun."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("ROOFLAB_HOME", str(folder))
    monkeypatch.delenv("ROOFLAB_LOGBOOK", raising=False)
    forget(monkeypatch)
    monkeypatch.setattr(logbook, "_unit", "s1_measurement/u1_step_cost")
    monkeypatch.setattr(logbook, "_run", {})
    monkeypatch.setattr(prediction, "_asked", {})
    records._load.cache_clear()
    return folder


@pytest.fixture
def unwritable(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Rooflab folder that nobody can make, not even root: a file stands in its way."""
    (home / "file").write_text("in the way")
    monkeypatch.setenv("ROOFLAB_HOME", str(home / "file" / "rooflab"))
    return home / "file" / "rooflab"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a restart of the process forgets."""
    monkeypatch.setattr(state, "_values", {})
    monkeypatch.setattr(state, "_lines", {})
    monkeypatch.setattr(state, "_told", False)


@pytest.fixture
def restart(monkeypatch: pytest.MonkeyPatch):
    """A function that forgets everything in memory, as a new kernel would."""

    def again() -> None:
        forget(monkeypatch)
        monkeypatch.setattr(prediction, "_asked", {})

    return again
