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


@pytest.fixture
def terminal():
    """A terminal of 100 columns, and a function that returns the line that stands on it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))

    def last():
        told = b""
        while select.select([ours], [], [], 0.2)[0]:
            told += os.read(ours, 10_000)
        return told.decode(errors="ignore").split("\r")[-1].rstrip("\n")

    with open(theirs, "w", encoding="utf-8") as stream:
        yield stream, last
    os.close(ours)


def test_a_cell_that_takes_long_shows_its_seconds_and_the_bar_does_not_jump(terminal):
    now, (stream, last) = [0.0], terminal
    bar, shown = Progress("u2_roofline", 20, stream=stream, clock=lambda: now[0]), []
    for second, number in ((0, 18), (1, 18), (31, 18), (32, 19), (1031, 19)):
        now[0] = second
        bar.step(number)
        bar.tick()
        shown.append(last())
    bar.close("done")
    told = [" ".join(line.partition("|")[0].split()) for line in shown]
    assert told == [f"u2_roofline cell {number} of 20{taken}"
                    for number, taken in ((18, ""), (18, ""), (18, ", 31 s"), (19, ""), (19, ", 999 s"))]  # fmt: skip
    assert len({line.index("|") for line in shown}) == 1


def test_the_seconds_of_a_cell_move_without_a_terminal_too_and_of_many_at_once_there_are_none():
    now, out = [0.0], io.StringIO()
    bar = Progress("u2_roofline", 20, stream=out, every_s=5, clock=lambda: now[0])
    bar.step(18)
    for second in (6, 12):
        now[0] = second
        bar.tick()
    bar.reach(19)
    now[0] = 60
    bar.tick()
    told = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert told == ["u2_roofline cell 18 of 20 0:00", "u2_roofline cell 18 of 20, 6 s 0:06",
                    "u2_roofline cell 18 of 20, 12 s 0:12", "u2_roofline cell 19 of 20 1:00"]  # fmt: skip
