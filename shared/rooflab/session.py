"""How does a notebook begin?

With one call that finds the device, prints its card, and starts the log of this run:

>>> device = open_unit("s1_measurement/example")  # doctest: +ELLIPSIS
device     | ...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from . import logbook
from .counters.interpreter import interpreting
from .device import Device, find_device
from .devicecard import CEILING_HEADER, ceiling_rows, load_row
from .display import show_text
from .load import Watch
from .roofline import Ceilings
from .tables import render_html, render_text

__all__ = ["MissingFramework", "open_unit", "show_ceilings", "show_device"]


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
    watch = Watch()  # while the frameworks load
    device = find_device()
    missing = [name for name in needs if getattr(device, name) is None]
    if missing:
        raise MissingFramework(_how_to_have(missing, device))
    show_device(device, watch)
    if not device.is_accelerator and "triton" in sys.modules and not interpreting():
        print("Triton was imported before Rooflab could ask for its interpreter: cells that count Triton kernels will "
              "say so. Restart the kernel and run this cell first.")  # fmt: skip
    return device


def _how_to_have(missing: Sequence[str], device: Device) -> str:
    broken = [note for note in device.notes if any(note.startswith(f"{name} is installed") for name in missing)]
    if broken:  # installing it again would change nothing
        return f"This unit runs its experiments in {' and '.join(missing)} too, but {' '.join(broken)}"
    return (f"This unit runs its experiments in {' and '.join(missing)} too, which is not installed here. "
            f'To install it: pip install "rooflab[{",".join(missing)}]".')  # fmt: skip


def show_device(device: Device, watch: Watch | None = None) -> None:
    """Show the device card, and what others compute here, if that is much.

    Args:
        device: whose card it is.
        watch: looks at the others from now on if it does not yet.
    """
    load = (watch or Watch()).load_now(accelerator=device.is_accelerator)
    rows = [[label, text] for label, text in (device.rows() | load_row(load)).items()]
    show_text(render_text(["", ""], rows), html=render_html(["", ""], rows))


def show_ceilings(ceilings: Ceilings, device: Device) -> None:
    """Show measured ceilings beside the device's datasheet, where the chip table has one."""
    paper = Ceilings.of_chip(device.spec).to_dict() if device.spec else None
    rows = ceiling_rows(ceilings.to_dict(), paper)
    caption = f"{device.name}, measured on {ceilings.date}" + ("" if paper else "; the chip table has no row for it")
    text = render_text(CEILING_HEADER, rows)
    show_text(f"{caption}\n{text}", html=render_html(CEILING_HEADER, rows, caption=caption))
