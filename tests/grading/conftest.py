"""What tests of grading share: a small course, and an arena for the corpora."""

import shutil
import sys
from pathlib import Path

import pytest

from .smallclass import SmallClass

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # submissions of the corpora import from arena

# Submissions are read by the tests and are none themselves.
collect_ignore_glob = ["attacks/*", "honest/*"]


@pytest.fixture(scope="session")
def released(tmp_path_factory):
    """The small course as it is handed out."""
    return SmallClass(tmp_path_factory.mktemp("released"))


@pytest.fixture
def small(released, tmp_path):
    """A copy of the small course, to which a test hands in."""
    return SmallClass(tmp_path, released)


@pytest.fixture(scope="session")
def new_arena(tmp_path_factory):
    """Return a function that makes a course of its own, with nothing handed in."""
    import arena

    made = []

    def new(name):
        folder = tmp_path_factory.mktemp(name)
        if not made:
            made.append(arena.Arena(tmp_path_factory.mktemp("arena")))
        shutil.copytree(made[0].folder, folder, dirs_exist_ok=True)
        return arena.Arena(folder, new=False)

    return new
