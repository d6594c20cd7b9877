"""Which cells are in a notebook file, whoever wrote it?

The file comes from a student, so nothing of it is taken for granted: not its size, its encoding, its version, nor that
its cells are cells. Only their sources are read; outputs and widget state are passed over.

>>> cells_of(b'{"cells": [{"cell_type": "code", "source": ["a = 1\\\\n", "b = 2"], "metadata": {}}]}')[0].source
'a = 1\\nb = 2'
"""

from __future__ import annotations

import codecs
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["MOST_BYTES", "Cell", "NotebookError", "cells_of", "read_bytes", "read_cells"]

MOST_BYTES = 64 * 2**20
MOST_CELLS = 5_000
# A link is not followed, a pipe not waited for; and Windows, which has neither, changes no line ends.
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
PICTURES = ("image/png", "image/jpeg", "image/gif")
MOST_SOURCE = 2_000_000
_MOST_IN_ALL = 5_000_000
_MOST_PARTS = 3_000_000
_MOST_ATTACHED = 8_000_000
_MOST_PICTURES = 100  # in one text: each is looked for in all of it
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip


class NotebookError(ValueError):
    """A file that cannot be read as a notebook; the message is a sentence for the student."""


@dataclass(frozen=True)
class Cell:
    """A cell without its outputs; `grade_id` is nbgrader's mark, empty where there is none."""

    cell_type: str
    source: str
    id: str = ""
    grade_id: str = ""
    tags: tuple[str, ...] = ()
    marks: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    attachments: dict[str, dict[str, str]] = field(default_factory=dict)


def read_cells(path: Path, most_bytes: int = MOST_BYTES) -> list[Cell]:
    """Return the cells of a notebook file.

    Raises:
        NotebookError: it is no regular file, too large, or no notebook.
    """
    return cells_of(read_bytes(path, most_bytes), str(path.name))


def read_bytes(path: Path, most_bytes: int = MOST_BYTES, *, folders: int = 0) -> bytes:
    """Return the bytes of a regular file that is no link, which is opened once and read up to a limit.

    Args:
        path: of the file.
        most_bytes: a file of more is refused.
        folders: how many of the folders above it may be no links either, whoever changes them meanwhile.

    Raises:
        NotebookError: the file cannot be read; the message says why.
    """
    try:
        descriptor = _open(path, folders)
    except OSError as error:
        linked = path.is_symlink()
        why = "it is a link: hand in the file itself" if linked else f"it cannot be opened ({error.strerror})"
        raise NotebookError(f"{path.name} cannot be read: {why}.") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise NotebookError(f"{path.name} cannot be read: it is no file. Hand in the notebook itself.")
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > most_bytes:
            raise NotebookError(
                f"{path.name} has {status.st_size / 1e6:.0f} MB, and at most {most_bytes / 1e6:.0f} MB are taken: "
                "clear its outputs (Edit, Clear Outputs of All Cells), save, and hand in again."
            )
        return file.read(most_bytes + 1)


def _open(path: Path, folders: int) -> int:
    if not folders or os.open not in os.supports_dir_fd:
        return os.open(path, _FLAGS)
    place = os.open(path.parents[folders], os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in path.parts[-1 - folders : -1]:
            before, place = place, os.open(name, _FLAGS | os.O_DIRECTORY, dir_fd=place)
            os.close(before)
        return os.open(path.name, _FLAGS, dir_fd=place)
    finally:
        os.close(place)


def cells_of(raw: bytes, name: str = "the notebook") -> list[Cell]:
    """Return the cells of a notebook given as bytes: versions 2 to 4 and later ones that still have cells."""
    told = _json(raw, name)
    if type(told) is not dict:
        raise NotebookError(f"{name} is no notebook: download it again from Jupyter and hand it in.")
    cells = told.get("cells")
    if cells is None and type(told.get("worksheets")) is list:  # versions 2 and 3
        cells = [cell for sheet in told["worksheets"] if type(sheet) is dict for cell in _list(sheet.get("cells"))]
    if type(cells) is not list:
        raise NotebookError(f"{name} has no cells: open it in Jupyter, save it, and hand it in again.")
    if len(cells) > MOST_CELLS:
        raise NotebookError(f"{name} has {len(cells):,} cells, more than the {MOST_CELLS:,} that are taken.")
    made = [_cell(cell) for cell in cells if type(cell) is dict]
    if sum(len(cell.source) for cell in made) > _MOST_IN_ALL:
        raise NotebookError(f"{name} has more than {_MOST_IN_ALL / 1e6:.0f} MB of code and text: hand in less.")
    return made


def _json(raw: bytes, name: str) -> Any:
    text = _text(raw, name)
    if not text.strip():
        raise NotebookError(f"{name} is empty: save it in Jupyter and hand it in again.")
    if text.count("[") + text.count("{") > _MOST_PARTS:  # each takes far more memory than its bracket
        raise NotebookError(f"{name} has millions of parts: clear its outputs, save, and hand in again.")
    try:
        return json.loads(text)
    except RecursionError:
        raise NotebookError(f"{name} is nested too deep to be a notebook.") from None
    except ValueError as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise NotebookError(
            f"{name} is broken: it is no JSON{where}, as of a file that was saved or copied only in part. Open it in "
            "Jupyter, save it, and hand it in again."
        ) from None


def _text(raw: bytes, name: str) -> str:
    encoding = next((encoding for bom, encoding in _BOMS if raw.startswith(bom)), "utf-8")
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        pass
    if b"\0" in raw:
        raise NotebookError(f"{name} is no text, so no notebook: hand in the file that Jupyter saves.")
    return raw.decode("latin-1")  # never fails; an old Windows editor's


def _cell(cell: dict[str, Any]) -> Cell:
    kind = cell.get("cell_type")
    kind = kind if kind in ("code", "markdown", "raw") else "markdown"
    source = cell.get("source", cell.get("input", ""))
    if type(source) is list:
        source = "".join(part for part in source if type(part) is str)
    source = source[:MOST_SOURCE].encode("utf-8", "replace").decode() if type(source) is str else ""
    metadata = _dict(cell.get("metadata"))
    marks = _dict(metadata.get("nbgrader"))
    tags = tuple(tag for tag in _list(metadata.get("tags")) if type(tag) is str)
    names = [name if type(name) is str else "" for name in (cell.get("id"), marks.get("grade_id"))]
    source = source.replace("\r\n", "\n")
    return Cell(kind, source, names[0], names[1], tags, marks, metadata, _attachments(cell.get("attachments")))


def _attachments(told: Any) -> dict[str, dict[str, str]]:
    """Pictures that were pasted into a text: name -> type -> base64."""
    found: dict[str, dict[str, str]] = {}
    for name, kinds in list(_dict(told).items())[:_MOST_PICTURES]:
        kept = {kind: data for kind, data in _dict(kinds).items() if kind in PICTURES and type(data) is str}
        if kept and sum(map(len, kept.values())) <= _MOST_ATTACHED:
            found[name] = kept
    return found


def _dict(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {}


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []
