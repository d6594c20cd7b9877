"""The bar that moves while a notebook runs."""

import fcntl
import io
import os
import pty
import select
import struct
import termios

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


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 160])
def test_a_bar_is_whole_or_not_there(columns):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with open(theirs, "w", encoding="utf-8") as terminal:
        bar = Progress("loss 2.100, 0:03 left, 563,000 tokens/s, MFU 41%", 100, unit="step", stream=terminal)
        bar.reach(50)
        told = b""
        while select.select([ours], [], [], 1)[0]:
            told += os.read(ours, 10_000)
        shown = told.decode(errors="ignore").split("\r")[-1].rstrip("\n")
        bar.close("done")
    os.close(ours)
    assert len(shown) <= columns
    drawn = shown.partition("|")[2].rpartition("|")[0]
    assert (len(drawn) >= 4) == (columns >= 80)
    assert drawn.count("█") == len(drawn) // 2
