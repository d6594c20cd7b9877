"""What did the reference device measure?

``rooflab record`` keeps what a run logged as a dated file under ``records/<device>/``, and ``recorded`` reads it back,
so that figures show *yours* and *recorded* together. The reader's progress through the labs is noted here too.

>>> note_progress("doctest/lab", "first")
>>> list(progress()["doctest/lab"])
['first']
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from . import state
from .device import Device, find_device
from .logbook import current_unit, now, plain

__all__ = ["all_records", "code_commit", "note_progress", "progress", "recorded", "recorded_curves", "records_folder",
           "reference", "save_record", "short_name"]  # fmt: skip

REFERENCE = ("nvidia-h200",)  # shown behind the reader's own points, unless the reader's device is the same


def records_folder() -> Path:
    """The folder of dated records: the repository's, or the copy that an installed package carries."""
    here = Path(__file__).resolve().parent
    repository = here.parents[1] / "records"
    return repository if repository.is_dir() else here / "_records"


def code_commit() -> str:
    """The commit of the repository that the package lies in; empty outside one.

    A copy without its history, as on a machine that has no git, says it in ``ROOFLAB_COMMIT``.
    """
    if told := os.environ.get("ROOFLAB_COMMIT"):
        return told
    folder = Path(__file__).resolve().parent
    try:
        found = subprocess.run(["git", "-C", str(folder), "rev-parse", "--short=10", "HEAD"], capture_output=True,
                               text=True, timeout=10)  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def save_record(unit: str, values: Mapping[str, Any], *, device: Device | None = None, commit: str = "",
                folder: Path | None = None) -> Path:  # fmt: skip
    """Keep one run as ``records/<device>/<unit>.json``; returns the file's path.

    Args:
        unit: ``s1_measurement/u1_step_cost``; the file is named after its last part.
        values: what the run logged.
        commit: of the code that ran; default: asked of git.
        folder: instead of the repository's ``records``.

    Raises:
        OSError: the folder cannot be written.
    """
    if not isinstance(unit, str) or not unit.rsplit("/", 1)[-1].strip():
        raise ValueError(f"expected a unit, such as 's1_measurement/u1_step_cost'; found {unit!r}")
    if not isinstance(values, Mapping):
        raise TypeError(f"expected what a run logged, values by key; found a {type(values).__name__}")
    device = device or find_device()
    record = {
        "unit": unit,
        "date": now(),
        "commit": commit or code_commit(),
        "device": {"name": device.name, "kind": device.kind, "chip": device.spec.id if device.spec else "",
                   "memory_bytes": device.memory_bytes, "count": device.count},
        "versions": dict(device.versions),
        "values": plain(values),
    }  # fmt: skip
    path = (folder or records_folder()) / device.slug / f"{unit.rsplit('/', 1)[-1]}.json"
    state.atomic_write(path, json.dumps(record, indent=1, sort_keys=True) + "\n")
    _load.cache_clear()
    return path


# What a figure reads of a record, and of which type.
_SHAPE = {"device": dict, "values": dict}
_DEVICE = {"name": str}
_told: set[Path] = set()


@lru_cache(maxsize=64)
def _load(path: Path) -> dict[str, Any]:
    """One record.

    Raises:
        ValueError: the file cannot be read, is no JSON, or lacks what a record holds.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would be waited for
            raise ValueError("it is no file")
        record = json.loads(path.read_text(encoding="utf-8"))
        _check(record, _SHAPE, "it")
        _check(record["device"], _DEVICE, "its 'device'")
    except (OSError, ValueError, RecursionError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ValueError(f"{path} is no valid record ({reason}): restore it from git, or record it again.") from error
    return record


def _check(record: Any, shape: Mapping[str, type], what: str) -> None:
    if not isinstance(record, dict):
        raise ValueError(f"expected a JSON object; found a {type(record).__name__}")
    for key, kind in shape.items():
        if key not in record:
            raise ValueError(f"{what} lacks {key!r}")
        if not isinstance(record[key], kind):
            raise ValueError(f"{key!r} is a {type(record[key]).__name__}; expected a {kind.__name__}")


def _usable(path: Path) -> dict[str, Any] | None:
    """One record, or None where it is damaged, which is said once: no reader is stopped by it."""
    try:
        return _load(path)
    except ValueError as error:
        if path not in _told:
            _told.add(path)
            print(f"{error} It is left out.")
        return None


def all_records(device: str = "*") -> list[dict[str, Any]]:
    """Every record, or those in one device's folder, by device and unit; damaged ones are left out, which is said."""
    found = (_usable(path) for path in sorted(records_folder().glob("*/*.json")) if device in ("*", path.parent.name))
    return [record for record in found if record is not None]


def reference(unit: str = "", device: str = "") -> dict[str, Any] | None:
    """The record to set beside this run, or None where there is none; a damaged one is left out, which is said.

    Args:
        unit: default: the current one.
        device: its folder's name. Default: the reference accelerator; on that device itself, the recorded CPU.

    Raises:
        ValueError: the record of the device that was asked for is damaged.
    """
    name = (unit or current_unit()).rsplit("/", 1)[-1]
    folder = records_folder()
    if device:
        path = folder / device / f"{name}.json"
        return _load(path) if path.is_file() else None
    own = find_device().slug
    others = sorted(path.name for path in folder.glob("*-cpu") if path.is_dir())
    for candidate in (*REFERENCE, *others):
        path = folder / candidate / f"{name}.json"
        if candidate != own and path.is_file() and (record := _usable(path)) is not None:
            return record
    return None


def recorded(key: str, *, unit: str = "", device: str = "", default: Any = None) -> Any:
    """One value of the reference record; ``default`` where the record or the key is missing."""
    record = reference(unit, device)
    return default if record is None else record.get("values", {}).get(key, default)


def short_name(record: Mapping[str, Any]) -> str:
    """A record's device in a word or two, for legends: "H200", "AMD EPYC 7B13", "Intel Xeon"."""
    name = record["device"]["name"]
    noise = r"^NVIDIA (GeForce )?|\((R|TM)\)|\b(CPU|Processor)\b|\b\d+-Core\b|@.*$"
    return " ".join(re.sub(noise, " ", name).split()) or name


def recorded_curves(key: str) -> dict[str, dict[str, list[float]]]:
    """The reference record's sweep of that key, as label to ``{"x": [...], "y": [...]}``; empty where there is none."""
    record = reference()
    sweep = record.get("values", {}).get(key) if record else None
    if record is None or not sweep:
        return {}
    if not isinstance(sweep, dict) or not all(_is_line(line) for line in sweep.values()):
        raise ValueError(f"The record of {short_name(record)} holds no sweep under {key!r} (label to as many x as y): "
                         "give the figure a key of its own, or record the unit again.")  # fmt: skip
    return {f"{short_name(record)}: {label}": line for label, line in sweep.items()}


def _is_line(line: Any) -> bool:
    if not (isinstance(line, dict) and isinstance(line.get("x"), list) and isinstance(line.get("y"), list)):
        return False
    numbers = all(isinstance(value, int | float | None) for value in line["x"] + line["y"])
    return numbers and len(line["x"]) == len(line["y"])


def note_progress(lab: str, exercise: str) -> None:
    """Note that a visible check of an exercise passed, for the map of the book.

    Raises:
        TypeError: the lab or the exercise has no name.
    """
    if not (isinstance(lab, str) and lab.strip() and isinstance(exercise, str) and exercise.strip()):
        raise TypeError(f"expected the names of a lab and of its exercise; found {lab!r:.60} and {exercise!r:.60}")

    def note(done: dict[str, Any]) -> None:
        if not isinstance(done.get(lab), dict):
            done[lab] = {}
        done[lab].setdefault(exercise, now())

    state.update_json("progress.json", note)


def progress() -> dict[str, dict[str, str]]:
    """lab to exercise to the time its visible check first passed on this machine."""
    kept = state.read_json("progress.json", {})
    return {lab: done for lab, done in kept.items() if isinstance(done, dict)}
