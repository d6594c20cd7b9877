"""How many points does each kept answer of a lab get?

    python tools/variants.py                                           every lab; exit 1 if a rule is broken
    python tools/variants.py solutions/s1_measurement/lab1_timer.py    this lab
    python tools/variants.py --json ...                                only the scores, as JSON
    python tools/variants.py --times 20 ...                            so often: no verdict may hang on fresh values

``tests/labs/<lab>/wrong_<exercise>_<misconception>.py`` and ``right_<manner>.py`` hold a one-line docstring and one
``# %% exercise="name"`` cell for each exercise that they answer differently; the other exercises stay solved. Every
answer runs in a fork of this process, cell by cell as nbgrader would run it, and nbgrader's own rule turns the output
of a graded cell into points. A kernel for each of them would take minutes, this takes seconds. The rules: the untouched
lab scores 0; the solution and every right answer score full marks; a wrong answer loses points in its exercise only.

>>> lost({"f-check-1": (2, 2), "f-hidden-1": (0, 3), "g-check-1": (1, 1)})
{'f'}
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import re
import sys
import types
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import cell_run
from build import ROOT, expected_notebooks, sources
from lab_cells import DEMO, SOLUTION
from percent import SourceError, parse, read_source, syntax_error

__all__ = ["Lab", "Variant", "complaints", "load", "lost", "read_variant", "score", "score_all"]

ANSWER_LIMIT_S = 120
Scores = dict[str, tuple[float, float]]  # grade id -> points, most points


@dataclass(frozen=True)
class Lab:
    """The two editions of a lab, as lists of notebook cells."""

    name: str
    instructor: list[dict[str, Any]]
    student: list[dict[str, Any]]

    @property
    def exercises(self) -> dict[str, str]:
        """Solved source of every exercise, by name."""
        return _exercises(self.instructor)


@dataclass(frozen=True)
class Variant:
    """A kept answer: ``answers`` replaces the source of some exercises; ``target`` is what a wrong one gets wrong."""

    name: str
    misconception: str
    answers: Mapping[str, str]
    target: str | None = None


def load(script: Path, root: Path = ROOT) -> Lab:
    """Build both editions of the lab ``script`` (relative to ``root``) in memory."""
    if script.parts[0] != "solutions":
        raise SourceError([f"{script.as_posix()} is no lab; expected solutions/<series>/lab<number>_<topic>.py."])
    instructor, student = (
        [{**cell, "source": "".join(cell["source"])} for cell in json.loads(text)["cells"]]
        for text in expected_notebooks(script, root).values()
    )
    return Lab(script.stem, instructor, student)


def read_variant(path: Path, exercises: Mapping[str, str]) -> Variant:
    """Read ``wrong_<exercise>_<misconception>.py`` or ``right_<manner>.py``.

    Raises:
        SourceError: with one sentence for what the file lacks.
    """
    text = read_source(path, path.name)
    head, mark, rest = text.partition("\n# %%")
    cells = parse("\n" * head.count("\n") + mark + rest, path.name)
    try:
        doc = ast.get_docstring(ast.parse(head)) or ""
    except SyntaxError as error:
        raise SourceError([f"{path.name}:{error.lineno}: its head is no valid Python ({error.msg})."]) from None
    if wrong := [error for cell in cells if (error := syntax_error(cell.source))]:
        raise SourceError([f"{path.name}: an answer that is no valid Python proves nothing ({wrong[0]})."])
    answers = {str(cell.options.get("exercise")): cell.source for cell in cells}
    target = next(iter(answers), None) if path.stem.startswith("wrong_") else None
    if not doc.strip() or "\n" in doc:
        raise SourceError([f"{path.name}: expected a docstring of one line: the misconception or the manner."])
    if strangers := answers.keys() - exercises.keys():
        raise SourceError([f"{path.name}: {sorted(strangers)} are no exercises; expected some of {sorted(exercises)}."])
    if not answers or len(answers) != len(cells):
        raise SourceError([f"{path.name}: expected one '# %% exercise=\"name\"' cell for each exercise answered."])
    if target and (len(answers) != 1 or not path.stem.startswith(f"wrong_{target}_")):
        raise SourceError([f"{path.name}: one exercise is wrong, and gives the name wrong_<exercise>_<why>.py."])
    return Variant(path.stem, doc, answers, target)


def variants_of(lab: Lab, folder: Path) -> list[Variant]:
    """Return the untouched lab, the solution and every kept answer in ``folder``."""
    files = sorted([*folder.glob("wrong_*.py"), *folder.glob("right_*.py")])
    return [
        Variant("blank", "Nothing is answered.", _exercises(lab.student)),
        Variant("solved", "The solution.", {}),
        *(read_variant(path, lab.exercises) for path in files),
    ]


def score_all(lab: Lab, variants: list[Variant]) -> dict[str, Scores]:
    """Score every variant in a fork of its own; one that hangs or dies scores zero."""
    import nbgrader.utils  # noqa: F401  (once here, not in every fork)

    _preload(lab)
    return {variant.name: _score_in_fork(lab, variant) for variant in variants}


def score(lab: Lab, variant: Variant) -> Scores:
    """Run the cells in this process, as nbgrader's autograder would, and return the points of every graded cell."""
    from nbformat import from_dict
    from nbgrader.utils import determine_grade, is_grade

    sys.modules["__main__"] = main_module = types.ModuleType("__main__")
    main_module.__dict__["display"] = lambda *values, **options: None
    streams = cell_run.Stream("stdout"), cell_run.Stream("stderr")
    scores: Scores = {}
    for cell in lab.instructor:
        marks = cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] != "code" or {DEMO, SOLUTION} & set(cell["metadata"].get("tags", [])):
            continue
        source = variant.answers.get(marks["grade_id"], cell["source"]) if marks.get("solution") else cell["source"]
        outputs = cell_run.run(source, f"<{cell['id']}>", main_module.__dict__, streams)
        done = from_dict({**cell, "source": source, "outputs": outputs})
        if is_grade(done):
            scores[marks["grade_id"]] = determine_grade(done)
    return scores


def lost(scores: Scores) -> set[str]:
    """Return the exercises that did not get all of their points."""
    return {re.sub(r"-(check|hidden)-\d+$", "", name) for name, (points, most) in scores.items() if points < most}


def complaints(variant: Variant, scores: Scores) -> list[str]:
    """Say what is wrong with the points that ``variant`` got; an empty list if nothing is."""
    short = lost(scores)
    name = f"{variant.name} ({variant.misconception})"
    if variant.name == "blank":
        got = [grade for grade, (points, _) in scores.items() if points]
        return [f"{name} gets points for {', '.join(got)}; the untouched lab has to score 0."] if got else []
    if variant.target is None:
        return [f"{name} loses points in {', '.join(sorted(short))}; it has to get full marks."] if short else []
    sentences = []
    if variant.target not in short:
        sentences.append(f"{name} gets full marks for {variant.target}; no check sees the mistake.")
    if others := sorted(short - {variant.target}):
        sentences.append(f"{name} also loses points in {', '.join(others)}; only {variant.target} is wrong.")
    return sentences


def _exercises(cells: list[dict[str, Any]]) -> dict[str, str]:
    marked = ((cell, cell["metadata"].get("nbgrader", {})) for cell in cells if cell["cell_type"] == "code")
    return {marks["grade_id"]: cell["source"] for cell, marks in marked if marks.get("solution")}


def _preload(lab: Lab) -> None:
    """Import what the lab imports, so that no fork pays for it; nothing is run, so no thread is started."""
    for cell in lab.instructor:
        with suppress(SyntaxError):  # magics
            for node in ast.walk(ast.parse(cell["source"])) if cell["cell_type"] == "code" else ():
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module:
                    names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                for name in names:
                    with suppress(ImportError):
                        import_module(name)


def _score_in_fork(lab: Lab, variant: Variant) -> Scores:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads of OpenBLAS
        warnings.simplefilter("ignore", RuntimeWarning)  # JAX warns once its threads run; the fork does not use it
        child = context.Process(target=lambda: sender.send(score(lab, variant)))
        child.start()
    sender.close()
    try:
        if receiver.poll(ANSWER_LIMIT_S):
            with suppress(EOFError):
                scores: Scores = receiver.recv()
                return scores
    finally:
        child.kill()
        child.join()
    marks = [cell["metadata"].get("nbgrader", {}) for cell in lab.instructor if cell["cell_type"] == "code"]
    return {mark["grade_id"]: (0.0, float(mark["points"])) for mark in marks if mark.get("grade")}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Score the kept answers of the labs.")
    parser.add_argument("--json", action="store_true", help="print the scores only")
    parser.add_argument("--times", type=int, default=1, choices=range(1, 1001), metavar="N", help="score all N times")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this answer, such as solved; repeatable")
    parser.add_argument("--root", type=Path, default=ROOT, help="the course (default: this one)")
    parser.add_argument("scripts", nargs="*", type=Path, help="labs, relative to the course (default: all)")
    given = parser.parse_args(arguments)
    os.environ.setdefault("MPLBACKEND", "agg")
    os.environ |= {"NBGRADER_EXECUTION": "autograde", "ROOFLAB_HEADLESS": "1"}
    every: dict[str, dict[str, Scores]] = {}
    failures: list[str] = []
    try:
        root = given.root.resolve()
        for script in given.scripts or [path for path in sources(root) if path.parts[0] == "solutions"]:
            lab = load(script, root)
            variants = variants_of(lab, root / "tests" / "labs" / lab.name)
            variants = [variant for variant in variants if not given.only or variant.name in given.only]
            for _ in range(given.times):
                every[lab.name] = score_all(lab, variants)
                failures += [f"{lab.name}: {told}" for v in variants for told in complaints(v, every[lab.name][v.name])]
        if not any(every.values()):  # nothing that could be wrong is no proof that all is right
            raise SourceError(
                [f"No answer was scored: {root} has no lab, or none of its answers bears the name given."]
            )
    except SourceError as error:
        print("\n".join(error.problems), file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps(every))
        return 0
    for name, scored in every.items():
        for variant, scores in scored.items():
            points, most = (sum(pair[side] for pair in scores.values()) for side in (0, 1))
            print(f"{name}  {points:5g} / {most:g}  {variant:40} {', '.join(sorted(lost(scores)))}".rstrip())
    print("\n".join(dict.fromkeys(failures)), file=sys.stderr, end="\n" if failures else "")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
