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

__all__ = ["all_records", "note_progress", "progress", "recorded", "recorded_curves", "records_folder", "reference",
           "save_record", "short_name"]  # fmt: skip

REFERENCE = ("nvidia-h200",)  # shown behind the reader's own points, unless the reader's device is the same


def records_folder() -> Path:
    """The folder of dated records: the repository's, or the copy that an installed package carries."""
    here = Path(__file__).resolve().parent
    repository = here.parents[1] / "records"
    return repository if repository.is_dir() else here / "_records"


def _commit() -> str:
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
    device = device or find_device()
    record = {
        "unit": unit,
        "date": now(),
        "commit": commit or _commit(),
        "device": {"name": device.name, "kind": device.kind, "chip": device.spec.id if device.spec else "",
                   "memory_bytes": device.memory_bytes, "count": device.count},
        "versions": dict(device.versions),
        "values": plain(values),
    }  # fmt: skip
    path = (folder or records_folder()) / device.slug / f"{unit.rsplit('/', 1)[-1]}.json"
    state.atomic_write(path, json.dumps(record, indent=1, sort_keys=True) + "\n")
    _load.cache_clear()
    return path


@lru_cache(maxsize=64)
def _load(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no valid record ({error}): restore it from git, or record it again.") from error


def all_records() -> list[dict[str, Any]]:
    """Every record, sorted by device and unit."""
    return [_load(path) for path in sorted(records_folder().glob("*/*.json"))]


def reference(unit: str = "", device: str = "") -> dict[str, Any] | None:
    """The record to set beside this run, or None where there is none.

    Args:
        unit: default: the current one.
        device: its folder's name. Default: the reference accelerator; on that device itself, the recorded CPU.
    """
    name = (unit or current_unit()).rsplit("/", 1)[-1]
    own = find_device().slug
    folder = records_folder()
    others = sorted(path.name for path in folder.glob("*-cpu") if path.is_dir())
    for candidate in (device,) if device else (*REFERENCE, *others):
        path = folder / candidate / f"{name}.json"
        if (device or candidate != own) and path.is_file():
            return _load(path)
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
    return {f"{short_name(record)}: {label}": line for label, line in sweep.items()}


def note_progress(lab: str, exercise: str) -> None:
    """Note that a visible check of an exercise passed, for the map of the book."""

    def note(done: dict[str, Any]) -> None:
        if not isinstance(done.get(lab), dict):
            done[lab] = {}
        done[lab].setdefault(exercise, now())

    state.update_json("progress.json", note)


def progress() -> dict[str, dict[str, str]]:
    """lab to exercise to the time its visible check first passed on this machine."""
    kept = state.read_json("progress.json", {})
    return {lab: done for lab, done in kept.items() if isinstance(done, dict)}
