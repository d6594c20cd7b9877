"""What the tests of grading share."""

import pytest

from .boxes import WAYS, open_box


@pytest.fixture(scope="session", params=WAYS)
def sandbox(request):
    """An open sandbox, once for each way of holding guests."""
    with open_box(request.param) as opened:
        opened.way = request.param
        yield opened
