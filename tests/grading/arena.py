"""A small nbgrader course, made by nbgrader itself, and submissions to it.

The lab "arena" has seven exercises of different kinds (an array, edge cases, a callback, plain data, a class,
random values, partial credit) and one answer in words. A submission is a file that says what is handed in:

    ANSWERS = {name: source}     what stands in the cells of these answers; the others are as SOLVED or as released
    SOLVED = True                the others are right (as in honest/), or as they were released (as in attacks/)
    def hand_in(notebook)        change the notebook; return it, or bytes, or {file name: bytes, or what makes the file}
    WORTH = 3                    in attacks/: the points of the answers that are honestly right in it
    TELLS = "took longer"        in attacks/: what the comments say of it, a pattern; "" where nothing is wrong

In sources, `@COURSE@` is the course's folder, `@OUTSIDE@` one beside it, `@MARK@` a name by which what is left behind
is found, `@SPEAK@` code that speaks the grader's protocol, and `@WIN@` right answers, for who has read a secret.
"""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared"
ASSIGNMENT, LAB = "week1", "arena"
SECRET = "hidden-6f1d"  # stands in every hidden check

CONFIG = """
c = get_config()
c.CourseDirectory.course_id = "arena"
c.Execute.timeout = 60
"""

SETUP = """import numpy as np
from rooflab import check

check.session("arena/lab")"""

GIVEN = """TIMES_S = [3.0, 1.0, 2.0, 50.0]


def clip(value, low, high):
    return max(low, min(high, value))"""

DEMO = """print("the times are", TIMES_S)"""

# name: (released head, solution, [checks: (points, visible part, hidden part)])
EXERCISES = {
    "primes": (
        "# The primes below 30, as a list, and how many they are.\nPRIMES = []\nCOUNT = 0\n",
        "import numpy as np\n\n"
        "PRIMES = [n for n in range(2, 30) if all(n % d for d in range(2, n))]\nCOUNT = len(PRIMES)",
        [
            (1, 'check.equal(PRIMES[:3], [2, 3, 5], what="the first three")', ""),
            (
                1,
                "",
                "import plistlib  # which nothing else loads\n\n"
                "assert sorted(PRIMES) == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\nassert COUNT == 10",
            ),
        ],
    ),
    "normalize": (
        'def normalize(x):\n    """Divide each row of ``x`` by its sum."""\n',
        "    import numpy\n\n    return x / numpy.sum(x, axis=-1, keepdims=True)",
        [
            (
                1,
                'with check.exercise("normalize"):\n'
                "    ones = np.ones((2, 4), dtype=np.float32)\n"
                '    check.close(normalize(ones), np.full((2, 4), 0.25), dtype="fp32", what="rows of ones")',
                "",
            ),
            (
                2,
                "",
                "x = np.random.default_rng(5).random((3, 5))\n"
                "want = x / x.sum(axis=1, keepdims=True)\n"
                'np.testing.assert_allclose(normalize(x), want, rtol=1e-6, err_msg="each row has its own sum")\n'
                "x[0] = 1\n"
                "np.testing.assert_allclose(normalize(x)[0], np.full(5, 0.2), rtol=1e-6)",
            ),
        ],
    ),
    "middle": (
        'def middle(times_s):\n    """Return the median; raise ValueError where there is no time."""\n',
        "    if not times_s:\n"
        '        raise ValueError("no times")\n'
        "    ordered = sorted(times_s)\n"
        "    half = len(ordered) // 2\n"
        "    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2",
        [
            (1, "assert middle([3.0, 1.0, 2.0]) == 2.0\nassert middle(TIMES_S) == 2.5", ""),
            (
                2,
                "",
                'check.raises(ValueError, lambda: middle([]), what="no times")\n'
                "assert all(map(lambda value: middle([value]) == value, [7.0, 8.0]))\n"
                "assert middle([1.0, 2.0, 3.0, 4.0]) == 2.5\n"
                "values = [float(n * n % 101) for n in range(100)]\n"
                "assert middle(values) == float(np.median(values))",
            ),
        ],
    ),
    "iterate": (
        'def iterate(f, x, n):\n    """Return x, f(x), f(f(x)), ...: n + 1 numbers in their order."""\n',
        "    found = [x]\n    for _ in range(n):\n        found.append(f(found[-1]))\n    return found",
        [
            (1, 'check.equal(list(iterate(lambda x: 2 * x, 1, 4)), [1, 2, 4, 8, 16], what="doubling")', ""),
            (
                2,
                "",
                "calls = []\n\n\ndef step(value):\n    calls.append(value)\n    return value + 0.5\n\n\n"
                "check.equal(list(iterate(step, 1.0, 3)), [1.0, 1.5, 2.0, 2.5])\n"
                'check.equal(calls, [1.0, 1.5, 2.0], hint="Call f once for each step.")',
            ),
        ],
    ),
    "account": (
        'class Account:\n    """An account: deposit, withdraw (ValueError below zero), balance, len (of changes)."""\n',
        "    def __init__(self, balance=0):\n"
        "        self.balance, self.changes = balance, []\n\n"
        "    def deposit(self, amount):\n"
        "        self.balance += amount\n"
        "        self.changes.append(amount)\n\n"
        "    def withdraw(self, amount):\n"
        "        if amount > self.balance:\n"
        '            raise ValueError("not enough")\n'
        "        self.deposit(-amount)\n\n"
        "    def __len__(self):\n"
        "        return len(self.changes)",
        [
            (1, "mine = Account(5)\nmine.deposit(2)\nassert mine.balance == 7", ""),
            (
                2,
                "",
                "mine, other = Account(10), Account()\n"
                "mine.withdraw(4)\n"
                "other.deposit(1)\n"
                "check.equal([mine.balance, other.balance], [6, 1])\n"
                "check.equal(len(mine), 1)\n"
                "check.raises(ValueError, lambda: mine.withdraw(100))\n"
                "check.equal(mine.balance, 6)",
            ),
        ],
    ),
    "pairs": (
        'def pairs(values, total):\n    """Return how many pairs of places have values that add up to ``total``."""\n',
        "    n = len(values)\n    return sum(values[i] + values[j] == total for i in range(n) for j in range(i))",
        [
            (1, 'check.equal(pairs([1, 2, 3, 3], 5), 2, what="two pairs")', ""),
            (
                2,
                "",
                "source = check.draw()\n"
                "for _ in range(5):\n"
                "    values = [source.randint(0, 9) for _ in range(20)]\n"
                "    total = source.randint(2, 16)\n"
                "    want = sum(a + b == total for k, a in enumerate(values) for b in values[:k])\n"
                "    check.equal(pairs(values, total), want)",
            ),
        ],
    ),
    "nearest": (
        'def nearest(values, target):\n    """Return the value nearest to ``target``; of two, the smaller one."""\n',
        "    return min(values, key=lambda value: (abs(value - target), value))",
        [
            (
                4,
                "cases = [([1, 5, 9], 6, 5), ([4], 0, 4)]",
                "cases += [([1, 3], 2, 1), ([3, 1], 2, 1)]\n"
                "sum(map(lambda case: nearest(case[0], case[1]) == case[2], cases))",
            ),
        ],
    ),
}
WRITTEN = "why"
POINTS = {f"{name}-{n}": told[0] for name, one in EXERCISES.items() for n, told in enumerate(one[2], 1)}
TOTAL = sum(POINTS.values())
WIN = "".join(head + solution + "\n" for head, solution, _ in EXERCISES.values())

# Finds the connection to the grader in the student's process, and speaks on it as the student likes.
SPEAK = """
def channel():
    import gc
    return next(one for one in gc.get_objects() if type(one).__name__ == "Channel")

def tell(head, tree=None, payload=b""):
    import json
    raw(json.dumps([head, tree]).encode(), payload)

def raw(text, payload=b"", text_size=None, payload_size=None):
    import struct
    sizes = len(text) if text_size is None else text_size, len(payload) if payload_size is None else payload_size
    sock = channel().sock
    sock.setblocking(True)
    sock.sendall(struct.pack("!IQ", *sizes) + text + payload)
    sock.setblocking(False)
"""


def _cell(kind, source, **metadata):
    made = {"cell_type": kind, "metadata": metadata, "source": source.splitlines(keepends=True)}
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _marks(name, **marks):
    told = {"grade": False, "locked": False, "solution": False, "task": False, "schema_version": 3, "grade_id": name}
    return {"nbgrader": told | marks}


def instructor():
    """Return the notebook with solutions and hidden checks."""
    cells = [
        _cell("markdown", "# The arena"),
        _cell("code", SETUP),
        _cell("code", GIVEN, **_marks("given", locked=True)),
        _cell("code", DEMO, tags=["demo"]),
    ]
    for name, (head, solution, checks) in EXERCISES.items():
        indent = solution[: len(solution) - len(solution.lstrip())]
        source = f"{head}{indent}### BEGIN SOLUTION\n{solution}\n{indent}### END SOLUTION"
        cells += [_cell("markdown", f"## {name}"), _cell("code", source, **_marks(name, solution=True))]
        for number, (points, visible, hidden) in enumerate(checks, 1):
            secret = f"### BEGIN HIDDEN TESTS\n# {SECRET}\n{hidden}\n### END HIDDEN TESTS" if hidden else ""
            marks = _marks(f"{name}-{number}", grade=True, locked=True, points=points)
            cells.append(_cell("code", "\n".join(filter(None, [visible, secret])), **marks))
    cells += [
        _cell("markdown", "## A question\n\nWhy the median, and not the mean?"),
        _cell("markdown", "One slow call moves the mean.", **_marks(WRITTEN, grade=True, solution=True, points=3)),
    ]
    kernel = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}}
    for number, cell in enumerate(cells):
        cell["id"] = f"c{number}"
    return {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def named(notebook):
    """Return the cells of a notebook by their marks."""
    return {
        cell["metadata"]["nbgrader"]["grade_id"]: cell for cell in notebook["cells"] if "nbgrader" in cell["metadata"]
    }


def code(source, **metadata):
    """Return a code cell as students add them."""
    return _cell("code", source, **metadata)


def text(source, **metadata):
    """Return a Markdown cell as students add them."""
    return _cell("markdown", source, **metadata)


def place(notebook, name):
    """Return where the cell of an answer or a check is."""
    return notebook["cells"].index(named(notebook)[name])


@dataclass(frozen=True)
class Submission:
    """One file of a corpus."""

    name: str
    told: str
    worth: float
    tells: str
    solved: bool
    files: dict  # name of a file in the student's folder -> bytes, or a Path to link to


class Arena:
    """The course in a folder, and nbgrader's commands in it."""

    def __init__(self, folder, *, new=True):
        self.folder = folder
        self.root, self.outside, self.home = folder / "course", folder / "outside", folder / "home"
        if new:
            self._make()
        self.released = (self.root / "release" / ASSIGNMENT / f"{LAB}.ipynb").read_text()

    def _make(self):
        for place in (self.root, self.outside, self.home, self.folder / "tmp"):
            place.mkdir()
        (self.root / "nbgrader_config.py").write_text(CONFIG)
        source = self.root / "source" / ASSIGNMENT / f"{LAB}.ipynb"
        source.parent.mkdir(parents=True)
        source.write_text(json.dumps(instructor(), indent=1))
        self.nbgrader("generate_assignment", ASSIGNMENT)

    def environment(self):
        """An empty home, a folder for temporary files, and this checkout."""
        places = {name: str(self.home / name) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "ROOFLAB_HOME")}
        places |= {"HOME": str(self.home), "TMPDIR": str(self.folder / "tmp"), "PYTHONPATH": str(SHARED)}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return {**os.environ, **places, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *command):
        """Run a command of Python's in the course's folder; returns its exit code and what it says."""
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=self.root, env=self.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", timeout=850,
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    def nbgrader(self, *arguments):
        """Run an nbgrader command, which has to succeed."""
        code, told = self.run("nbgrader", *arguments)
        assert code == 0, told[-4000:]

    def load(self, path, *, solved):
        """Return the submission that a file of a corpus describes."""
        spec = importlib.util.spec_from_file_location(f"corpus_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        notebook = json.loads(self.released)
        cells = named(notebook)
        right = {name: head + solution for name, (head, solution, _) in EXERCISES.items()}
        answers = (right | {WRITTEN: "One slow call moves the mean."}) if getattr(module, "SOLVED", solved) else {}
        for name, source in (answers | getattr(module, "ANSWERS", {})).items():
            cells[name]["source"] = self.fill(source, path.stem).splitlines(keepends=True)
        made = module.hand_in(notebook) if hasattr(module, "hand_in") else notebook
        if isinstance(made, dict) and "cells" in made:
            made = self.fill(json.dumps(made), path.stem, quoted=True).encode()
        files = made if isinstance(made, dict) else {f"{LAB}.ipynb": made}
        worth, tells = getattr(module, "WORTH", 0), getattr(module, "TELLS", "")
        return Submission(path.stem, module.__doc__, worth, tells, getattr(module, "SOLVED", solved), files)

    def fill(self, source, name, *, quoted=False):
        """Put in what stands for places and for code."""
        values = {"COURSE": str(self.root), "OUTSIDE": str(self.outside), "MARK": f"arena-mark-{name}"}
        for key, value in (values | {"SPEAK": SPEAK, "WIN": WIN}).items():
            source = source.replace(f"@{key}@", json.dumps(value)[1:-1] if quoted else value)
        return source

    def hand_in(self, submission, student=""):
        """Write a submission into the course's folder."""
        folder = self.root / "submitted" / (student or submission.name) / ASSIGNMENT
        folder.mkdir(parents=True)
        for name, data in submission.files.items():
            path = folder / name if isinstance(name, str) else Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
            path.parent.mkdir(parents=True, exist_ok=True)
            if callable(data):
                data(path)
            elif isinstance(data, Path):
                path.symlink_to(data)
            else:
                path.write_bytes(data)

    def grades(self):
        """Return {student: ({check: (points, whether a person has to look)}, [comments])} of the gradebook."""
        from nbgrader.api import Gradebook

        told = {}
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}") as gradebook:
            for submission in gradebook.assignment_submissions(ASSIGNMENT):
                (notebook,) = submission.notebooks
                points = {grade.name: (grade.auto_score, grade.needs_manual_grade) for grade in notebook.grades}
                comments = {one.name: one.auto_comment for one in notebook.comments if one.auto_comment}
                told[submission.student.id] = points, comments
        return told
