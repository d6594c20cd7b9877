"""The grader is killed again and again; in the end it is as if it had never been, and nothing was done twice."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from .processtree import all_gone, descendants
from .smallclass import SmallClass

pytestmark = [
    pytest.mark.xdist_group("grading-kill"),
    pytest.mark.skipif(sys.platform != "linux", reason="submissions are graded on Linux only"),
]

STUDENTS, KILLS, SEED = 48, 20, 4711
LATE = "2026-02-01 10:00:00 UTC"


def hand_in(small):
    for number in range(STUDENTS):
        answers = {
            0: {},
            1: {"total": "def total(values):\n    return 7\n"},
            2: {"scale": "def scale(x, k):\n    raise ValueError('no')\n"},
            3: {"why": "Because I say so."},
        }[number % 4]
        small.submit(f"s{number:02d}", LATE if number % 5 == 0 else None, **answers)


def moments(chance):
    """When to kill: some while it starts, the others when so many more submissions are done, and a little later."""
    made = [("start", chance.uniform(0.0, 2.5)) for _ in range(4)]
    made += [(chance.randint(0, 2), chance.uniform(0.0, 0.08)) for _ in range(KILLS - len(made))]
    chance.shuffle(made)
    return made


def kill_at(small, moment, log):
    """Run the grader in a group of its own, and kill the group at a moment; returns what it had started."""
    before, (when, delay_s) = len(small.finished()), moment
    told = small.command("grade", "week1", "--jobs", "2", "--seed", "one", SMALL_CLASS_LOG=str(log))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    grader = subprocess.Popen(**told, **quiet, start_new_session=True)
    begun = time.monotonic()

    def reached():
        done = len(small.finished()) - before
        # On a fast machine the start is over sooner; whole classes must not be done in its time.
        return done > 0 or time.monotonic() - begun > delay_s if when == "start" else done > when

    while not reached() and grader.poll() is None:
        assert time.monotonic() - begun < 200, "it does not go on"
        time.sleep(0.002)
    if when != "start":
        time.sleep(delay_s)
    seen = descendants(grader.pid)
    ended = grader.poll() is not None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(grader.pid, signal.SIGKILL)
    grader.wait()
    assert not ended, "it was to be killed, and had ended"
    return seen


def test_twenty_kills_leave_the_gradebook_of_an_undisturbed_run(released, tmp_path, capsys):
    quiet, killed = SmallClass(tmp_path / "quiet", released), SmallClass(tmp_path / "killed", released)
    hand_in(quiet)
    hand_in(killed)
    quiet.grade("--seed", "one", "--jobs", "2")
    log = tmp_path / "log"
    log.write_text("")
    seen, twice, stops = {}, {}, []
    for moment in moments(random.Random(SEED)):
        done, lines = killed.finished(), len(log.read_text().split())
        seen.update(kill_at(killed, moment, log))
        ran = log.read_text().split()[lines:]
        twice.update({student: moment for student in ran if student in done})
        stops.append(len(killed.finished()))
    assert all_gone(seen) == {}, "nothing outlives its grader"
    last = killed.finished()
    lines = len(log.read_text().split())
    killed.grade("--seed", "one", "--jobs", "2", SMALL_CLASS_LOG=str(log))
    twice.update({student: "last" for student in log.read_text().split()[lines:] if student in last})
    assert twice == {}, "what was finished was not run again"
    assert killed.grades() == quiet.grades()
    assert len(killed.grades()) == STUDENTS
    for student in (f"s{number:02d}" for number in range(STUDENTS)):
        for step, name in (("autograded", "small.ipynb"), ("feedback", "small.html")):
            texts = [(one.root / step / student / "week1" / name).read_text() for one in (quiet, killed)]
            assert texts[0] == texts[1], f"{step} of {student}"
    assert not list(killed.root.rglob("*.part"))
    with capsys.disabled():
        extra = len(log.read_text().split()) - STUDENTS
        print(f"\n{KILLS} kills, after {stops} of {STUDENTS} were done; {extra} submissions ran again, none finished")
