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
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from .locks import alone_in

__all__ = ["append_line", "atomic_write", "home", "read_json", "read_lines", "replacing", "settle",
           "update_json", "write_json"]  # fmt: skip

# What could not be written, by full path: values in place of the file, lines on top of it.
_values: dict[Path, str] = {}
_lines: dict[Path, str] = {}
_told = False
_told_of: set[Path] = set()
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
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of ``path`` when the block ends, and is removed if it fails.

    Args:
        path: of the file; its folder is made.
        durable: also after a loss of power a reader finds the old file or the new one, whole.

    Raises:
        OSError: the folder cannot be made or written, also where another error hides that; what was there is untouched.
    """
    before = sys.exception()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        # mkstemp makes files for the owner alone; a report or a record is for everyone who may read the folder.
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        # What writes archives meets a full disk, and raises an error of its own about what is missing in the file.
        hidden = error.__context__
        if isinstance(error, RuntimeError) and isinstance(hidden, OSError) and hidden is not before:
            raise hidden from None
        raise
    if durable and os.name == "posix":  # the new name is on the disk too
        entry = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)


def settle(path: Path) -> None:
    """Have on the disk what was written to a file, if there is one: what is written later may stand on it."""
    if path.is_file():
        with path.open("ab") as file:
            os.fsync(file.fileno())


def _keep_in_memory(path: Path, error: OSError) -> None:
    """Say once that what is written from now on will not outlive this process."""
    global _told
    if not _told:
        _told = True
        print(f"Rooflab cannot write to {path.parent} ({error.strerror or error}); it keeps your ceilings, guesses and "
              "progress in memory for this session only. Set ROOFLAB_HOME to a folder you can write to.")  # fmt: skip


def _in_the_way(path: Path) -> bool:
    """Whether something that is no file stands in its place, which is said once; a pipe would be waited for."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    if stat.S_ISREG(mode):
        return False
    if path not in _told_of:
        _told_of.add(path)
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "no ordinary file"
        print(f"Rooflab cannot write {path}, which is {kind}; what belongs there is kept in memory for this session "
              "only. Move it away.")  # fmt: skip
    return True


def write_json(name: str, value: Any) -> None:
    """Keep a JSON value under ``name`` (a relative path)."""
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    path = home() / name
    with _lock:
        if _in_the_way(path):
            _values[path] = text
            return
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

    A file that holds no object is moved aside, to the same name and ``.damaged``, which is said.

    Args:
        name: a relative path.
        change: is given the object, empty where there is none yet.
    """
    folder = (home() / name).parent
    with suppress(OSError):  # write_json says so
        folder.mkdir(parents=True, exist_ok=True)
    with _updating, alone_in(folder):
        _move_damaged(home() / name)
        value = read_json(name, {})
        change(value)
        write_json(name, value)


def _move_damaged(path: Path) -> None:
    """Keep a file that holds no JSON object under another name, before a new one takes its place."""
    if path in _values or not path.is_file():
        return
    try:
        if isinstance(json.loads(_read(path)), dict):
            return
    except (ValueError, RecursionError):
        pass
    aside = path.with_name(f"{path.name}.damaged")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{number}")
    with suppress(OSError):  # where nothing can be moved, nothing is overwritten either
        path.rename(aside)
        print(f"What was kept in {path} is damaged; it was moved to {aside.name} beside it, and a new file begins.")


def append_line(name: str, value: Any) -> None:
    """Append one JSON value to the log ``name``."""
    line = json.dumps(value, sort_keys=True) + "\n"
    path = home() / name
    with _lock:
        if _in_the_way(path):
            _lines[path] = _lines.get(path, "") + line
            return
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
    if not path.is_file():  # a pipe would be waited for without end
        return ""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
