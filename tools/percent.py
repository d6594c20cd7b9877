"""How is a percent script split into cells?

>>> [cell] = parse('# %% [markdown] tags=["wide"]\\n# # Title\\n', "u1_topic.py")
>>> cell.kind, cell.source, cell.options, cell.line
('markdown', '# Title', {'tags': ['wide']}, 1)

The subset of jupytext's percent format that this book uses: ``# %%`` or ``# %% [markdown]``, then ``key=value`` pairs
with values in JSON. It is read here and not by jupytext so that an error names its line, so that a comment such as
``# copy the rows`` stays a comment (jupytext takes it for a shell command), and so that the bytes of a notebook depend
on no version.
"""

from __future__ import annotations

import ast
import io
import json
import posixpath
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Cell", "SourceError", "for_readers", "parse", "read_source", "syntax_error", "with_online_links"]

_MARKER = re.compile(r"# %%(?: (?P<markdown>\[markdown\]))?(?P<rest>(?: .*)?)$")
_ALMOST_MARKER = re.compile(r"#\s*%%(?![a-zA-Z])")
_OPTION = re.compile(r'\s+(?P<key>[a-z_]+)=(?P<value>"[^"]*"|\[[^\]]*\]|[-+0-9.eE]+)')
# The magics that a script holds as comments, at any indentation: these and no others, so that no remark becomes one.
_MAGICS = r"(?:%pip install .+|%load_ext [\w.]+|%matplotlib(?: (?:inline|widget))?)"
_CELL_MAGICS = r"%%time(?:it(?: -.*)?)?"  # in the first line of a cell only
_HELD = re.compile(rf"\A# (?=(?:{_MAGICS})$)")
_HELD_FIRST = re.compile(rf"\A# (?=(?:{_CELL_MAGICS})$)")
_BARE = re.compile(rf"(?m)\A{_CELL_MAGICS}$|^(?P<indent>[ \t]*){_MAGICS}$")
# Notes to the formatter and the linter, at the end of a line: no reader's business.
_LINTING = re.compile(r"\s*# (?:fmt: (?:skip|on|off)|noqa(?:: [A-Z0-9, ]+)?)\s*$")
# A relative link to a notebook, or code in which no link is one; a link that leads out has a colon in it.
_NOTEBOOK_LINK = re.compile(
    r"""^[ \t>]*(?P<fence>`{3,}|~{3,})[^\n]*\n(?:.*?^[ \t>]*(?P=fence)[`~]*[ \t]*$|.*\Z)
    |(?<![`\\])(?P<ticks>`+)(?!`)(?:(?!\n[ \t]*\n).)+?(?<!`)(?P=ticks)(?!`)
    |(?<!\\)\]\((?P<path>[^)\s:]+\.ipynb)(?:\#[^)\s]*)?\)""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


class SourceError(Exception):
    """A source that cannot be built; ``problems`` holds one sentence for each thing to mend."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Cell:
    """One cell of a script: ``kind`` is "code" or "markdown", ``line`` that of its marker."""

    kind: str
    source: str
    options: Mapping[str, object]
    line: int


def read_source(path: Path, name: str) -> str:
    """Read a script.

    Raises:
        SourceError: it cannot be read, or is not plain UTF-8.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        found = f"byte 0x{error.object[error.start]:02x}"
        raise SourceError([f"{name}:{line}: expected UTF-8, found {found}: save the file as UTF-8."]) from None
    except OSError as error:
        raise SourceError([f"{name}: it cannot be read ({error.strerror})."]) from None
    for character, called in (("\ufeff", "a byte order mark (U+FEFF)"), ("\0", "a null character (U+0000)")):
        if character in text:
            line = text[: text.index(character)].count("\n") + 1
            raise SourceError([f"{name}:{line}: found {called}: save the file as UTF-8 without it."])
    return text.replace("\r\n", "\n")


def parse(text: str, name: str) -> list[Cell]:
    """Split a percent script into cells.

    Args:
        text: the whole script.
        name: what error sentences call it, usually its path.

    Raises:
        SourceError: a marker that is not understood, text before the first marker, a markdown line without "# ".
    """
    problems: list[str] = []
    cells: list[Cell] = []
    for line, marker, body in _chunks(_without_header(text.split("\n"))):
        where = f"{name}:{line}"
        if marker is None:
            if any(row.strip() for row in body):
                problems.append(f"{where}: text stands before the first '# %%' marker; put a marker above it.")
            continue
        match = _MARKER.match(marker)
        options = _options(match["rest"]) if match else None
        if match is None or options is None:
            problems.append(
                f"{where}: unknown marker {marker!r}; expected '# %%' or '# %% [markdown]', then key=value pairs "
                'such as exercise="name", points=3 or tags=["solution"].'
            )
            continue
        if match["markdown"]:
            source = _markdown(body, name, line, problems)
            cells.append(Cell("markdown", source, options, line))
        else:
            cells.append(Cell("code", _code(body), options, line))
    if problems:
        raise SourceError(problems)
    return cells


def with_online_links(source: str, folder: str, files_url: str) -> str:
    """Markdown whose links to notebooks beside it lead somewhere also when the notebook was opened alone.

    >>> with_online_links("See [unit 2](u2_roofline.ipynb).", "chapters/s1", "https://host/blob/main")
    'See [unit 2](u2_roofline.ipynb) ([online](https://host/blob/main/chapters/s1/u2_roofline.ipynb)).'
    """

    def both(link: re.Match[str]) -> str:
        if link["path"] is None:
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, link["path"]))
        return f"{link[0]} ([online]({files_url}/{path}))"

    return _NOTEBOOK_LINK.sub(both, source)


def for_readers(source: str) -> str:
    """The code of a cell as a notebook shows it: without notes to linters, and without double blank lines.

    >>> for_readers("x = [1,2]  # fmt: skip")
    'x = [1,2]'
    """
    # Magics are no Python, and hold neither strings nor notes.
    layout = _layout(_BARE.sub(_passed, source))
    if layout is None:
        return source
    rows: list[str] = []
    for number, row in enumerate(source.split("\n"), 1):
        at = layout.comments.get(number)
        told = row if at is None else row[:at] + _LINTING.sub("", row[at:])
        told = told if number in layout.within else told.rstrip()
        if told or number in layout.within or not rows or rows[-1] or number - 1 in layout.within:
            rows.append(told)
    return "\n".join(rows)


def syntax_error(source: str) -> str | None:
    """Say in one clause why ``source`` is no Python (magics aside, ``await`` at top level allowed), or None."""
    told = None
    for python in (_BARE.sub(_passed, source), source):  # what looks like a magic may be the end of an expression
        try:
            compile(python, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
        except SyntaxError as error:
            told = told or f"{error.msg} in line {error.lineno} of the cell"
        else:
            return None
    return told


@dataclass(frozen=True)
class _Layout:
    """Where the comments of some Python begin, by row, and which rows end within a string; rows count from 1."""

    comments: Mapping[int, int]
    within: frozenset[int]


def _layout(python: str) -> _Layout | None:
    """Find comments and strings, or None where this is no Python."""
    comments: dict[int, int] = {}
    within: set[int] = set()
    opened: list[int] = []  # rows where f-strings begin: from Python 3.12 on they come in parts
    try:
        for token in tokenize.generate_tokens(io.StringIO(python).readline):
            name = tokenize.tok_name[token.type]
            if name == "COMMENT":
                comments[token.start[0]] = token.start[1]
            elif name == "STRING":
                within.update(range(token.start[0], token.end[0]))
            elif name.endswith("STRING_START"):
                opened.append(token.start[0])
            elif name.endswith("STRING_END"):
                within.update(range(opened.pop(), token.end[0]))
    except (tokenize.TokenError, SyntaxError):
        return None
    return _Layout(comments, frozenset(within))


def _passed(magic: re.Match[str]) -> str:
    return (magic["indent"] or "") + "pass"


def _without_header(rows: list[str]) -> list[str]:
    """Blank out jupytext's header, "# ---" to "# ---" at the top; the generator writes the metadata of notebooks."""
    if rows[:1] == ["# ---"] and "# ---" in rows[1:]:
        end = rows.index("# ---", 1)
        return [""] * (end + 1) + rows[end + 1 :]
    return rows


def _chunks(rows: list[str]) -> Iterator[tuple[int, str | None, list[str]]]:
    """Yield (line number, marker or None, lines below it)."""
    start, marker, body = 1, None, []
    for number, row in enumerate(rows, 1):
        if _ALMOST_MARKER.match(row):
            yield start, marker, body
            start, marker, body = number, row.rstrip(), []
        else:
            body.append(row)
    yield start, marker, body


def _options(rest: str) -> dict[str, object] | None:
    options: dict[str, object] = {}
    at = 0
    while at < len(rest):
        match = _OPTION.match(rest, at)
        if match is None or match["key"] in options:
            return None
        try:
            options[match["key"]] = json.loads(match["value"])
        except ValueError:
            return None
        at = match.end()
    return options


def _markdown(body: list[str], name: str, line: int, problems: list[str]) -> str:
    rows = []
    while body and not body[-1].strip():
        body = body[:-1]
    for number, row in enumerate(body, line + 1):
        if row.rstrip() != "#" and not row.startswith("# "):
            problems.append(f"{name}:{number}: a line of a markdown cell starts with '# ', found {row.rstrip()!r}.")
        # Two blanks at the end break a line.
        rows.append(row[2:] if row.endswith("  ") and row[2:].strip() else row[2:].rstrip())
    return "\n".join(rows).strip("\n")


def _code(body: list[str]) -> str:
    layout = _layout("\n".join(body))
    if layout is None:  # said when the cell is built
        return "\n".join(body).strip("\n")
    rows = [row if number in layout.within else row.rstrip() for number, row in enumerate(body, 1)]
    first = next((number for number, row in enumerate(rows, 1) if row), 0)
    for number, at in layout.comments.items():
        row = rows[number - 1]
        if not row[:at].strip():
            held = _HELD_FIRST if number == first and not at and _HELD_FIRST.match(row) else _HELD
            rows[number - 1] = row[:at] + held.sub("", row[at:], count=1)
    return "\n".join(rows).strip("\n")
