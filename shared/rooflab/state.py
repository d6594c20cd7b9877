"""Where does Rooflab keep what it learned about this machine and this reader?

In one folder, ``$ROOFLAB_HOME`` or ``~/.cache/rooflab``. Files are written beside their place and renamed, so none is
ever half there. Where the folder cannot be written, everything is kept in memory and one sentence says so:

>>> write_json("example.json", {"a": 1})
>>> read_json("example.json")
{'a': 1}
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .locks import alone_in

__all__ = ["append_line", "atomic_write", "home", "read_json", "read_lines", "update_json", "write_json"]

# What could not be written, by full path: values in place of the file, lines on top of it.
_values: dict[Path, str] = {}
_lines: dict[Path, str] = {}
_told = False
_lock = threading.Lock()
_updating = threading.Lock()


def home() -> Path:
    """The folder; it may not exist yet."""
    chosen = os.environ.get("ROOFLAB_HOME") or "~/.cache/rooflab"
    try:
        return Path(chosen).expanduser()
    except RuntimeError:  # a user without a home, as in some containers: no such folder, so all stays in memory
        return Path(os.devnull) / chosen


def atomic_write(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` so that it is there whole or not at all.

    Raises:
        OSError: the folder cannot be made or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        # mkstemp makes files for the owner alone; a report or a record is for everyone who may read the folder.
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _keep_in_memory(path: Path, error: OSError) -> None:
    """Say once that what is written from now on will not outlive this process."""
    global _told
    if not _told:
        _told = True
        print(f"Rooflab cannot write to {path.parent} ({error.strerror or error}); it keeps your ceilings, guesses and "
              "progress in memory for this session only. Set ROOFLAB_HOME to a folder you can write to.")  # fmt: skip


def write_json(name: str, value: Any) -> None:
    """Keep a JSON value under ``name`` (a relative path)."""
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    path = home() / name
    with _lock:
        try:
            atomic_write(path, text)
            _values.pop(path, None)
        except OSError as error:
            _values[path] = text
            _keep_in_memory(path, error)


def read_json(name: str, default: Any = None) -> Any:
    """The value kept under ``name``; ``default`` when there is none, it is not JSON, or not of the default's type."""
    path = home() / name
    try:
        value = json.loads(_values.get(path) or _read(path))
    except (ValueError, RecursionError):  # the latter of JSON that is nested without end
        return default
    return value if default is None or isinstance(value, type(default)) else default


def update_json(name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the JSON object kept under ``name`` in place; what another process changes at the same time is kept too.

    Args:
        name: a relative path.
        change: is given the object, empty where there is none yet.
    """
    folder = (home() / name).parent
    with suppress(OSError):  # write_json says so
        folder.mkdir(parents=True, exist_ok=True)
    with _updating, alone_in(folder):
        value = read_json(name, {})
        change(value)
        write_json(name, value)


def append_line(name: str, value: Any) -> None:
    """Append one JSON value to the log ``name``."""
    line = json.dumps(value, sort_keys=True) + "\n"
    path = home() / name
    with _lock:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab+") as file:
                # A line that a crash cut short must not take this one with it.
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    line = line if file.read(1) == b"\n" else f"\n{line}"
                file.write(line.encode())
        except OSError as error:
            _lines[path] = _lines.get(path, "") + line
            _keep_in_memory(path, error)


def read_lines(name: str) -> list[Any]:
    """All values of the log ``name``; a line cut short by a crash is passed over."""
    path = home() / name
    values = []
    for line in (_read(path) + "\n" + _lines.get(path, "")).splitlines():
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return values


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
