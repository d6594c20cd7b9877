"""What did we measure, and what did the reference device measure?

While a notebook runs, ``log`` appends values to a logbook. ``rooflab record`` keeps a whole run as a dated file under
``records/<device>/``, and ``recorded`` reads it back, so that figures show *yours* and *recorded* together.

>>> begin("doctest/unit")
>>> log("copy bandwidth", 1.5e10)
>>> this_run()["copy bandwidth"]
15000000000.0
"""

from __future__ import annotations

import datetime
import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from . import state
from .device import Device, find_device
from .measure import Measurement

__all__ = ["all_records", "begin", "current_unit", "log", "note_progress", "progress", "recorded", "records_folder",
           "reference", "save_record", "this_run"]  # fmt: skip

LOGBOOK = "logbook.jsonl"
REFERENCE = ("nvidia-h200",)  # shown behind the reader's own points, unless the reader's device is the same

_unit = ""
_run: dict[str, Any] = {}


def begin(unit: str) -> None:
    """Start the log of one run of a unit, such as ``s1_measurement/u1_step_cost``."""
    global _unit
    _unit = unit
    _run.clear()


def current_unit() -> str:
    """The unit whose run is being logged; empty outside one."""
    return _unit


def this_run() -> dict[str, Any]:
    """Everything logged since ``begin``, by key."""
    return dict(_run)


def plain(value: Any) -> Any:
    """A value as JSON can hold it; measurements keep their quantiles. Not-a-number becomes None."""
    if isinstance(value, Measurement):
        return {"median_s": value.median_s, "p20_s": value.p20_s, "p80_s": value.p80_s, "clock": value.clock,
                "samples": len(value.times_s), "settled": value.settled}  # fmt: skip
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return plain(value.tolist())
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    raise TypeError(f"A record holds numbers, strings, lists and dicts; found {type(value).__name__}.")


def log(key: str, value: Any) -> None:
    """Note a value of this run: a number, a measurement, or lists and dicts of them. A later value replaces it."""
    _run[key] = plain(value)
    state.append_line(LOGBOOK, {"unit": _unit, "key": key, "value": _run[key], "device": find_device().name,
                                "time": _now()})  # fmt: skip


def records_folder() -> Path:
    """The folder of dated records: the repository's, or the copy that an installed package carries."""
    here = Path(__file__).resolve().parent
    repository = here.parents[1] / "records"
    return repository if repository.is_dir() else here / "_records"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()


def _commit() -> str:
    """The commit of the repository that the package lies in; empty outside one."""
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
        "date": _now(),
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
    return json.loads(path.read_text(encoding="utf-8"))


def all_records() -> list[dict[str, Any]]:
    """Every record, sorted by device and unit."""
    return [_load(path) for path in sorted(records_folder().glob("*/*.json"))]


def reference(unit: str = "", device: str = "") -> dict[str, Any] | None:
    """The record to set beside this run, or None where there is none.

    Args:
        unit: default: the current one.
        device: its folder's name. Default: the reference accelerator; on that device itself, the recorded CPU.
    """
    name = (unit or _unit).rsplit("/", 1)[-1]
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
    return default if record is None else record["values"].get(key, default)


def note_progress(lab: str, exercise: str) -> None:
    """Note that a visible check of an exercise passed, for the map of the book."""
    done = state.read_json("progress.json", {})
    done.setdefault(lab, {}).setdefault(exercise, _now())
    state.write_json("progress.json", done)


def progress() -> dict[str, dict[str, str]]:
    """lab to exercise to the time its visible check first passed on this machine."""
    return state.read_json("progress.json", {})
