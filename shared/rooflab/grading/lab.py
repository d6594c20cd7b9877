"""What does the instructor's own notebook say: which cells are answered, which check, and which names are asked for?

>>> bound_names("import math as m\\ndef f(x): return x\\nclass A: pass\\na, (b, *c) = 1, (2, 3)\\nif a:\\n    d = 4")
['f', 'A', 'a', 'b', 'c', 'd']
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .plainnotebook import Cell, NotebookError, read_cells

__all__ = [
    "LabCell", "LabNotebook", "bound_names", "import_lines", "imports_of", "kind_of", "names_in", "python_of",
    "read_lab", "seed_in",
]  # fmt: skip

DEMO = "demo"
_WORD = re.compile(r"[^\W\d]\w*")
_MAGIC = re.compile(r"^(?P<indent>\s*)(?P<names>[\w, ]+=\s*)?[%!].*")
_OF_PYTHON = (["capture"], ["time"], ["prun"])  # magics of whole cells that run them where others run


@dataclass(frozen=True)
class LabCell:
    """A cell of the instructor's notebook.

    `kind` is "setup" (code without a mark), "demo" (code without points that need not run), "locked" (read-only code
    without points), "solution" (code that students write), "check" (code that grades), "written" (graded by a person),
    "task" or "text".
    """

    kind: str
    source: str  # as it is run by the grader: with hidden tests, and without the solution
    released: str  # as the students got it
    name: str = ""  # nbgrader's grade_id
    points: float = 0.0
    binds: tuple[str, ...] = ()  # the names that a solution cell defines
    imports: str = ""  # the statements with which the instructor's solution imports, for checks that use the modules
    cell_type: str = "code"
    metadata: dict[str, Any] | None = None

    @property
    def is_code(self) -> bool:
        """Whether it is code."""
        return self.cell_type == "code"

    def untouched(self, answer: str | None) -> bool:
        """Whether an answer is what was handed out, or is missing."""
        return answer is None or answer.strip() == self.released.strip()


@dataclass(frozen=True)
class LabNotebook:
    """The cells of one lab, in the instructor's order."""

    name: str
    cells: tuple[LabCell, ...]
    seed: str = ""  # with which the instructor has fixed the draws of the checks

    @functools.cached_property
    def asked(self) -> frozenset[str]:
        """The names that the instructor's own cells use: of answers, only these are asked for."""
        own = [cell for cell in self.cells if cell.is_code and cell.kind not in ("solution", "written", "task")]
        return frozenset().union(*(names_in(cell.source) for cell in own))

    @property
    def checks(self) -> tuple[LabCell, ...]:
        """The cells that grade by themselves."""
        return tuple(cell for cell in self.cells if cell.kind == "check")

    def cell(self, name: str) -> LabCell:
        """Return the marked cell of this name, or raise KeyError."""
        for cell in self.cells:
            if cell.name == name:
                return cell
        raise KeyError(name)

    def answer_of(self, check: str) -> str:
        """Return the name of the answer that stands before a check, or "" where none does."""
        answer = ""
        for cell in self.cells:
            if cell.name == check:
                return answer
            if cell.kind in ("solution", "written", "task"):
                answer = cell.name
        return ""

    def imported(self, *, hidden: bool) -> str:
        """Return the modules that the lab's cells import, as :func:`rooflab.grading.warm.load` takes them.

        Args:
            hidden: also those of hidden checks, which are nothing for a process of a student's.
        """
        found: dict[str, list[str]] = {}
        for cell in self.cells:
            for module, names in imports_of(cell.source if hidden else cell.released).items() if cell.is_code else ():
                found.setdefault(module, []).extend(names)
        return " ".join(f"{module}:{','.join(dict.fromkeys(names))}" for module, names in found.items())

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LabNotebook:
        """Return what `to_json` wrote."""
        told = json.loads(text)
        cells = tuple(LabCell(**{**cell, "binds": tuple(cell["binds"])}) for cell in told["cells"])
        return cls(told["name"], cells, told.get("seed", ""))


def read_lab(instructor: Path, released: Path, marked: dict[str, tuple[str, float]]) -> LabNotebook:
    """Put the instructor's notebook together.

    Args:
        instructor: the notebook with the solutions, for the names that they define.
        released: the notebook that the students got, for its order and its cells without marks.
        marked: of each marked cell its source (with hidden tests, without solution) and its points, from the gradebook.

    Raises:
        NotebookError: one of the two cannot be read.
        KeyError: a marked cell of the released notebook is not in the gradebook.
    """
    solved = {cell.grade_id: cell.source for cell in read_cells(instructor) if cell.grade_id}
    cells = []
    for cell in read_cells(released):
        kind = kind_of(cell)
        source, points = marked[cell.grade_id] if cell.grade_id else (cell.source, 0.0)
        binds = tuple(bound_names(solved.get(cell.grade_id, source))) if kind == "solution" else ()
        imports = import_lines(solved.get(cell.grade_id, "")) if kind == "solution" else ""
        made = LabCell(kind, source, cell.source, cell.grade_id, points, binds, imports, cell.cell_type, cell.metadata)
        cells.append(made)
    names = [cell.name for cell in cells if cell.name]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise NotebookError(f"{released} has several cells with the mark {twice[0]!r}: delete all but one of them.")
    return LabNotebook(released.stem, tuple(cells), seed_in(instructor))


def names_in(source: str) -> set[str]:
    """Return the names that code uses or may use: also words of its texts and magics, which it may evaluate.

    >>> sorted(names_in("t = %timeit -o f(3)\\neval('g')(x)"))
    ['eval', 'f', 'g', 'o', 't', 'timeit', 'x']
    """
    try:
        nodes = list(ast.walk(ast.parse(python_of(source))))
    except (SyntaxError, ValueError):
        return set(_WORD.findall(source))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    texts += [line for line in source.splitlines() if _MAGIC.match(line)]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    return used.union(*map(_WORD.findall, texts))


def seed_in(instructor: Path) -> str:
    """Return the seed in the metadata of an instructor's notebook, as `rooflab.seed`; empty where there is none."""
    told = json.loads(instructor.read_text(encoding="utf-8")).get("metadata", {}).get("rooflab", {})
    return str(told.get("seed", "")) if isinstance(told, dict) else ""


def kind_of(cell: Cell) -> str:
    """Return the kind of a cell, as its marks say it (see :class:`LabCell`)."""
    marks = cell.marks
    if not cell.grade_id:
        if cell.cell_type != "code":
            return "text"
        return DEMO if DEMO in cell.tags else "setup"
    if marks.get("task"):
        return "task"
    if marks.get("solution"):
        return "written" if marks.get("grade") else ("solution" if cell.cell_type == "code" else "written")
    if marks.get("grade"):
        return "check" if cell.cell_type == "code" else "written"
    if cell.cell_type != "code":
        return "text"
    return DEMO if DEMO in cell.tags else "locked"


def bound_names(source: str) -> list[str]:
    """Return the names that code binds at its top level, in order; none where it is no Python.

    Not those that it imports: modules are the grader's own. A check that calls `np.testing` must not call what a
    student has named `np`, even where the instructor's solution imports it.
    """
    try:
        tree = ast.parse(python_of(source))
    except (SyntaxError, ValueError):
        return []
    return list(dict.fromkeys(name for node in tree.body for name in _bound(node)))


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        return
    for inner in _same_scope(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
        elif inner is not node and isinstance(inner, ast.FunctionDef | ast.ClassDef):
            yield from _bound(inner)


def _same_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes below a statement that are run in its scope: not the insides of functions and classes in it."""
    queue = [node]
    while queue:
        inner = queue.pop(0)
        yield inner
        own = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.comprehension)
        if inner is node or not isinstance(inner, own):
            queue += ast.iter_child_nodes(inner)


def import_lines(source: str) -> str:
    """Return the import statements at the top level of code.

    >>> import_lines("import numpy as np\\nx = np.pi\\nfrom math import pi")
    'import numpy as np\\nfrom math import pi'
    """
    try:
        tree = ast.parse(python_of(source))
    except (SyntaxError, ValueError):
        return ""
    return "\n".join(ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))


def imports_of(source: str) -> dict[str, list[str]]:
    """Return the modules that code imports, absolute ones only, and the names that it takes from each.

    >>> imports_of("import numpy as np, os.path\\nfrom rooflab import check, plots")
    {'numpy': [], 'os.path': [], 'rooflab': ['check', 'plots']}
    """
    try:
        tree = ast.parse(python_of(source))
    except (SyntaxError, ValueError):
        return {}
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.setdefault(alias.name, [])
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.setdefault(node.module, []).extend(alias.name for alias in node.names if alias.name != "*")
    return found


def python_of(source: str) -> str:
    """Return code without IPython's magics and shell lines.

    >>> python_of("%%capture shown\\nif a:\\n    files = !ls\\n    %cd x")
    'pass\\nif a:\\n    files = None\\n    pass'
    """
    with contextlib.suppress(SyntaxError, ValueError):
        ast.parse(source)
        return source  # a line that goes on with an operator is no magic
    first, _, rest = source.lstrip().partition("\n")
    if first.startswith("%%"):
        return f"pass\n{python_of(rest)}" if first[2:].split(None, 1)[:1] in _OF_PYTHON else ""
    return "\n".join(_MAGIC.sub(_python_line, line) for line in source.splitlines())


def _python_line(found: re.Match[str]) -> str:
    return f"{found['indent']}{found['names']}None" if found["names"] else f"{found['indent']}pass"
