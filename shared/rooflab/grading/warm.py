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

from .guest import make_shell

__all__ = ["REHEARSE", "VARIABLE", "load"]

VARIABLE, REHEARSE = "ROOFLAB_WARM", "ROOFLAB_REHEARSE"


def load(wanted: str) -> None:
    """Import modules, and look at names of them, since some packages load a module only when it is asked for."""
    for entry in wanted.split():
        module, _, names = entry.partition(":")
        with contextlib.suppress(Exception):
            loaded = importlib.import_module(module)
            for name in filter(None, names.split(",")):
                with contextlib.suppress(Exception):
                    getattr(loaded, name)
    if "matplotlib" in sys.modules:
        for name in ("matplotlib.pyplot", "matplotlib.backends.backend_agg", "matplotlib_inline.backend_inline"):
            with contextlib.suppress(Exception):
                importlib.import_module(name)


if VARIABLE in os.environ:
    load(os.environ[VARIABLE])
    make_shell()
if REHEARSE in os.environ:
    home, _, function = os.environ[REHEARSE].partition(":")
    getattr(importlib.import_module(home), function)()
