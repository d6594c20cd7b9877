"""What does an instructor add to a lab that no student may read: further hidden checks, and a seed?

They lie outside of the public repository, one file for each lab, and are merged into the course's ``source/`` only. A
percent script ``lab1_timer.py`` holds cells like those of a lab, a seed in its own:

>>> private = parse('# %% seed=17\\n# %% hidden="settle" points=2\\nassert settle\\n', "lab1_timer.py")
>>> private.seed, [(check.exercise, check.points, check.source) for check in private.checks]
(17, [('settle', 2, 'assert settle')])

A notebook ``lab1_timer.ipynb`` holds the same: the metadata ``"rooflab": {"hidden": "settle", "points": 2}`` of a code
cell, and ``"rooflab": {"seed": 17}`` of the notebook.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..execute import read_notebook

__all__ = ["FIRST", "Check", "Private", "files_in", "merge", "parse", "read_private"]

# Private checks are numbered from here on: the book's own of one exercise never come so far.
FIRST = 101
_NOTE = "# The grader runs further checks here, on fresh values."
_MARKER = re.compile(r"#\s*%%(?![a-zA-Z])(?P<rest>.*)")
_OPTION = re.compile(r'\s+(?P<key>[a-z]+)=(?P<value>"[^"]*"|-?[0-9.]+)')
_BLOCK = re.compile(r"### (BEGIN|END) ")


@dataclass(frozen=True)
class Check:
    """One hidden check cell for an exercise; `where` names it in error sentences."""

    exercise: str
    points: float
    source: str
    where: str


@dataclass(frozen=True)
class Private:
    """What one file adds to a lab."""

    checks: tuple[Check, ...] = ()
    seed: int | str | None = None
    name: str = field(default="", compare=False)


def files_in(folder: Path) -> dict[str, Path]:
    """The private files of a folder by the name of their lab.

    Raises:
        ValueError: a lab has both a script and a notebook.
    """
    found: dict[str, Path] = {}
    for path in sorted([*folder.glob("*.py"), *folder.glob("*.ipynb")]):
        if path.stem in found:
            raise ValueError(f"{folder} has a script and a notebook for {path.stem}: keep one of them.")
        found[path.stem] = path
    return found


def read_private(path: Path) -> Private:
    """Read the private file of one lab.

    Raises:
        ValueError: with one sentence that says where and what to mend.
    """
    if path.suffix == ".ipynb":
        return _from_notebook(read_notebook(path), path.name)
    try:
        return parse(path.read_text(encoding="utf-8-sig"), path.name)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8: save it as UTF-8.") from None


def parse(text: str, name: str) -> Private:
    """Read a percent script of hidden checks and at most one seed.

    Raises:
        ValueError: with one sentence that says where and what to mend.
    """
    cells: list[tuple[int, dict[str, Any], list[str]]] = []
    for number, row in enumerate(text.split("\n"), 1):
        if match := _MARKER.match(row):
            cells.append((number, _options(match["rest"], f"{name}:{number}"), []))
        elif cells:
            cells[-1][2].append(row)
        elif row.strip() and not row.startswith("#"):
            raise ValueError(f"{name}:{number}: text stands before the first '# %%' marker: put a marker above it.")
    checks, seeds = [], []
    for number, options, rows in cells:
        where, source = f"{name}:{number}", "\n".join(rows).strip("\n")
        if "seed" in options:
            seeds.append(_seed(options["seed"], where))
            if source.strip() or len(options) > 1:
                raise ValueError(f"{where}: a seed stands alone: put the code into a cell of its own.")
        elif options:
            checks.append(_check(options, source, where))
        elif any(row.strip() and not row.startswith("#") for row in rows):
            raise ValueError(
                f"{where}: this code belongs to no check: write '# %% hidden=\"exercise\" points=1' above it."
            )
    return _private(checks, seeds, name)


def _options(rest: str, where: str) -> dict[str, Any]:
    if rest.strip() in ("", "[markdown]"):
        return {}
    options: dict[str, Any] = {}
    at = 0
    while at < len(rest.rstrip()):
        match = _OPTION.match(rest, at)
        try:
            if match is None or match["key"] in options or match["key"] not in ("hidden", "points", "seed"):
                raise ValueError
            options[match["key"]] = json.loads(match["value"])
        except ValueError:
            expected = "'# %% hidden=\"exercise\" points=2' or '# %% seed=17'"
            raise ValueError(f"{where}: expected {expected}, found '# %%{rest}'.") from None
        at = match.end()
    return options


def _from_notebook(notebook: Any, name: str) -> Private:
    checks = []
    for number, cell in enumerate(notebook.cells, 1):
        marks, where = cell.metadata.get("rooflab"), f"{name}, cell {number}"
        if cell.cell_type == "code" and cell.source.strip():
            if not isinstance(marks, dict) or marks.keys() - {"hidden", "points"}:
                raise ValueError(
                    f'{where}: expected the metadata "rooflab": {{"hidden": "exercise", "points": 2}}, found {marks!r}.'
                )
            checks.append(_check(dict(marks), cell.source, where))
    marks = notebook.metadata.get("rooflab", {})
    seeds = [_seed(marks["seed"], name)] if isinstance(marks, dict) and "seed" in marks else []
    return _private(checks, seeds, name)


def _private(checks: list[Check], seeds: list[int | str], name: str) -> Private:
    if len(seeds) > 1:
        raise ValueError(f"{name} has {len(seeds)} seeds: keep one.")
    return Private(tuple(checks), seeds[0] if seeds else None, name)


def _seed(value: Any, where: str) -> int | str:
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "" or str(value).startswith("-"):
        raise ValueError(f"{where}: a seed is a whole number from 0 on, or a text, found {value!r}.")
    return value


def _check(options: dict[str, Any], source: str, where: str) -> Check:
    exercise, points = options.get("hidden"), options.get("points")
    if not isinstance(exercise, str) or not exercise:
        raise ValueError(f"{where}: a check names its exercise: '# %% hidden=\"exercise\" points=2'.")
    if isinstance(points, bool) or not isinstance(points, int | float) or not 0 < points <= 1000:
        raise ValueError(f"{where}: a check has points above 0 and up to 1000, found points={points!r}.")
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise ValueError(f"{where}: this is no valid Python ({error.msg} in its line {error.lineno}).") from None
    if not source.strip() or _BLOCK.search(source):
        raise ValueError(f"{where}: a check is plain code, without nbgrader's BEGIN and END marks, and not empty.")
    return Check(exercise, points, source, where)


def merge(notebook: dict[str, Any], private: Private) -> dict[str, Any]:
    """Put the checks below the last check of their exercise, and the seed into the notebook's metadata.

    Args:
        notebook: an instructor edition, as JSON; it is not changed.
        private: what to add.

    Raises:
        ValueError: a check names an exercise that the lab does not have.
    """
    cells, counted = list(notebook["cells"]), Counter[str]()
    for check in private.checks:
        places = [i for i, cell in enumerate(cells) if _belongs(cell, check.exercise)]
        if not places:
            known = sorted({name for cell in cells if (name := _exercise(cell))})
            raise ValueError(f"{check.where}: {check.exercise!r} is no exercise of the lab; expected one of {known}.")
        number = FIRST + counted[check.exercise]
        counted[check.exercise] += 1
        cells.insert(places[-1] + 1, _cell(check, number))
    metadata = dict(notebook["metadata"])
    if private.seed is not None:
        metadata["rooflab"] = {"seed": private.seed}
    return {**notebook, "cells": cells, "metadata": metadata}


def _marks(cell: dict[str, Any]) -> dict[str, Any]:
    marks = cell.get("metadata", {}).get("nbgrader")
    return marks if isinstance(marks, dict) else {}


def _exercise(cell: dict[str, Any]) -> str:
    marks = _marks(cell)
    return str(marks["grade_id"]) if marks.get("solution") and cell["cell_type"] == "code" else ""


def _belongs(cell: dict[str, Any], exercise: str) -> bool:
    name = str(_marks(cell).get("grade_id", ""))
    return (
        re.fullmatch(rf"{re.escape(exercise)}(-(check|hidden)-\d+)?", name) is not None and cell["cell_type"] == "code"
    )


def _cell(check: Check, number: int) -> dict[str, Any]:
    name = f"{check.exercise}-hidden-{number}"
    source = f"{_NOTE}\n### BEGIN HIDDEN TESTS\n{check.source}\n### END HIDDEN TESTS"
    marks = {
        "grade": True, "grade_id": name, "locked": True, "points": check.points, "schema_version": 3,
        "solution": False, "task": False,
    }  # fmt: skip
    return {
        "cell_type": "code", "execution_count": None, "id": re.sub(r"\W", "-", name)[:64],
        "metadata": {"nbgrader": marks}, "outputs": [], "source": source.splitlines(keepends=True),
    }  # fmt: skip
