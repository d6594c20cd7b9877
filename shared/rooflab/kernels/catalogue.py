"""Which kernels are there, and how is each compiled for a chip?

>>> FAMILIES[0]
'rows'
"""

from __future__ import annotations

import importlib

from .compiled import Build

__all__ = ["FAMILIES", "every_build", "find_build"]

FAMILIES = ("rows", "pointwise", "products", "loss")


def every_build() -> dict[str, Build]:
    """Return a typical build of every kernel, by its name; Triton must compile in this process."""
    made: dict[str, Build] = {}
    for family in FAMILIES:
        made |= importlib.import_module(f"{__package__}.{family}.builds").builds()
    return made


def find_build(name: str) -> Build:
    """Return the build of one kernel.

    Raises:
        ValueError: there is no such kernel; the message names those that there are.
    """
    every = every_build()
    if name not in every:
        raise ValueError(f"There is no kernel {name!r}; expected one of {', '.join(every)}.")
    return every[name]
