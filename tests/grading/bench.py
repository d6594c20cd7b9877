"""How much faster is `rooflab grade` than `nbgrader autograde`, how much memory does it take, and is its cost linear?

    python tests/grading/bench.py                     the rates: 100 submissions, against 10 by nbgrader, twice, in turn
    python tests/grading/bench.py --memory            memory of a running submission
    python tests/grading/bench.py --linear 50 200 1000

On a quiet machine; each command is timed as a whole, with its start. See torchlab.py for the lab.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [entry for entry in (str(ROOT), str(ROOT / "shared")) if entry not in sys.path]

from tests.grading import torchlab  # noqa: E402
from tests.grading.processtree import command, descendants  # noqa: E402
from tests.grading.smallclass import ASSIGNMENT, SmallClass  # noqa: E402

SEED = 7


class Bench:
    """Courses with the torch lab in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.template = SmallClass(folder / "released", notebook=torchlab.notebook(), solutions=torchlab.SOLUTIONS)

    def course(self, name, students):
        """A fresh course with so many submissions; the same number makes the same ones."""
        made = SmallClass(self.folder / name, self.template, solutions=torchlab.SOLUTIONS)
        chance = random.Random(SEED)
        for number in range(students):
            made.submit(f"s{number:04d}", **torchlab.answers(chance))
        return made

    def ours(self, name, students, jobs):
        """Seconds that `rooflab grade` takes, and the course."""
        course = self.course(name, students)
        begun = time.perf_counter()
        course.grade("--jobs", str(jobs))
        return time.perf_counter() - begun, course

    def theirs(self, name, students):
        """Seconds that `nbgrader autograde` takes, then those of `generate_feedback`, and the course."""
        course = self.course(name, students)
        begun = time.perf_counter()
        course.nbgrader("autograde", ASSIGNMENT)
        graded = time.perf_counter()
        course.nbgrader("generate_feedback", ASSIGNMENT)
        return graded - begun, time.perf_counter() - graded, course


def rates(bench, ours, theirs, rounds, jobs):
    """Print and return the ratio of the rates."""
    per = {"rooflab": [], "nbgrader": [], "pages": []}
    for number in range(rounds):
        seconds, pages, course = bench.theirs(f"nbgrader{number}", theirs)
        per["nbgrader"].append(seconds / theirs)
        per["pages"].append(pages / theirs)
        their_scores = {student: told["score"] for student, told in course.grades().items()}
        seconds, course = bench.ours(f"rooflab{number}", ours, jobs)
        per["rooflab"].append(seconds / ours)
        our_scores = {student: told["score"] for student, told in course.grades().items()}
        differing = {s: (our_scores[s], score) for s, score in their_scores.items() if our_scores[s] != score}
        print(f"round {number + 1}, a submission: nbgrader autograde {per['nbgrader'][-1]:.3f} s and feedback "
              f"{per['pages'][-1]:.3f} s, rooflab both {per['rooflab'][-1]:.3f} s; scores that differ: "
              f"{differing or 'none'}", flush=True)  # fmt: skip
    ratio = statistics.mean(per["nbgrader"]) / statistics.mean(per["rooflab"])
    print(
        f"rooflab grades and writes feedback {ratio:.1f} times as fast as nbgrader autograde alone ({jobs} at a time)"
    )
    return ratio


def pss_bytes(pid):
    """Proportional set size of a process; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def parent(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def of_submission(pid):
    """Whether a process exists for one submission: a fork of the examiner, or below a fork of the sandbox's server."""
    above = parent(pid)
    both = command(pid), command(above)
    return all("rooflab.grading.examiner" in text for text in both) or "sandbox.server" in both[1]


def memory(bench, students, jobs):
    """Print and return the most bytes of a running submission, and of the whole grader."""
    course = bench.course("memory", students)
    told = course.command("grade", ASSIGNMENT, "--jobs", str(jobs))
    grader = subprocess.Popen(**told, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most, whole = 0, 0
    while grader.poll() is None:
        sizes = {pid: pss_bytes(pid) for pid in descendants(grader.pid)}
        running = sum(size for pid, size in sizes.items() if of_submission(pid))
        most, whole = max(most, running), max(whole, sum(sizes.values()))
        time.sleep(0.02)
    assert grader.returncode == 0
    print(f"a running submission takes {most / jobs / 1e6:.0f} MB (examiner's fork, guest, its keeper),")
    print(f"the whole grader {whole / 1e6:.0f} MB, with {jobs} at a time")
    return most / jobs, whole


def linear(bench, sizes, jobs):
    """Print and return the seconds of a submission in classes of these sizes."""
    found = {}
    for students in sizes:
        seconds, _ = bench.ours(f"linear{students}", students, jobs)
        found[students] = seconds / students
        print(f"{students:5d} submissions: {seconds:.1f} s, {seconds / students:.4f} s each", flush=True)
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", type=int, default=100, metavar="N", help="submissions for rooflab in each round")
    parser.add_argument("--theirs", type=int, default=10, metavar="N", help="submissions for nbgrader in each round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--memory", action="store_true", help="only the memory")
    parser.add_argument("--linear", type=int, nargs="+", metavar="N", help="only classes of these sizes")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        if given.memory:
            memory(bench, given.ours, given.jobs)
        elif given.linear:
            linear(bench, given.linear, given.jobs)
        else:
            rates(bench, given.ours, given.theirs, given.rounds, given.jobs)


if __name__ == "__main__":
    main()
