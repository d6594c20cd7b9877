"""A slot: what its examiner learns, what it leaves behind, and how it is abandoned."""

import os
import sys
import threading

import pytest

from rooflab.grading.lab import LabCell, LabNotebook
from rooflab.grading.plainnotebook import Cell
from rooflab.grading.processors import shares
from rooflab.grading.rebuild import rebuild
from rooflab.grading.sandbox import Limits
from rooflab.grading.slot import Slot

from ..package.processes import wait_for
from .processtree import all_gone, descendants

pytestmark = [
    pytest.mark.xdist_group("grading"),
    pytest.mark.skipif(sys.platform != "linux", reason="submissions are graded on Linux only"),
]

# Gives a point when the module was there before; the import is hidden from who reads the lab's imports.
CHECK = """import sys

known = "colorsys" in sys.modules and "wave" in sys.modules
__import__("colorsys"), __import__("wave")
assert f() == 1
float(known)"""


def lab(check):
    return LabNotebook("lab", (
        LabCell("solution", "", "", "f", binds=("f",)),
        LabCell("check", check, check, "f-1", 1.0),
    ))  # fmt: skip


def plan(told, source="def f():\n    return 1"):
    return rebuild(told, [Cell("code", source, grade_id="f")])


def test_what_a_check_had_to_load_is_loaded_before_the_next_submission(tmp_path):
    told = lab(CHECK)
    with Slot(told, Limits(), private=tmp_path) as slot:
        scores = [slot.examine(plan(told), "secret").score for _ in range(3)]
    assert scores == [0.0, 1.0, 1.0]


def test_nothing_is_left_when_it_is_closed(tmp_path):
    told = lab("assert f() == 1")
    before = descendants(os.getpid())
    with Slot(told, Limits(), private=tmp_path) as slot:
        assert slot.examine(plan(told), "secret").score == 1
        seen = {pid: begun for pid, begun in descendants(os.getpid()).items() if pid not in before}
        assert len(seen) >= 3
    assert all_gone(seen) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_slot_that_is_abandoned_returns_at_once_and_says_that_the_grader_failed(tmp_path):
    told = lab("assert f() == 1")
    # A limit that it cannot have waited for, however slow the machine.
    with Slot(told, Limits(call_s=600.0, total_s=1200.0), private=tmp_path) as slot:
        assert slot.examine(plan(told), "secret").score == 1
        found, before = [], descendants(os.getpid())
        hanging = plan(told, "def f():\n    while True:\n        pass")
        thread = threading.Thread(target=lambda: found.append(slot.examine(hanging, "secret")))
        thread.start()
        wait_for(lambda: descendants(os.getpid()).keys() - before.keys())  # the examiner's fork: it is at work
        slot.abandon()
        wait_for(lambda: found, 120)
        thread.join()
        assert found[0].lost
        assert slot.examine(plan(told), "secret").score == 1, "the slot works again"


def test_a_figure_is_a_picture_also_where_matplotlib_was_loaded_before(tmp_path):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    setup = "import matplotlib.pyplot as plt"
    told = LabNotebook("lab", (LabCell("setup", setup, setup), *lab("assert f() == 1").cells))
    answer = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\ndef f():\n    return 1"
    with Slot(told, Limits(), private=tmp_path) as slot:
        outcome = slot.examine(rebuild(told, [Cell("code", answer, grade_id="f")]), "secret")
    shown = [kind for outputs in outcome.outputs.values() for one in outputs for kind in one.get("data", {})]
    assert "image/png" in shown


def test_a_check_may_run_a_program(tmp_path):
    told = lab("!echo seen\nassert f() == 1")
    with Slot(told, Limits(), private=tmp_path) as slot:
        outcome = slot.examine(plan(told), "secret")
    assert outcome.score == 1, outcome.checks


def test_a_submission_keeps_to_its_share_of_the_processors(tmp_path):
    # Which of them is free depends on who else grades on this machine now.
    either = [list(share) for share in shares(2, os.sched_getaffinity(0))]
    told = lab(f"assert f() in {either}")
    source = (
        "import os\ndef f():\n    os.sched_setaffinity(0, range(os.cpu_count()))\n"
        "    return sorted(os.sched_getaffinity(0))"
    )
    with Slot(told, Limits(), private=tmp_path, jobs=2) as slot:
        assert slot.examine(plan(told, source), "secret").score == 1


HELD = """import time
from rooflab import speed

session = speed._Grader.open.__self__.session


def counted(still):
    begun = f()
    session.hold(still)
    time.sleep(3)  # beside which the questions themselves, in which it may run, take no time
    return f() - begun


assert 3 * counted(True) < counted(False)"""


def test_nothing_of_a_student_s_runs_while_the_ceiling_is_measured(tmp_path):
    told = lab(HELD)
    source = (
        "import threading, time\ncount = 0\ndef run():\n    global count\n    while True:\n        count += 1\n"
        "        time.sleep(0.001)\nthreading.Thread(target=run, daemon=True).start()\ndef f():\n    return count"
    )
    with Slot(told, Limits(), private=tmp_path) as slot:
        outcome = slot.examine(plan(told, source), "secret")
    assert outcome.score == 1, outcome.checks
