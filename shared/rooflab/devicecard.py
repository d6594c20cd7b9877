"""What does `rooflab device` show?

The device, its measured ceilings beside its datasheet, and what is missing with the command that brings it.

>>> ceiling_rows({"bytes_per_s": 2e10, "flops_per_s": {}, "launch_s": 3e-5}, {"bytes_per_s": 4e10})
[['memory bandwidth', '20 GB/s', '40 GB/s', '50 %'], ['launch', '30 µs', '–', '–']]
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from . import __version__
from .load import Load, Watch
from .tables import render_text
from .units import format_si

__all__ = ["CEILING_HEADER", "ceiling_rows", "describe", "load_row", "missing", "show"]

CEILING_HEADER = ("", "measured", "datasheet", "measured / datasheet")

# extra -> a module that it brings, and what is not possible without it
_EXTRAS = {
    "torch": ("torch", "the cells that use torch"),
    "jax": ("jax", "the cells that use JAX"),
    "triton": ("triton", "counting and running Triton kernels"),
    "lab": ("nbclient", "running notebooks (rooflab run, rooflab tour)"),
    "classroom": ("nbgrader", "building and grading the labs"),
}


def missing() -> list[str]:
    """One sentence for each optional part that is not installed."""
    extras = {name: use for name, use in _EXTRAS.items() if name != "triton" or sys.platform.startswith("linux")}
    return [
        f'{module} is not installed, so {purpose} do not work: pip install "rooflab[{extra}]"'
        for extra, (module, purpose) in extras.items()
        if find_spec(module) is None
    ]


def load_row(load: Load | None) -> dict[str, str]:
    """What a card says of the load by others: nothing where it does not matter, or is not known."""
    if load is None or not load.is_heavy:
        return {}
    late = "times of parallel kernels" if load.needed > 1 else "what the host adds to a time"
    return {"load": f"{load.sentence('use')}: {late} will be wrong"}


def describe(*, fresh: bool = False) -> dict[str, Any]:
    """Find the device, measure its ceilings (once, then kept) and return both as plain values.

    Args:
        fresh: measure again, whatever is kept.
    """
    from .ceilings import measured_ceilings
    from .device import find_device
    from .roofline import Ceilings

    watch = Watch()
    device = find_device()
    load = watch.load_now(accelerator=device.is_accelerator)  # of others: nothing is measured yet

    def say(what: str) -> None:
        print(f"measuring {what} ...", file=sys.stderr, flush=True)

    ceilings = measured_ceilings(device, fresh=fresh, say=say)
    return {
        "rooflab": __version__,
        "device": device.rows() | load_row(load),
        "slug": device.slug,
        "kind": device.kind,
        "chip": device.spec.name if device.spec else None,
        "versions": dict(device.versions),
        "ceilings": ceilings.to_dict(),
        "datasheet": Ceilings.of_chip(device.spec).to_dict() if device.spec else None,
        "missing": missing(),
    }


def ceiling_rows(measured: Mapping[str, Any], datasheet: Mapping[str, Any] | None) -> list[list[str]]:
    """What was measured beside what the datasheet promises, as rows of text under `CEILING_HEADER`."""
    paper = datasheet or {}
    promised = paper.get("flops_per_s", {})
    rows = [_row("memory bandwidth", measured["bytes_per_s"], paper.get("bytes_per_s"), "B/s")]
    for fmt, rate in measured["flops_per_s"].items():
        rows.append(_row(f"matmul {fmt}", rate, promised.get(fmt), "FLOP/s"))
    return [*rows, _row("launch", measured["launch_s"], None, "s")]


def _row(name: str, found: float, promised: float | None, unit: str) -> list[str]:
    if not promised:
        return [name, format_si(found, unit), "–", "–"]
    return [name, format_si(found, unit), format_si(promised, unit), f"{100 * found / promised:.0f} %"]


def show(*, as_json: bool = False, fresh: bool = False) -> int:
    """Print the card, as tables or as one JSON object; returns the exit code."""
    with contextlib.redirect_stdout(sys.stderr):  # a warning on the way may not spoil the JSON
        found = describe(fresh=fresh)
    if as_json:
        print(json.dumps(found, indent=1))
        return 0
    width = max(map(len, found["device"]))
    for label, text in found["device"].items():
        print(f"{label:<{width}}  {text}")
    print(f"\nCeilings, measured on {found['ceilings']['date']} (rooflab device --remeasure measures again)")
    print(render_text(CEILING_HEADER, ceiling_rows(found["ceilings"], found["datasheet"])))
    versions = {"rooflab": found["rooflab"], **found["versions"]}
    print("\n" + ", ".join(f"{name} {version}" for name, version in versions.items()))
    for sentence in found["missing"]:
        print(sentence)
    return 0
