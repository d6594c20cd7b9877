"""How do the marked cells of a lab become nbgrader's cells?

>>> from percent import parse
>>> cells = parse('# %% exercise="f"\\n### BEGIN SOLUTION\\nf = abs\\n### END SOLUTION\\n', "lab1.py")
>>> instructor_cells(cells, "lab1.py")[0]["metadata"]["nbgrader"]["grade_id"]
Traceback (most recent call last):
    ...
percent.SourceError: lab1.py:1: exercise "f" has no visible check; add a cell '# %% check="f" points=...'.
lab1.py:1: exercise "f" has no hidden check; add a cell '# %% hidden="f" points=...'.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from percent import Cell, SourceError

__all__ = ["DEMO", "FREE", "SOLUTION", "instructor_cells"]

SOLUTION = "solution"  # tag: only in the instructor edition
FREE = "free"  # tag: a code cell that the student may change and that is not restored for grading
DEMO = "demo"  # tag: a cell that only shows something; graders do not run it (a figure for each of 1,000 students)
_TAGS = {SOLUTION, FREE, DEMO, "hide-input"}
MOST_POINTS = 1000  # of one cell; a gradebook with an infinite number in it adds up to nothing
_ROLES = ("exercise", "check", "hidden", "written")
_NAME = re.compile(r"[a-z][a-z0-9_]*$")
_HIDDEN_NOTE = "# The grader runs further checks here, on fresh values."
_BLOCK_MARK = re.compile(r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)")


def instructor_cells(cells: list[Cell], name: str) -> list[dict[str, object]]:
    """Give every cell its nbgrader metadata; returns ``{"cell_type", "source", "metadata"}`` dicts.

    Raises:
        SourceError: with one sentence for each rule that the lab breaks.
    """
    problems = list(_problems(cells, name))
    if problems:
        raise SourceError(problems)
    seen: Counter[str] = Counter()
    return [_nbgrader_cell(cell, seen) for cell in cells]


def _role(cell: Cell) -> str | None:
    return next((role for role in _ROLES if role in cell.options), None)


def _tags(cell: Cell) -> list[str]:
    tags = cell.options.get("tags", [])
    assert isinstance(tags, list)
    return tags


def _nbgrader_cell(cell: Cell, seen: Counter[str]) -> dict[str, object]:
    role, source = _role(cell), cell.source
    metadata: dict[str, object] = {"tags": _tags(cell)} if _tags(cell) else {}
    if role in ("check", "hidden"):
        stem = f"{cell.options[role]}-{role}"
        seen[stem] += 1
        metadata["nbgrader"] = _graded(f"{stem}-{seen[stem]}", grade=True, points=cell.options["points"])
        if role == "hidden":
            source = f"{_HIDDEN_NOTE}\n### BEGIN HIDDEN TESTS\n{source}\n### END HIDDEN TESTS"
    elif role == "exercise":
        metadata["nbgrader"] = _graded(str(cell.options[role]), solution=True)
    elif role == "written":
        metadata["nbgrader"] = _graded(
            str(cell.options[role]), solution=True, grade=True, points=cell.options["points"]
        )
    elif cell.kind == "code" and not {SOLUTION, FREE} & set(_tags(cell)):
        # What the lab hands out must be there when it is graded: nbgrader restores locked cells.
        seen["given"] += 1
        metadata["nbgrader"] = _graded(f"given-{seen['given']}")
    return {"cell_type": cell.kind, "source": source, "metadata": metadata}


def _graded(grade_id: str, *, grade: bool = False, solution: bool = False, points: object = None) -> dict[str, object]:
    extra = {} if points is None else {"points": points}
    return {
        "grade": grade,
        "grade_id": grade_id,
        "locked": not solution,
        "schema_version": 3,
        "solution": solution,
        "task": False,
        **extra,
    }


def _problems(cells: list[Cell], name: str) -> Iterator[str]:
    exercises: dict[str, int] = {}
    found = {role: Counter[str]() for role in ("check", "hidden")}
    for cell in cells:
        where = f"{name}:{cell.line}"
        yield from _cell_problems(cell, where)
        role = _role(cell)
        if role is None:
            continue
        target = str(cell.options[role])
        if role in found:
            if target not in exercises:
                yield f'{where}: {role}="{target}" names no exercise above it; expected one of {sorted(exercises)}.'
            found[role][target] += 1
        elif target in exercises:
            yield f'{where}: the name "{target}" is taken by line {exercises[target]}; names are unique in a lab.'
        else:
            exercises[target] = cell.line
    written = {str(cell.options["written"]): cell.line for cell in cells if "written" in cell.options}
    for exercise in exercises.keys() - written.keys():
        for role, word in (("check", "visible"), ("hidden", "hidden")):
            if not found[role][exercise]:
                yield (
                    f'{name}:{exercises[exercise]}: exercise "{exercise}" has no {word} check; '
                    f"add a cell '# %% {role}=\"{exercise}\" points=...'."
                )
    for question, line in written.items():
        if not any(cell.line > line and SOLUTION in _tags(cell) and cell.kind == "markdown" for cell in cells):
            yield (
                f'{name}:{line}: the written question "{question}" has no rubric below it; '
                "add a cell '# %% [markdown] tags=[\"solution\"]'."
            )


def _cell_problems(cell: Cell, where: str) -> Iterator[str]:
    options, role = cell.options, _role(cell)
    yield from _option_problems(options, role, where)
    if role is not None and (cell.kind == "markdown") != (role == "written"):
        yield f"{where}: {role}= belongs on a {'markdown' if role == 'written' else 'code'} cell, found {cell.kind}."
    marks = [match.groups() for match in _BLOCK_MARK.finditer(cell.source)]
    if role in ("exercise", "written"):
        expected = [("BEGIN", "SOLUTION"), ("END", "SOLUTION")]
        if not marks:
            yield f"{where}: {role} cell without '### BEGIN SOLUTION' ... '### END SOLUTION'."
        elif marks[: len(marks) // 2 * 2] != expected * (len(marks) // 2) or len(marks) % 2:
            yield f"{where}: '### BEGIN SOLUTION' and '### END SOLUTION' have to alternate, found {_spoken(marks)}."
    elif marks:
        yield f"{where}: found {_spoken(marks)} in a cell that is no exercise; the generator writes hidden-test marks."


def _option_problems(options: Mapping[str, object], role: str | None, where: str) -> Iterator[str]:
    if unknown := options.keys() - {*_ROLES, "points", "tags"}:
        yield f"{where}: unknown key {', '.join(sorted(unknown))}; a lab knows {', '.join(_ROLES)}, points and tags."
    if len([key for key in _ROLES if key in options]) > 1:
        yield f"{where}: a cell has one of {', '.join(_ROLES)}, found several."
    if role and not (isinstance(options[role], str) and _NAME.match(str(options[role]))):
        yield f'{where}: {role}={options[role]!r} is no name; expected lower-case letters, digits and _ in "...".'
    if role and options.get(role) == "given":
        yield f'{where}: the name "given" is kept for the cells that the lab hands out; choose another.'
    points = options.get("points")
    if role in ("check", "hidden", "written"):
        if isinstance(points, bool) or not isinstance(points, int | float) or not points > 0:
            yield f"{where}: {role} cell needs positive points, found points={points!r}."
        elif points > MOST_POINTS:
            yield f"{where}: {role} cell has at most {MOST_POINTS} points, found points={points!r}."
    elif points is not None:
        yield f"{where}: points belong on check, hidden and written cells only."
    tags = options.get("tags", [])
    if not isinstance(tags, list) or not set(map(str, tags)) <= _TAGS:
        yield f"{where}: unknown tags {tags!r} in a lab; expected some of {sorted(_TAGS)}."
    elif role and tags:
        yield f"{where}: tags do not go with {role}=, found {tags!r}."


def _spoken(marks: list[tuple[str, ...]]) -> str:
    return ", ".join(" ".join(mark) for mark in marks)
