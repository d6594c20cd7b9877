"""What does the README say about the book and about hardware? Its tables are generated, never typed.

    python tools/readme.py            write the generated parts of README.md
    python tools/readme.py --check    write nothing; exit 1 when a part is out of step

A part stands between ``<!-- name -->`` and ``<!-- /name -->``.

>>> replace("a <!-- units --> old <!-- /units --> b", "units", "new")
'a <!-- units -->\\nnew\\n<!-- /units --> b'
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from build import links
from percent import SourceError, read_source

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "shared"))

from rooflab.book import Book, Lab, Unit, open_book  # noqa: E402

# In the order of the hardware table: what a record's versions call it.
# Records of commands: the first word of their names, and what they are together.
_COMMANDS = {"kernels": "kernels", "ladder": "ladders"}
_NOTES = "docs/kernels.md"
_VERSIONS = ("torch", "triton", "jax", "cuda", "python")


class Damaged(Exception):
    """A file from which the README is made is not as it should be; the message names it and says what to do."""


class PartMissing(Damaged):
    """README.md lacks the two comments between which a generated part stands."""


def replace(text: str, part: str, content: str) -> str:
    """Put ``content`` between the two comments of ``part``."""
    pattern = re.compile(rf"(<!-- {part} -->).*?(<!-- /{part} -->)", re.DOTALL)
    if not pattern.search(text):
        raise PartMissing(f"README.md: expected <!-- {part} --> and <!-- /{part} -->, found no such pair: add it.")
    return pattern.sub(lambda found: f"{found[1]}\n{content}\n{found[2]}", text, count=1)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str) -> str:
    """Return a Markdown table, or the sentence ``empty`` where there is no row."""
    if not rows:
        return empty
    return "\n".join([_row(head), "|" + "---|" * len(head), *map(_row, rows)])


def badges(root: Path) -> str:
    """Return the badges that open the book's first page in Colab and in Binder."""
    place = links(root, Path("chapters/index.ipynb"))
    return (
        f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({place['colab_url']})\n"
        f"[![Open in Binder](https://mybinder.org/badge_logo.svg)]({place['binder_url']})"
    )


def install(root: Path) -> str:
    """Return the command that installs the package alone."""
    return f'    pip install "rooflab @ {links(root, Path("chapters/index.ipynb"))["install_url"]}"'


def units(book: Book) -> str:
    """Return the table of units and labs, in reading order."""
    rows = [_unit_row(unit, book) for series in book.series for unit in (*series.units, *series.labs)]
    return table(("", "unit", "its question"), rows, empty="No unit is written yet.")


def _unit_row(unit: Unit, book: Book) -> tuple[str, str, str]:
    assert unit.path is not None
    assert book.root is not None
    path = unit.path.relative_to(book.root).as_posix()
    what = f"{unit.points:g} points" if isinstance(unit, Lab) else unit.question
    number = f"{unit.id.partition('_')[0]} {unit.name.partition('_')[0]}"
    return number, f"[{unit.title}]({path})", what


def hardware(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of devices: what ran there, when, with which versions, at which commit."""
    devices: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        devices.setdefault(record["device"]["name"], []).append(record)
    rows = []
    for name, found in sorted(devices.items()):
        latest = max(found, key=lambda record: record["date"])
        versions = ", ".join(f"{key} {latest['versions'][key]}" for key in _VERSIONS if latest["versions"].get(key))
        found.sort(key=lambda record: record["unit"])
        names = _together(dict.fromkeys(record["unit"].rpartition("/")[2] for record in found))
        commits = dict.fromkeys(record["commit"][:7] for record in found)
        kind = latest["device"]["kind"]
        rows.append((name, kind, ", ".join(names), latest["date"][:10], versions, ", ".join(commits)))
    head = ("device", "kind", "ran", "last on", "versions", "commit")
    return table(head, rows, empty="Nothing is recorded yet: `make record` does it.")


def _together(names: Iterable[str]) -> list[str]:
    """What ran, where the records of one command are told by their number: they have the same first word."""
    found, counts = [], dict.fromkeys(_COMMANDS, 0)
    for name in names:
        first = name.partition("_")[0]
        if first in counts:
            counts[first] += 1
        else:
            found.append(name)
    return found + [f"[{count} {_COMMANDS[first]}]({_NOTES})" for first, count in counts.items() if count]


def read_records(root: Path) -> list[Mapping[str, Any]]:
    """Return every record under ``records/``.

    Raises:
        Damaged: one of them is not what `make record` writes.
    """
    records = []
    for path in sorted(root.glob("records/*/*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            texts = (record["device"]["name"], record["device"]["kind"], *map(record.get, ("unit", "date", "commit")))
            if not all(isinstance(text, str) for text in texts) or not isinstance(record["versions"], dict):
                raise TypeError("a name, a date or the versions are missing")
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise Damaged(
                f"{path.relative_to(root).as_posix()} is no record ({type(error).__name__}: {error}): measure it again "
                "with `make record`, or take it out."
            ) from None
        records.append(record)
    return records


def generate(text: str, root: Path) -> str:
    """Return README.md with its generated parts as the book and the records say."""
    records = read_records(root)
    for part, content in {
        "badges": badges(root),
        "install": install(root),
        "units": units(open_book(root)),
        "hardware": hardware(records),
    }.items():
        text = replace(text, part, content)
    return text


def main(arguments: Sequence[str]) -> int:
    """Write README.md, or compare it."""
    parser = argparse.ArgumentParser(description="Write the generated parts of README.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a part is out of step")
    given = parser.parse_args(arguments)
    path = ROOT / "README.md"
    try:
        text = read_source(path, "README.md")
        new = generate(text, ROOT)
    except (Damaged, SourceError) as problem:
        print(problem, file=sys.stderr)
        return 1
    if new == text:
        return 0
    if given.check:
        print("README.md is out of step with chapters/, labs/ or records/: run `make build`.", file=sys.stderr)
        return 1
    try:
        part = path.with_suffix(".part")
        part.write_text(new, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        print(f"README.md cannot be written: {error.strerror}.", file=sys.stderr)
        return 1
    print("wrote README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
