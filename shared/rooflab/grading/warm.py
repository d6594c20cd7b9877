"""Load before the first fork what every submission will load: modules, the names taken from them, and a shell.

What to load stands in the variable ROOFLAB_WARM: `numpy torch.nn rooflab:plots,check`. A module that is not there is
passed over: the cell that wants it says so. ROOFLAB_REHEARSE names a function to call after that, as `module:name`.

>>> load("math json:loads no_such_module")
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Any

from .cellshell import CellOutputs, make_shell

__all__ = ["REHEARSE", "VARIABLE", "load", "rehearse"]

VARIABLE, REHEARSE = "ROOFLAB_WARM", "ROOFLAB_REHEARSE"
# Modules that packages load when they are first used.
_LATER = {
    "matplotlib": ("matplotlib.pyplot", "matplotlib.backends.backend_agg", "matplotlib_inline.backend_inline"),
    "numpy": ("numpy.random", "numpy.linalg", "numpy.ma"),
    "torch": ("torch._subclasses.schema_check_mode",),
}


def load(wanted: str) -> None:
    """Import modules, and look at names of them, since some packages load a module only when it is asked for."""
    for entry in wanted.split():
        module, _, names = entry.partition(":")
        with contextlib.suppress(Exception):
            loaded = importlib.import_module(module)
            for name in filter(None, names.split(",")):
                with contextlib.suppress(Exception):
                    getattr(loaded, name)
    for package, later in _LATER.items():
        for name in later if package in sys.modules else ():
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def rehearse(shell: Any) -> None:
    """Run an empty cell, since the first one loads more modules."""
    with CellOutputs(shell):
        shell.run_cell("None", store_history=False)


if VARIABLE in os.environ:
    shell = make_shell()  # first: matplotlib's inline backend sets itself up for a shell that is there
    load(os.environ[VARIABLE])
    rehearse(shell)
if REHEARSE in os.environ:
    home, _, function = os.environ[REHEARSE].partition(":")
    getattr(importlib.import_module(home), function)()
