"""How much time, memory and room may a submission have? Read from `grading.toml` in the course's folder.

    [limits]                       # for every assignment
    call_s = 10                    # one call of a student's function, or one cell
    total_s = 60                   # everything that one submission does
    memory_mb = 1024
    processes = 64                 # and threads
    file_mb = 64                   # each file
    disk_mb = 256                  # all files
    output_kb = 1024               # printed

    [assignment.lab3_kernels]      # for one of them
    total_s = 300

>>> limits_from({"limits": {"call_s": 2}, "assignment": {"a": {"memory_mb": 512}}}, "a").memory_bytes
536870912
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from .sandbox import Limits

__all__ = ["limits_from", "read_limits"]

# Name in the file -> field, factor.
_NAMES = {
    "call_s": ("call_s", 1), "total_s": ("total_s", 1), "memory_mb": ("memory_bytes", 2**20),
    "processes": ("processes", 1),
    "file_mb": ("file_bytes", 2**20), "disk_mb": ("disk_bytes", 2**20), "output_kb": ("output_bytes", 2**10),
}  # fmt: skip


def read_limits(course: Path, assignment: str) -> Limits:
    """Return the limits of an assignment; the defaults where the course has no `grading.toml`.

    Raises:
        ValueError: the file cannot be used; the message says why.
    """
    path = course / "grading.toml"
    if not path.is_file():
        return Limits()
    try:
        return limits_from(tomllib.loads(path.read_text(encoding="utf-8")), assignment)
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be used: {error}.") from None


def limits_from(told: dict[str, Any], assignment: str) -> Limits:
    """Return the limits that a parsed file gives to an assignment."""
    if unknown := sorted(set(told) - {"limits", "assignment"}):
        raise ValueError(f"it has the unknown section [{unknown[0]}]; expected [limits] and [assignment.NAME]")
    limits = Limits()
    assignments = _section(told.get("assignment", {}), "assignment")
    for section in (_section(told.get("limits", {}), "limits"), _section(assignments.get(assignment, {}), assignment)):
        for name, value in section.items():
            if name not in _NAMES:
                raise ValueError(f"there is no limit {name!r}; expected one of {', '.join(_NAMES)}")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ValueError(f"{name} has to be a number above zero; found {value!r}")
            field, factor = _NAMES[name]
            whole = not isinstance(getattr(limits, field), float)
            told_value: Any = int(value * factor) if whole else float(value)
            limits = replace(limits, **{field: told_value})
    return limits


def _section(told: Any, name: str) -> dict[str, Any]:
    if not isinstance(told, dict):
        raise ValueError(f"{name} has to be a section with names and numbers; found {told!r}")
    return told
