"""Which notebook does a script become?

    python tools/build.py                    build every notebook that is out of step
    python tools/build.py --check            write nothing; name every pair that is out of step, exit 1 if there is one
                                             (the outputs of a notebook that was run here do not count)
    python tools/build.py chapters/s1_measurement/u1_step_cost.py     only these scripts

``chapters/**/uN_topic.py`` and ``chapters/index.py`` become the notebook beside them.
``solutions/<series>/labN_topic.py`` becomes the instructor edition beside it and, through nbgrader's own preprocessors
and nbgrader_config.py, the student edition in ``labs/``. The same script gives the same bytes everywhere.

>>> cell_id(7)
'cell-07'
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from lab_cells import SOLUTION, instructor_cells
from percent import Cell, SourceError, for_readers, parse, read_source, syntax_error, with_online_links
from used import answered, same_but_for_a_run

__all__ = ["build", "cell_id", "check", "expected_notebooks", "links", "main", "sources"]

ROOT = Path(__file__).resolve().parents[1]
COMMAND = "python tools/build.py"
_KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_NAMES = {
    "chapters": (r"chapters/(index|(.+/)?u\d+_\w+)\.py", "chapters/<series>/u<number>_<topic>.py or chapters/index.py"),
    "solutions": (r"solutions/\w+/lab\d+_\w+\.py", "solutions/<series>/lab<number>_<topic>.py"),
}
_PLACEHOLDER = re.compile(r"\{\{ (\w+_url) \}\}")


def cell_id(position: int) -> str:
    """Return the id of the cell at ``position``, counted from 0 in the script."""
    return f"cell-{position:02d}"


def sources(root: Path = ROOT) -> list[Path]:
    """List the scripts that become notebooks, relative to ``root``.

    Raises:
        SourceError: a script whose name does not say what it is.
    """
    found, problems = [], []
    for folder, (pattern, expected) in _NAMES.items():
        for path in sorted((root / folder).rglob("*.py")):
            relative = path.relative_to(root)
            if ".ipynb_checkpoints" in relative.parts or "__pycache__" in relative.parts:
                continue
            if re.fullmatch(pattern, relative.as_posix()):
                found.append(relative)
            else:
                problems.append(f"{relative.as_posix()}: no notebook has this name; expected {expected}.")
    if problems:
        raise SourceError(problems)
    return found


def expected_notebooks(script: Path, root: Path = ROOT) -> dict[Path, str]:
    """Return the text of each notebook that ``script`` becomes, by path; both relative to ``root``.

    Raises:
        SourceError: with one sentence for each thing to mend in the script.
    """
    name = script.as_posix()
    cells = parse(read_source(root / script, name), name)
    beside = script.with_suffix(".ipynb")
    lab = script.parts[0] == "solutions"
    # Both editions of a lab link to the student edition.
    linked = Path("labs", *beside.parts[1:]) if lab else beside
    cells = _fill_links(cells, name, links(root, linked), linked.parent.as_posix())
    problems = [
        f"{name}:{cell.line}: the code cell is no valid Python ({error})."
        for cell in cells
        if cell.kind == "code" and (error := syntax_error(cell.source))
    ]
    if problems:
        raise SourceError(problems)
    if not lab:
        return {beside: _dump(_notebook(_chapter_cells(cells, name)))}
    notebook = _notebook(instructor_cells(cells, name))
    return {beside: _dump(notebook), linked: _dump(_student_edition(notebook, name, root))}


def build(scripts: list[Path], root: Path = ROOT) -> list[Path]:
    """Write the notebooks of ``scripts`` that differ from what is there, but no lab with answers; returns their paths.

    Raises:
        SourceError: with the problems of every script that has one; the notebooks of the others are written.
    """
    pairs, problems = _pairs(scripts, root)
    changed = [(path, text) for _, path, text in pairs if _read(root / path) != text and not answered(root / path)]
    for path, text in changed:
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            part = (root / path).with_suffix(".part")
            part.write_text(text, encoding="utf-8", newline="\n")
            part.replace(root / path)
        except OSError as error:
            problems.append(f"{path.as_posix()} cannot be written: {error.strerror}.")
    if problems:
        raise SourceError(problems)
    return [path for path, _ in changed]


def check(scripts: list[Path], root: Path = ROOT) -> list[str]:
    """Return one sentence for each problem of a script, and for each notebook that is missing or out of step."""
    pairs, sentences = _pairs(scripts, root)
    for script, path, text in pairs:
        there = _read(root / path)
        if there != text and not answered(root / path) and not same_but_for_a_run(there, text):
            state = "is missing, and is made from" if there is None else "is out of step with"
            sentences.append(f"{path.as_posix()} {state} {script.as_posix()}: run `{COMMAND} {script.as_posix()}`.")
    return sentences


def orphans(root: Path = ROOT) -> list[str]:
    """Return one sentence for each notebook that no script becomes."""
    beside = {script.with_suffix(".ipynb") for script in sources(root)}
    made = beside | {Path("labs", *path.parts[1:]) for path in beside if path.parts[0] == "solutions"}
    there = [p.relative_to(root) for folder in (*_NAMES, "labs") for p in sorted((root / folder).rglob("*.ipynb"))]
    return [
        f"{path.as_posix()} has no script: write it, or run `git rm {path.as_posix()}`."
        for path in there
        if path not in made and ".ipynb_checkpoints" not in path.parts
    ]


def _pairs(scripts: list[Path], root: Path) -> tuple[list[tuple[Path, Path, str]], list[str]]:
    """Return (script, notebook, its text) of the scripts that can be built, and the problems of the others."""
    pairs: list[tuple[Path, Path, str]] = []
    problems: list[str] = []
    for script in scripts:
        try:
            pairs += [(script, path, text) for path, text in expected_notebooks(script, root).items()]
        except SourceError as error:
            problems += error.problems
    return pairs, problems


def links(root: Path, notebook: Path) -> dict[str, str]:
    """Return the addresses of the repository and of ``notebook`` in it, as [tool.rooflab] of pyproject.toml says."""
    try:
        place = tomllib.loads(read_source(root / "pyproject.toml", "pyproject.toml"))["tool"]["rooflab"]
        owner, repository, branch = place["owner"], place["repository"], place["branch"]
    except (tomllib.TOMLDecodeError, LookupError, TypeError) as error:
        expected = "expected owner, repository and branch in [tool.rooflab]"
        raise SourceError([f"pyproject.toml: {expected}, found {type(error).__name__}: {error}."]) from None
    path = notebook.as_posix()
    return {
        "repository_url": f"https://github.com/{owner}/{repository}",
        "files_url": f"https://github.com/{owner}/{repository}/blob/{branch}",
        "install_url": f"git+https://github.com/{owner}/{repository}@{branch}",
        "colab_url": f"https://colab.research.google.com/github/{owner}/{repository}/blob/{branch}/{path}",
        "binder_url": f"https://mybinder.org/v2/gh/{owner}/{repository}/{branch}?urlpath=lab/tree/{path}",
    }


def _fill_links(cells: list[Cell], name: str, links: dict[str, str], folder: str) -> list[Cell]:
    unknown = [
        f"{name}:{cell.line}: unknown link {{{{ {key} }}}}; expected one of {', '.join(sorted(links))}."
        for cell in cells
        for key in _PLACEHOLDER.findall(cell.source)
        if key not in links
    ]
    if unknown:
        raise SourceError(unknown)
    filled = [replace(cell, source=_PLACEHOLDER.sub(lambda match: links[match[1]], cell.source)) for cell in cells]
    return [
        replace(cell, source=for_readers(cell.source) if cell.kind == "code"
                else with_online_links(cell.source, folder, links["files_url"]))
        for cell in filled
    ]  # fmt: skip


def _chapter_cells(cells: list[Cell], name: str) -> list[dict[str, Any]]:
    problems = []
    for cell in cells:
        tags = cell.options.get("tags", [])
        if unknown := cell.options.keys() - {"tags"}:
            problems.append(f"{name}:{cell.line}: a chapter knows tags only, found {', '.join(sorted(unknown))}.")
        elif not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags) or SOLUTION in tags:
            problems.append(f"{name}:{cell.line}: tags of a chapter are a list of strings without {SOLUTION!r}.")
    if problems:
        raise SourceError(problems)
    return [{"cell_type": cell.kind, "source": cell.source, "metadata": dict(cell.options)} for cell in cells]


def _notebook(cells: list[dict[str, Any]]) -> dict[str, Any]:
    for position, cell in enumerate(cells):
        cell["id"] = cell_id(position)
        if cell["cell_type"] == "code":
            cell |= {"execution_count": None, "outputs": []}
    return {"cells": cells, "metadata": _KERNEL, "nbformat": 4, "nbformat_minor": 5}


def _dump(notebook: dict[str, Any]) -> str:
    """Serialize as nbformat does, but by a rule that no version of it can change."""
    cells = [{**cell, "source": cell["source"].splitlines(keepends=True)} for cell in notebook["cells"]]
    text = json.dumps({**notebook, "cells": cells}, sort_keys=True, indent=1, ensure_ascii=False)
    return text + "\n"


@cache
def _config(root: Path) -> Any:
    from traitlets.config.loader import PyFileConfigLoader

    try:
        return PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
    except (Exception, SystemExit) as error:  # whatever a script can raise
        raise SourceError([f"nbgrader_config.py cannot be used ({type(error).__name__}: {error})."]) from None


def _student_edition(notebook: dict[str, Any], name: str, root: Path) -> dict[str, Any]:
    """Apply the preprocessors of ``nbgrader generate_assignment``; SaveCells only fills its database."""
    try:
        import nbformat
        from nbconvert.exporters import NotebookExporter
        from nbgrader.preprocessors import SaveCells
    except ModuleNotFoundError as error:
        sentence = f"{name}: labs are made with nbgrader: run `pip install -e .[classroom]` ({error})."
        raise SourceError([sentence]) from None
    config = _config(root).copy()
    config.Exporter.default_preprocessors = []
    exporter = NotebookExporter(config=config)
    for preprocessor in config.GenerateAssignment.preprocessors:
        if preprocessor is not SaveCells:
            exporter.register_preprocessor(preprocessor)
    resources = {"nbgrader": {"notebook": Path(name).stem, "assignment": Path(name).parent.name, "student": "."}}
    text, _ = exporter.from_notebook_node(nbformat.from_dict(notebook), resources)
    student: dict[str, Any] = json.loads(text)
    for cell in student["cells"]:
        cell["source"] = "".join(cell["source"])
        if cell["cell_type"] == "code" and (error := syntax_error(cell["source"])):
            raise SourceError([f"{name}: without its solution, {cell['id']} is no valid Python ({error})."])
    return student


def _read(path: Path) -> str | None:
    return path.read_bytes().decode("utf-8", errors="replace") if path.is_file() else None


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build the notebooks from their scripts.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a pair is out of step")
    parser.add_argument("scripts", nargs="*", type=Path, help="only these scripts (default: all)")
    given = parser.parse_args(arguments)
    try:
        every = sources(ROOT)
        scripts = [Path(os.path.relpath(path.resolve(), ROOT)) for path in given.scripts] or every
        if strangers := [path for path in scripts if path not in every]:
            raise SourceError([f"{path.as_posix()}: no script of a notebook is there." for path in strangers])
        sentences = check(scripts, ROOT) + ([] if given.scripts else orphans(ROOT)) if given.check else []
        changed = [] if given.check else build(scripts, ROOT)
        labs = [Path("labs", *script.with_suffix(".ipynb").parts[1:]) for script in scripts]
    except SourceError as error:
        print("\n".join(dict.fromkeys(error.problems)), file=sys.stderr)
        return 1
    for path in changed:
        print(f"built {path.as_posix()}")
    for path in [path for path in labs if not given.check and answered(ROOT / path)]:
        print(f"kept {path.as_posix()}: it holds answers (move it away to have it built again)")
    print("\n".join(sentences), file=sys.stderr, end="\n" if sentences else "")
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
