"""What tests do to a book, a course and a gradebook."""

import json
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def build(root):
    subprocess.run([sys.executable, root / "tools" / "build.py"], check=True, capture_output=True)


def edit(path, old, new):
    """Replace a text that is there exactly once."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
    path.write_text(text.replace(old, new), encoding="utf-8")


def give_grades(folder, points, *, assignment="lab1_demo", late=0.0):
    """Enter graded submissions as an autograder would; ``points`` by student, for every graded cell alike."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
            for student, share in points.items():
                gradebook.update_or_create_student(student)
                submission = gradebook.add_submission(assignment, student)
                for notebook in submission.notebooks:
                    notebook.late_submission_penalty = late
                    for grade in notebook.grades:
                        grade.auto_score = share * grade.max_score
                        grade.needs_manual_grade = False
            gradebook.db.commit()


def dump(folder):
    """Everything that the gradebook says, as text."""
    with sqlite3.connect(folder / "gradebook.db") as database:
        lines = list(database.iterdump())
    database.close()
    return lines


def cells_of(path):
    """The sources of a notebook's cells by their mark."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return {
        cell["metadata"]["nbgrader"]["grade_id"]: "".join(cell["source"])
        for cell in notebook["cells"]
        if "nbgrader" in cell["metadata"]
    }
