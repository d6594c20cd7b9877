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
import re
import tempfile
import threading
from pathlib import Path
from typing import Any

__all__ = ["append_line", "atomic_write", "home", "read_json", "read_lines", "write_json"]

_memory: dict[str, str] = {}
_told = False
_lock = threading.Lock()


def home() -> Path:
    """The folder; it may not exist yet."""
    chosen = os.environ.get("ROOFLAB_HOME")
    return Path(chosen) if chosen else Path.home() / ".cache" / "rooflab"


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


def _forget_disk(error: OSError) -> None:
    """Say once that nothing will outlive this process."""
    global _told
    if not _told:
        _told = True
        print(f"Rooflab cannot write to {home()} ({error.strerror or error}); it keeps your ceilings, guesses and "
              "progress in memory for this session only. Set ROOFLAB_HOME to a folder you can write to.")  # fmt: skip


def write_json(name: str, value: Any) -> None:
    """Keep a JSON value under ``name`` (a relative path)."""
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    with _lock:
        _memory[name] = text
        try:
            atomic_write(home() / name, text)
        except OSError as error:
            _forget_disk(error)


def read_json(name: str, default: Any = None) -> Any:
    """The value kept under ``name``; ``default`` when there is none or the file is not JSON."""
    text = _read(name)
    try:
        return json.loads(text) if text else default
    except json.JSONDecodeError:
        return default


def append_line(name: str, value: Any) -> None:
    """Append one JSON value to the log ``name``."""
    line = json.dumps(value, sort_keys=True) + "\n"
    with _lock:
        try:
            path = home() / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            _memory[name] = _memory.get(name, "") + line
            _forget_disk(error)


def read_lines(name: str) -> list[Any]:
    """All values of the log ``name``; a line cut short by a crash is passed over."""
    values = []
    for line in _read(name).splitlines():
        try:
            values.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return values


def _read(name: str) -> str:
    try:
        return (home() / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return _memory.get(name, "")


def slug(text: str) -> str:
    """A short name for files and keys: lower case, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
