"""What does a notebook show of a check that failed, and of what a student's cell has printed and drawn?

Text and pictures of a student are kept, within limits. HTML and scripts are not: they would run in the browser of
whoever reads the notebook, with that reader's rights.

>>> stream_output("seen\\n")["name"]
'stdout'
"""

from __future__ import annotations

import base64
import re
import traceback
from collections.abc import Iterator
from typing import Any

from .lab import LabCell
from .outcome import STOPPED
from .provider import Ran
from .remote import StudentError

__all__ = ["error_output", "failure_note", "of_student", "stream_output"]

_MOST_TEXT = 20_000
_MOST_PICTURE = 4 * 2**20
_MOST_OUTPUTS = 100
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_MAGIC = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


def stream_output(text: str) -> dict[str, Any]:
    """Return a notebook's output for printed text, cut to a limit."""
    cut = text[:_MOST_TEXT] + (f"\n[{len(text) - _MOST_TEXT:,} more characters]\n" if len(text) > _MOST_TEXT else "")
    return {"output_type": "stream", "name": "stdout", "text": cut}


def of_student(ran: Ran) -> Iterator[dict[str, Any]]:
    """Return a notebook's outputs for what a student's cell printed, showed and raised."""
    for told in ran.outputs[:_MOST_OUTPUTS]:
        if type(told) is not dict:
            continue
        if type(told.get("text")) is str:
            yield stream_output(told["text"])
        elif type(told.get("data")) is dict and (data := dict(_shown(told["data"]))):
            yield {"output_type": "display_data", "data": data, "metadata": {}}
    if ran.error is not None:
        kind, message, lines = (ran.error.get(key) for key in ("type", "message", "lines"))
        kind, message = (str(text)[:2000] if type(text) is str else "" for text in (kind, message))
        if kind == "StudentError":
            kind = "Stopped"
        told_lines = [line[:300] for line in lines if type(line) is str] if type(lines) is list else []
        trace = [*told_lines, f"{kind}: {message}"]
        yield {"output_type": "error", "ename": kind, "evalue": message, "traceback": trace}


def _shown(data: dict[Any, Any]) -> Iterator[tuple[str, str]]:
    if type(data.get("text/plain")) is str:
        yield "text/plain", data["text/plain"][:_MOST_TEXT]
    for kind, magic in _MAGIC.items():
        picture = data.get(kind)
        try:
            raw = base64.b64decode(picture, validate=False) if type(picture) is str else picture
        except ValueError:
            continue
        if type(raw) is bytes and raw.startswith(magic) and len(raw) <= _MOST_PICTURE:
            yield kind, base64.b64encode(raw).decode("ascii")


def error_output(error: BaseException, cell: LabCell) -> dict[str, Any]:
    """Return a notebook's output for a check that raised, without the grader's own frames."""
    name = "Stopped" if isinstance(error, StudentError) else type(error).__name__
    message = _ESCAPES.sub("", str(error))[:4000]
    where = [f"in the check {cell.name}, line {line}: {text}" for line, text in _places(error, cell)]
    notes = [_ESCAPES.sub("", note) for note in getattr(error, "__notes__", ())]
    trace = [*where, *(f"in your code, {note}" for note in notes), f"{name}: {message}"]
    return {"output_type": "error", "ename": name, "evalue": message, "traceback": trace}


def failure_note(error: BaseException, cell: LabCell, *, hidden: bool) -> str:
    """Say in a sentence or a few lines why a check failed, for a comment that the student reads."""
    message = _ESCAPES.sub("", str(error)).strip()[:1500]
    if isinstance(error, StudentError):
        return f"{STOPPED}{message[:1].lower()}{message[1:].removesuffix('.')}."
    if isinstance(error, NotImplementedError):
        return "This exercise has no answer yet: its function raises NotImplementedError."
    if isinstance(error, NameError) and message:
        return f"{message}: does its cell run without an error, and does it define this name?"
    if isinstance(error, AssertionError):
        if message:
            return message
        shown = [text for _, text in _places(error, cell)]
        if shown:
            return f"This does not hold: {shown[-1]}"
        return "A hidden check does not hold: look at edge cases and at other values than those of the visible checks."
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ())[-1:])
    return f"Your code raised {type(error).__name__}: {message}{notes}" if message else f"{type(error).__name__}{notes}"


def _places(error: BaseException, cell: LabCell) -> Iterator[tuple[int, str]]:
    """The lines of a check that the error came through, where the students have them too."""
    released = {line.strip() for line in cell.released.splitlines()}
    lines = cell.source.splitlines()
    for frame in traceback.extract_tb(error.__traceback__):
        if "ipython-input" in frame.filename and frame.lineno is not None and frame.lineno <= len(lines):
            text = lines[frame.lineno - 1].strip()
            if text in released:
                yield frame.lineno, text
