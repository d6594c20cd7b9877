"""The command `rooflab check`: how does my copy of a lab do, before I hand it in?

>>> import argparse
>>> parser = argparse.ArgumentParser(); add_check_options(parser)
>>> parser.parse_args(["lab1_timer.ipynb"]).notebook[0].name
'lab1_timer.ipynb'
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rooflab.extras import require
from rooflab.plaintext import terminal_width
from rooflab.progress import Progress
from rooflab.tables import render_text

if TYPE_CHECKING:
    from .outcome import Outcome

__all__ = ["add_check_options", "check_notebooks"]

_BEFORE = 55  # columns of the table before the reason, about: a reason with more room is not told twice


def add_check_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab check`."""
    parser.add_argument("notebook", nargs="+", type=Path, help="your copy of a lab, wherever it is (a file .ipynb)")


def check_notebooks(options: argparse.Namespace) -> int:
    """Run the visible checks of labs and print how each exercise does; returns 0 when all of them pass."""
    require("lab", "IPython")
    return max([_check(path) for path in options.notebook])


def _check(path: Path) -> int:
    from .exercises import exercises_of, gist
    from .gradingrun import StudentResult
    from .ownlab import is_visible, own_lab
    from .plainnotebook import read_cells

    if not path.is_file():
        raise FileNotFoundError(f"There is no notebook {path}: give the path of your copy of a lab.")
    if path.suffix != ".ipynb":
        raise ValueError(f"{path} is no notebook: give your copy of a lab, a file that ends in .ipynb.")
    path = path.resolve()
    lab = own_lab(path.name, read_cells(path))
    bar = Progress(path.stem, len(lab.checks), unit="check")
    outcome = _examined(path)
    bar.close("checked")
    visible = {check.name: check for check in lab.checks if is_visible(check)}
    hidden = len(lab.checks) - len(visible)
    shown = replace(lab, cells=tuple(cell for cell in lab.cells if cell.kind != "check" or cell.name in visible))
    rows, notes = [], [*outcome.remarks]
    room = terminal_width() - _BEFORE
    for exercise in exercises_of({lab.name: shown}, [StudentResult("you", {lab.name: outcome}, {lab.name: shown})]):
        if not exercise.checks:
            rows.append([exercise.name, "read by a person", f"{exercise.points:g}", ""])
            continue
        passed = sum((outcome.checks[name].score or 0) >= visible[name].points for name in exercise.checks)
        reason = exercise.reasons[0].note if exercise.reasons else ""
        points = f"{exercise.scores['you']:g} of {exercise.points:g}"
        rows.append([exercise.name, f"{passed} of {len(exercise.checks)}", points, gist(reason)])
        notes += [each.note for each in exercise.reasons if gist(each.note) != each.note or len(each.note) > room]
    print(render_text(["exercise", "checks passed", "points", "reason"], rows, width=terminal_width()))
    for note in notes:
        print(f"\n{note}")
    scores = [(outcome.checks[name].score or 0.0, check.points) for name, check in visible.items()]
    print(
        f"\nVisible checks: {sum(got for got, _ in scores):g} of {sum(most for _, most in scores):g} points.", end=" "
    )
    more = f"{hidden} more check{'s' * (hidden > 1)}"
    print(f"Grading runs {more}, on fresh values." if hidden else "")
    return 0 if all(got >= most for got, most in scores) else 1


def _examined(path: Path) -> Outcome:
    from .outcome import Outcome

    package = str(Path(__file__).resolve().parents[2])
    search = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    own = {"NBGRADER_EXECUTION": "autograde", "ROOFLAB_HEADLESS": "1", "MPLBACKEND": "Agg", "PYTHONPATH": search}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "rooflab.grading.ownmachine", str(path)],
        env={**os.environ, **own},
        cwd=path.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    try:
        return Outcome.from_json(done.stdout)
    except (ValueError, KeyError, TypeError):
        said = done.stderr.strip().splitlines()
        raise ValueError(f"{path.name} cannot be checked: {said[-1] if said else 'its process ended'}.") from None
