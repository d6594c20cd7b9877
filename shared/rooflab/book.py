"""What is in the book, where is it, and how far has the reader come?

The folders are the table of contents: what has a notebook is a unit or a lab, and nothing else is.

>>> book = Book(None, (Series("s1_measurement", (Unit("s1_measurement/u1_step_cost", "What does a step cost?"),)),))
>>> find(book, "u1_step_cost").id, find(book, "s1/u1").id
('s1_measurement/u1_step_cost', 's1_measurement/u1_step_cost')
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Book", "Exercise", "Lab", "Series", "Unit", "UnknownUnit", "find", "find_root", "open_book", "results_root",
           "show_map"]  # fmt: skip

# A reader of English prose in a foreign subject; guess, run, look at the figure.
_WORDS_A_MINUTE, _MINUTES_A_CELL = 200, 1
_CHECK = re.compile(r"-(check|hidden)-\d+$")


class UnknownUnit(LookupError):
    """No unit or lab of the book has this name; the message names those that are near."""


@dataclass(frozen=True)
class Exercise:
    """One exercise of a lab; `written` ones are graded by a person."""

    name: str
    title: str
    points: float
    written: bool = False


@dataclass(frozen=True)
class Unit:
    """One chapter notebook: its place in the book, its title, the one question it asks, its file, its time in words."""

    id: str
    title: str
    question: str = ""
    path: Path | None = None
    duration: str = ""

    @property
    def name(self) -> str:
        """The last part of its id."""
        return self.id.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Lab(Unit):
    """One lab: `path` is the student's edition, `solution` the instructor's (None where it was not handed out)."""

    solution: Path | None = None
    exercises: tuple[Exercise, ...] = ()

    @property
    def points(self) -> float:
        """The points of all its exercises."""
        return sum(exercise.points for exercise in self.exercises)


@dataclass(frozen=True)
class Series:
    """A folder of units with the labs that go with them."""

    id: str
    units: tuple[Unit, ...] = ()
    labs: tuple[Lab, ...] = ()

    @property
    def title(self) -> str:
        """Number and subject as the folder's name says: "1 Measurement"."""
        number, _, subject = self.id.partition("_")
        return f"{number.removeprefix('s')} {subject.replace('_', ' ').capitalize()}".strip()


@dataclass(frozen=True)
class Book:
    """All series in order; `root` is the repository, None where there is none."""

    root: Path | None
    series: tuple[Series, ...] = ()

    @property
    def units(self) -> tuple[Unit, ...]:
        """Every unit, in reading order."""
        return tuple(unit for series in self.series for unit in series.units)

    @property
    def labs(self) -> tuple[Lab, ...]:
        """Every lab, in reading order."""
        return tuple(lab for series in self.series for lab in series.labs)


def find_root(start: Path | None = None) -> Path | None:
    """Find the repository: above the working folder, else where the package lies; None where there is none.

    Args:
        start: where to look first; default: the working folder.
    """
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (folder / "shared" / "rooflab" / "__init__.py").is_file() and (folder / "chapters").is_dir():
            return folder
    return None


def results_root() -> Path:
    """The folder for all results that no option sends elsewhere: one in the clone that git ignores."""
    return (find_root() or Path.cwd()) / ".rooflab"


def open_book(root: Path | None = None) -> Book:
    """Read the table of contents from the folders.

    Args:
        root: the repository; default: `find_root()`. Without one the book is empty.
    """
    root = root or find_root()
    if root is None:
        return Book(None)
    folders = {path.name for part in ("chapters", "labs") for path in (root / part).glob("s*_*") if path.is_dir()}
    return Book(root, tuple(series for name in sorted(folders, key=_natural) if (series := _series(root, name))))


def _series(root: Path, name: str) -> Series | None:
    units = tuple(_unit(name, path) for path in _notebooks(root / "chapters" / name))
    labs = tuple(_lab(root, name, path) for path in _notebooks(root / "labs" / name))
    return Series(name, units, labs) if units or labs else None


def _notebooks(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.ipynb"), key=lambda path: _natural(path.stem))


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _cells(path: Path) -> list[dict[str, Any]]:
    """The cells of a notebook; none when the file holds no notebook (`make check` is what complains)."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []


def _marks(cell: dict[str, Any]) -> dict[str, Any]:
    """The marks of nbgrader on a cell; none where they are damaged."""
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return marks if isinstance(marks, dict) and isinstance(marks.get("grade_id"), str) else {}


def _text(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(map(str, source)) if isinstance(source, list) else ""


def _title(cells: list[dict[str, Any]], default: str) -> tuple[str, str]:
    """The heading of the first markdown cell, and the question that the first paragraph below it comes to."""
    first = next((_text(cell) for cell in cells if cell.get("cell_type") == "markdown"), "")
    title = next((line.lstrip("# ").strip() for line in first.splitlines() if line.startswith("# ")), default)
    paragraphs = (" ".join(part.split()) for part in first.split("\n\n") if not part.startswith(("#", "[![")))
    asked = re.sub(r"(?<!\w)[*_`]{1,2}|[*_`]{1,2}(?!\w)", "", next((part for part in paragraphs if "?" in part), ""))
    sentences = re.split(r"(?<=[.!?])\s+", asked)
    last = next((i for i, sentence in enumerate(sentences) if sentence.endswith("?")), -1)
    # "Somebody is lying. Who?" is one question.
    first_of_it = last - 1 if last > 0 and len(sentences[last]) < 25 else last
    return title, " ".join(sentences[first_of_it : last + 1]) if last >= 0 else ""


def _duration(cells: list[dict[str, Any]]) -> str:
    """What the text allows ("Allow two hours."), else the time to read it and to run and look at each code cell."""
    text = " ".join(" ".join(_text(cell) for cell in cells if cell.get("cell_type") == "markdown").split())
    if allowed := re.search(r"\bAllow ((?:[\w-]+ ){1,3}(?:hours?|minutes))\b", text):
        return allowed[1]
    code = sum(cell.get("cell_type") == "code" for cell in cells)
    minutes = len(text.split()) / _WORDS_A_MINUTE + code * _MINUTES_A_CELL
    return f"about {max(1, round(minutes / 5)) * 5} minutes" if cells else ""


def _unit(series: str, path: Path) -> Unit:
    cells = _cells(path)
    return Unit(f"{series}/{path.stem}", *_title(cells, path.stem), path, _duration(cells))


def _lab(root: Path, series: str, path: Path) -> Lab:
    cells = _cells(path)
    solution = root / "solutions" / series / path.name
    return Lab(
        f"{series}/{path.stem}",
        *_title(cells, path.stem),
        path,
        _duration(cells),
        solution=solution if solution.is_file() else None,
        exercises=tuple(_exercises(cells)),
    )


def _exercises(cells: list[dict[str, Any]]) -> Iterator[Exercise]:
    """The exercises as nbgrader's metadata tell them: points of visible and hidden checks belong to one exercise."""
    found: dict[str, Exercise] = {}
    heading = ""
    for cell in cells:
        if cell.get("cell_type") == "markdown":
            heading = next((line.lstrip("# ") for line in _text(cell).splitlines() if line.startswith("#")), heading)
        meta = _marks(cell)
        if not (meta.get("solution") or meta.get("grade")):
            continue
        name = _CHECK.sub("", meta["grade_id"])
        old = found.get(name) or Exercise(name, heading or name, 0, written=cell.get("cell_type") == "markdown")
        points = meta.get("points") if meta.get("grade") else 0
        points = points if isinstance(points, int | float) else 0
        found[name] = Exercise(name, old.title, old.points + points, old.written)
    yield from found.values()


def find(book: Book, name: str) -> Unit:
    """Find a unit or a lab by its id, by its last part, by its numbers (``s1/u1``), or by the path of its file.

    Raises:
        UnknownUnit: none or several have this name; the message lists near or matching ones.
    """
    if book.root is None and not book.series:
        raise UnknownUnit("The book is not here: run this inside a clone of the Rooflab repository.")
    wanted = re.sub(r"\.(py|ipynb)$", "", name.strip().strip("/").removeprefix("./"))
    wanted = re.sub(r"^.*?(?:chapters|labs|solutions)/", "", wanted)
    every: dict[str, Unit] = {unit.id: unit for unit in (*book.units, *book.labs)}
    if wanted in every:
        return every[wanted]
    found = [unit for unit in every.values() if wanted in _short_names(unit)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownUnit(f"{name!r} fits several units: {', '.join(unit.id for unit in found)}. Write one in full.")
    short = {alias: unit.id for unit in every.values() for alias in (unit.id, *_short_names(unit))}
    near = dict.fromkeys(short[alias] for alias in difflib.get_close_matches(wanted, short, n=5, cutoff=0.5))
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(every) or 'none yet'}."
    raise UnknownUnit(f"There is no unit {name!r}. {hint}")


def _short_names(unit: Unit) -> tuple[str, ...]:
    series, _, name = unit.id.rpartition("/")
    number, which = series.partition("_")[0], name.partition("_")[0]
    return (name, which, f"{number}/{which}", f"{number}/{name}", f"{series}/{which}")


def show_map() -> None:
    """Show every unit and lab with links, and the reader's progress through the labs."""
    from .bookmap import render_html, render_text
    from .display import show_text
    from .records import progress

    book, done = open_book(), progress()
    show_text(render_text(book, done), html=render_html(book, done, base=Path.cwd()))
