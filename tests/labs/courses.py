"""Copies of courses (this repository, and the small one in tests/fixtures) that nbgrader itself grades."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "course"


def labs_of(root):
    """Return the scripts of all labs below ``root``, relative to it."""
    return sorted(path.relative_to(root) for path in (root / "solutions").glob("*/lab*.py"))


def copy(source, folder):
    """Copy the course ``source`` without its notebooks, with the configuration of this repository."""
    for part in ("solutions", "tests/labs"):
        if (source / part).exists():
            shutil.copytree(source / part, folder / part, ignore=shutil.ignore_patterns("*.ipynb", "__pycache__"))
    for name in ("pyproject.toml", "nbgrader_config.py"):
        shutil.copy(ROOT / name, folder)
    return folder


def environment(home):
    """Return the environment of a teacher with an empty home and this checkout."""
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT / "shared"),
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "ROOFLAB_HOME": str(home / "rooflab"),
        "ROOFLAB_DEVICE": "cpu",
    }


class Course:
    """A copy of a course, and the nbgrader commands run in it."""

    def __init__(self, source, folder):
        self.root, self.home = folder / "course", folder / "home"
        self.home.mkdir()
        self.root.mkdir()
        copy(source, self.root)

    def build(self):
        """Build the notebooks with the generator."""
        code = "import build, pathlib as p; r = p.Path.cwd(); build.build(build.sources(r), r)"
        self.python(code, PYTHONPATH=os.pathsep.join([str(ROOT / "tools"), str(ROOT / "shared")]))

    def python(self, code, *arguments, **variables):
        """Run ``code`` in a process of its own; returns what it prints."""
        return self._run([sys.executable, "-c", code, *arguments], **variables)

    def nbgrader(self, *arguments, fails=False):
        """Run one nbgrader command, which has to succeed (or to fail); returns its log."""
        return self._run([sys.executable, "-m", "nbgrader", *arguments], fails=fails)

    def submit(self, student, script, answers):
        """Hand in the student edition of ``script``, with the source of some solution cells replaced."""
        name = Path(*script.parts[1:]).with_suffix(".ipynb")
        notebook = json.loads((self.root / "labs" / name).read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
            if grade_id in answers:
                cell["source"] = answers[grade_id].splitlines(keepends=True)
        path = self.root / "submitted" / student / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(notebook), encoding="utf-8")

    def grades(self, assignment):
        """Return {student: {notebook: {grade id: [points, most, whether a person has to look]}}} of the gradebook."""
        return json.loads(self.python(_GRADES, assignment).splitlines()[-1])

    def _run(self, command, *, fails=False, **variables):
        env = environment(self.home) | variables
        done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode != 0) is fails, (
            f"{command} ended with {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        )
        return done.stdout + done.stderr if "-m" in command else done.stdout


_GRADES = """
import collections, json, sys
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as gradebook:
    seen = collections.defaultdict(lambda: collections.defaultdict(dict))
    for submission in gradebook.assignment_submissions(sys.argv[1]):
        for notebook in submission.notebooks:
            for grade in notebook.grades:
                told = [grade.auto_score, grade.max_score, grade.needs_manual_grade]
                seen[submission.student.id][notebook.name][grade.name] = told
    print(json.dumps(seen))
"""
