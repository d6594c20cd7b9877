"""The layout rules of chapters: the arc, the sizes, and no measured number in prose."""

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("s*/u*.ipynb"))

CODE_CELLS = range(12, 21)
WORDS = range(2000, 3501)
MEDIAN_LINES, MOST_LINES, KERNEL_LINES = 6, 25, 40
KERNEL = re.compile(r"@triton\.jit|pallas_call|@jit_kernel|load_inline")
UNIT = re.compile(r"(?<![\w.])\d[\d.,]*\s*(?:(?:[kMGTP]i?)?(?:B|FLOP)/s|(?:GB|TB)ps|ms|[µμu]s|ns)(?![\w/])")
# A sentence that supposes, defines or quotes a datasheet claims no measurement; nor does a question.
NO_CLAIM = re.compile(
    r"\b(datasheet|data sheet|by definition|suppose|imagine|say|for example|assume|at most|at least|would|if)\b", re.I
)


def text_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def of_kind(notebook: dict[str, Any], kind: str) -> list[str]:
    return [text_of(cell) for cell in notebook["cells"] if cell["cell_type"] == kind]


def prose(notebook: dict[str, Any]) -> str:
    """The markdown without fenced code, code spans, link targets and HTML."""
    text = "\n\n".join(of_kind(notebook, "markdown"))
    text = re.sub(r"```.*?```|`[^`]*`", " ", text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)|https?://\S+|<[^>]+>", " ", text)


def measured_claims(text: str) -> list[str]:
    """The sentences that state a number with the unit of a measurement; table rows count as sentences.

    "It runs at 200 GFLOP/s. Is that good?" is a question as a whole.
    """
    found = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[|*\-#])", text):
        sentences = re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split()))
        for sentence, following in zip(sentences, [*sentences[1:], ""], strict=True):
            asks = any(each.rstrip("*_ ").endswith("?") for each in (sentence, following))
            if UNIT.search(sentence) and not NO_CLAIM.search(sentence) and not asks:
                found.append(sentence)
    return found


def size_problems(notebook: dict[str, Any]) -> list[str]:
    """What is too long or too short."""
    cells = of_kind(notebook, "code")
    lines = [sum(1 for line in cell.splitlines() if line.strip()) for cell in cells]
    words = sum(1 for word in prose(notebook).split() if re.search(r"[^\W\d_]", word))
    problems = []
    if len(cells) not in CODE_CELLS:
        problems.append(f"{len(cells)} code cells; expected {CODE_CELLS[0]} to {CODE_CELLS[-1]}")
    if lines and statistics.median(lines) > MEDIAN_LINES:
        problems.append(
            f"code cells have a median of {statistics.median(lines)} lines; expected at most {MEDIAN_LINES}"
        )
    for number, (cell, count) in enumerate(zip(cells, lines, strict=True), start=1):
        most = KERNEL_LINES if KERNEL.search(cell) else MOST_LINES
        if count > most:
            problems.append(f"code cell {number} has {count} lines; expected at most {most}")
    if words not in WORDS:
        problems.append(f"{words} words; expected {WORDS[0]:,} to {WORDS[-1]:,}")
    return problems


def arc_problems(notebook: dict[str, Any]) -> list[str]:
    """What is missing from the arc: title, question, closing sections, the lab."""
    markdown = of_kind(notebook, "markdown")
    whole = "\n".join(markdown)
    problems = []
    if not markdown or not re.match(r"# \S", markdown[0]):
        problems.append("the first cell is the title")
    if markdown and "?" not in markdown[0]:
        problems.append("the first cell asks the unit's question")
    for heading in ("What we learned", "Go further"):
        if not re.search(rf"^#+ {heading}\s*$", whole, re.MULTILINE):
            problems.append(f"no heading {heading!r}")
    if not re.search(r"\]\([^)]*labs/[^)]*\)", whole):
        problems.append("no link to the lab")
    if not re.search(r"\*\*Takeaway\.?\*\*", whole):
        problems.append("no **Takeaway**")
    return problems


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def problems_of(path: Path) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    claims = [f"a measured number in prose: {claim}" for claim in measured_claims(prose(notebook))]
    return arc_problems(notebook) + size_problems(notebook) + claims


def test_chapters_keep_the_rules():
    found = {name_of(path): problems for path in CHAPTERS if (problems := problems_of(path))}
    assert not found, "\n".join(f"{name}: {problem}" for name, problems in found.items() for problem in problems)


def notebook_of(*cells: tuple[str, str]) -> dict[str, Any]:
    return {"cells": [{"cell_type": kind, "source": [source]} for kind, source in cells]}


def good() -> dict[str, Any]:
    opening = "# What does it cost?\n\nHow long does a step take?\n\n" + "word " * 2100
    closing = "**Takeaway.** Wait.\n\n## What we learned\n\nx\n\n## Go further\n\n[lab](../../labs/s1/lab1.ipynb)"
    return notebook_of(("markdown", opening), *[("code", "x = 1")] * 12, ("markdown", closing))


def test_a_good_chapter_has_no_problem():
    assert not arc_problems(good()) + size_problems(good()) + measured_claims(prose(good()))


@pytest.mark.parametrize(
    "missing", ["# What does it cost?", "?", "## What we learned", "## Go further", "labs/", "**T"]
)
def test_a_gap_in_the_arc_is_found(missing):
    broken = json.loads(json.dumps(good()).replace(missing, ""))
    assert len(arc_problems(broken)) == 1


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("x = 1", "x = 1\n" * 7, "median"),
        ("word " * 2100, "word " * 100, "words"),
        ("word " * 2100, "word " * 4000, "words"),
    ],
)
def test_a_wrong_size_is_found(old, new, problem):
    broken = good()
    for cell in broken["cells"]:
        cell["source"] = [text_of(cell).replace(old, new)]
    assert problem in size_problems(broken)[0]


def test_a_long_cell_and_a_wrong_number_of_cells_are_found():
    long = good()
    long["cells"][1] = {"cell_type": "code", "source": ["x = 1\n" * 26]}
    assert "26 lines" in size_problems(long)[0]
    long["cells"][1] = {"cell_type": "code", "source": ["@triton.jit\n" + "x = 1\n" * 38]}
    assert not size_problems(long)
    short = good()
    del short["cells"][1]
    assert "11 code cells" in size_problems(short)[0]


@pytest.mark.parametrize(
    "text", ["The copy runs at 4.28 TB/s.", "It took 3 ms.", "| eager | 56 µs |", "a\n\n- 20 GFLOP/s"]
)
def test_a_measured_claim_is_found(text):
    assert measured_claims(text)


@pytest.mark.parametrize(
    "text",
    [
        "200 GFLOP/s: is that good?",
        "A kernel runs at 200 GFLOP/s. Is that good? On one device it is.",
        "The datasheet promises 4,800 GB/s.",
        "Suppose that a launch takes 5 µs.",
        "One kernel reads 12 MB; the table shows how long it took.",
        "Listing 3 msgs",
    ],
)
def test_other_numbers_are_left_alone(text):
    assert not measured_claims(text)
