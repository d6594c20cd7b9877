"""What tests of grading share."""

import pytest

from .smallclass import SmallClass


@pytest.fixture(scope="session")
def released(tmp_path_factory):
    """The small course as it is handed out."""
    return SmallClass(tmp_path_factory.mktemp("released"))


@pytest.fixture
def small(released, tmp_path):
    """A copy of the small course, to which a test hands in."""
    return SmallClass(tmp_path, released)
