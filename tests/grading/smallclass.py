"""A small nbgrader course on disk, released by nbgrader itself, whose lab needs numpy only.

A check of the lab writes down who is being checked, where the variable SMALL_CLASS_LOG says: so a test sees which
submissions were graded, and how often.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT / "shared"
ASSIGNMENT, LAB = "week1", "small"
SECRET_LINE = "assert total([seven, 1]) == 8, 'hidden 4711'"

CONFIG = """
c = get_config()
c.CourseDirectory.course_id = "small"
c.IncludeHeaderFooter.header = ""
"""

SOLUTIONS = {
    "who": 'def who():\n    return "nobody"\n',
    "total": "def total(values):\n    return sum(values)\n",
    "scale": "import numpy as np\n\n\ndef scale(x, k):\n    return np.asarray(x) * k\n",
}
CHECKS = {
    "who": (0, "", "import os\nfrom pathlib import Path\n\nif log := os.environ.get('SMALL_CLASS_LOG'):\n"
            "    with open(log, 'a') as file:\n        file.write(f'{who()}\\n')\n"
            "if (kill := os.environ.get('SMALL_CLASS_KILL')) and who() == 'killer':\n"
            "    os.kill(int(Path(f'/proc/{os.getppid()}/stat').read_text().split()[3]), 9)\n"),
    "total": (2, "assert total([1, 2]) == 3, 'one and two are three'\n", f"seven = 7\n{SECRET_LINE}\n"),
    "scale": (3, "import numpy as np\n\nassert scale([1, 2], 3).tolist() == [3, 6]\n",
              "assert scale(np.ones((2, 2)), 0.5).sum() == 2\n"),
}  # fmt: skip


def marks(name, **kinds):
    told = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3, "grade_id": name}
    return {"nbgrader": {**told, **kinds}}


def cell(kind, source, metadata=None, number=0):
    made = {"cell_type": kind, "source": source, "metadata": metadata or {}, "id": f"cell-{number}"}
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def source_notebook(setup="import numpy as np", solutions=SOLUTIONS, checks=CHECKS):
    cells = [cell("markdown", "# A small lab"), cell("code", setup)]
    for name, solution in solutions.items():
        points, visible, hidden = checks[name]
        cells.append(cell("markdown", f"## The exercise {name}"))
        text = f"### BEGIN SOLUTION\n{solution}### END SOLUTION\n"
        cells.append(cell("code", text, marks(name, solution=True)))
        check = f"{visible}### BEGIN HIDDEN TESTS\n{hidden}### END HIDDEN TESTS\n"
        cells.append(cell("code", check, marks(f"{name}-check", grade=True, locked=True, points=points)))
    cells.append(cell("markdown", "### BEGIN SOLUTION\nBecause.\n### END SOLUTION",
                      marks("why", grade=True, solution=True, points=4)))  # fmt: skip
    for number, each in enumerate(cells):
        each["id"] = f"cell-{number}"
    return {"cells": cells, "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
            "nbformat": 4, "nbformat_minor": 5}  # fmt: skip


def environment(home, **variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON", "ROOFLAB"))}
    paths = [str(SHARED), os.environ.get("PYTHONPATH", "")]
    return {
        **kept,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "HOME": str(home),
        "ROOFLAB_HOME": str(home / "rooflab"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "IPYTHONDIR": str(home / "ipython"),
        **variables,
    }


class SmallClass:
    """The course in a folder.

    Args:
        folder: for the course and a home.
        template: a course to copy, instead of one that is made.
        extra: added to its configuration.
        notebook: the instructor's, and `solutions` its answers.
    """

    def __init__(self, folder, template=None, extra="", notebook=None, solutions=SOLUTIONS):
        self.root, self.home, self.solutions = folder / "course", folder / "home", solutions
        self.home.mkdir(parents=True)
        if template is None:
            path = self.root / "source" / ASSIGNMENT / f"{LAB}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(notebook or source_notebook()), encoding="utf-8")
            (self.root / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
            self.nbgrader("generate_assignment", ASSIGNMENT)
        else:
            shutil.copytree(template.root, self.root)
        with (self.root / "nbgrader_config.py").open("a", encoding="utf-8") as file:
            file.write(extra)

    def submit(self, student, timestamp=None, **answers):
        """Hand in the lab with these answers, by their names, and `who` that says who it is; the others are right."""
        who = {"who": f'def who():\n    return "{student}"\n'} if "who" in self.solutions else {}
        given = {**self.solutions, **who, **answers}
        notebook = json.loads((self.root / "release" / ASSIGNMENT / f"{LAB}.ipynb").read_text(encoding="utf-8"))
        for each in notebook["cells"]:
            name = each["metadata"].get("nbgrader", {}).get("grade_id")
            if given.get(name) is not None:
                each["source"] = given[name]
        path = self.root / "submitted" / student / ASSIGNMENT / f"{LAB}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(notebook), encoding="utf-8")
        if timestamp:
            (path.parent / "timestamp.txt").write_text(timestamp, encoding="utf-8")
        return path

    def command(self, *words, **variables):
        """The arguments of `subprocess` for a command of `rooflab`."""
        return {
            "args": [sys.executable, "-m", "rooflab", *map(str, words)],
            "cwd": self.root,
            "env": environment(self.home, **variables),
        }

    def grade(self, *words, fails=False, **variables):
        """Run `rooflab grade`; returns what it prints."""
        told = self.command("grade", ASSIGNMENT, *words, **variables)
        done = subprocess.run(**told, capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode != 0) is fails, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def nbgrader(self, *words):
        """Run a command of nbgrader; returns its log."""
        command = [sys.executable, "-m", "nbgrader", *words]
        env = environment(self.home)
        done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    @property
    def journal(self):
        """The folder of the journal."""
        return self.root / ".rooflab" / "grading" / ASSIGNMENT

    def finished(self):
        """The students whose outcome is kept."""
        return {path.parent.name for path in self.journal.glob(f"outcomes/*/{LAB}.json")}

    def grades(self):
        """Everything that the gradebook says of submissions: scores, flags, comments and penalties, by student."""
        from nbgrader.api import Gradebook

        told = {}
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}") as gradebook:
            for submission in gradebook.assignment_submissions(ASSIGNMENT):
                for notebook in submission.notebooks:
                    told[submission.student.id] = {
                        "score": notebook.score,
                        "penalty": notebook.late_submission_penalty,
                        "grades": {
                            one.name: (one.auto_score, one.manual_score, bool(one.needs_manual_grade))
                            for one in notebook.grades
                        },
                        "comments": {one.name: (one.auto_comment, one.manual_comment) for one in notebook.comments},
                    }
        return told
