"""How does a notebook begin?

With one call that finds the device, prints its card, and starts the log of this run:

>>> device = open_unit("s1_measurement/example")  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
           |
device     | ...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from . import logbook
from .device import Device, find_device
from .display import show_text
from .tables import render_html, render_text

__all__ = ["MissingFramework", "open_unit", "show_device"]


class MissingFramework(ImportError):
    """A unit needs a framework that is not installed."""


def open_unit(unit: str, *, needs: Sequence[str] = ()) -> Device:
    """Begin a unit: find the device, show its card, start the log of this run.

    Args:
        unit: its place in the book, such as ``s1_measurement/u1_step_cost``.
        needs: frameworks without which the unit cannot run: "torch", "jax".

    Raises:
        MissingFramework: with the command that installs what is missing.
    """
    logbook.begin(unit)
    device = find_device()
    missing = [name for name in needs if getattr(device, name) is None]
    if missing:
        extras = ",".join(missing)
        raise MissingFramework(f"This unit runs every experiment in {' and '.join(needs)}; not installed here: "
                               f'{" and ".join(missing)}. To install: pip install "rooflab[{extras}]".')  # fmt: skip
    show_device(device)
    if not device.is_accelerator and _too_late_to_interpret():
        print("Triton was imported before Rooflab could ask for its interpreter: cells that count Triton kernels will "
              "say so. Restart the kernel and run this cell first.")  # fmt: skip
    return device


def _too_late_to_interpret() -> bool:
    triton = sys.modules.get("triton")
    knobs = getattr(triton, "knobs", None)
    return triton is not None and knobs is not None and not knobs.runtime.interpret


def show_device(device: Device) -> None:
    """Show the device card."""
    rows = [[label, text] for label, text in device.rows().items()]
    html = render_html(["", ""], rows).replace("text-align:right", "text-align:left")
    show_text(render_text(["", ""], rows), html=html)
