"""What has been measured in this run?

While a notebook runs, ``log`` appends every value to the reader's logbook and keeps it at hand for the recorder.

>>> begin("doctest/unit")
>>> log("copy bandwidth", 1.5e10)
>>> this_run()["copy bandwidth"]
15000000000.0
"""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import state
from .device import find_device
from .measurement import Measurement

__all__ = ["begin", "current_unit", "log", "log_curves", "now", "plain", "this_run", "values_of"]


_unit = ""
_run: dict[str, Any] = {}


def now() -> str:
    """The time as ISO text, to the second, in UTC."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()


def _file() -> str:
    """The logbook's file: the recorder asks for one of its own, the reader's lies in Rooflab's folder."""
    return os.environ.get("ROOFLAB_LOGBOOK", "logbook.jsonl")


def values_of(unit: str) -> dict[str, Any]:
    """What the logbook holds of a unit, the last value of each key; the recorder reads its own file with it."""
    lines = [line for line in state.read_lines(_file()) if isinstance(line, dict) and line.get("unit") == unit]
    return {line["key"]: line["value"] for line in lines if isinstance(line.get("key"), str) and "value" in line}


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
    """A value as JSON can hold it; measurements keep their quantiles. Not-a-number and infinity become None.

    Raises:
        TypeError: a value of another kind.
    """
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
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [plain(item) for item in value]
    raise TypeError(f"A record holds numbers, strings, lists and dicts; found {type(value).__name__}.")


def log(key: str, value: Any) -> None:
    """Note a value of this run: a number, a measurement, or lists and dicts of them. A later value replaces it."""
    if not isinstance(key, str):
        raise TypeError(f"expected a name to log a value under, such as 'copy bandwidth'; found {key!r}")
    try:
        _run[key] = plain(value)
    except RecursionError:
        raise ValueError(f"expected a value that ends; found one under {key!r} that holds itself") from None
    state.append_line(_file(), {"unit": _unit, "key": key, "value": _run[key], "device": find_device().name,
                                "time": now()})  # fmt: skip


def log_curves(key: str, series: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> None:
    """Note a sweep, label to positions and values, as ``{label: {"x": [...], "y": [...]}}``.

    Raises:
        TypeError: these are no lines.
    """
    if not isinstance(series, Mapping):
        raise TypeError(f"expected a sweep as label to positions and values; found a {type(series).__name__}")
    for label, line in series.items():
        if not isinstance(line, tuple | list) or len(line) != 2 or not all(hasattr(each, "__iter__") for each in line):
            raise TypeError(f"expected the positions and the values of {label!r}, two lists; found {line!r:.60}")
    log(key, {label: {"x": list(xs), "y": list(ys)} for label, (xs, ys) in series.items()})
