"""The bar that moves while a notebook runs."""

import io

import pytest

from rooflab.progress import Progress


@pytest.mark.parametrize("total", [-1, 1.5, "3", None, True])
def test_a_number_of_steps_that_is_none(total):
    with pytest.raises(ValueError, match="expected the number of steps as a whole number of zero or more; found"):
        Progress("u1", total, stream=io.StringIO())


def test_nothing_to_do_is_done():
    out = io.StringIO()
    Progress("u1", 0, stream=out).close("done")
    assert out.getvalue().split() == ["u1", "done", "0:00"]
