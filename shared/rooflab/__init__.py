"""Predict, measure and explain the performance of deep learning on the device that is there.

The names below are loaded on first use, so that ``import rooflab`` costs nothing and imports neither torch nor jax:

>>> import rooflab
>>> rooflab.costs.matmul(2, 3, 4, "fp32").flops
48
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import check, costs, plots, specs, tables, units, widgets
    from .counters import count
    from .device import find_device, size
    from .measurement import measure, measure_all
    from .prediction import predict, report
    from .roofline import bound
    from .session import open_unit

__version__ = "0.1.0"

# name -> module that defines it; a module stands for itself. No function shares its name with a module: importing the
# module would put it in the function's place.
_HOME = {
    "bound": "roofline",
    "check": "check",
    "costs": "costs",
    "count": "counters",
    "find_device": "device",
    "measure": "measurement",
    "measure_all": "measurement",
    "open_unit": "session",
    "plots": "plots",
    "predict": "prediction",
    "report": "prediction",
    "size": "device",
    "specs": "specs",
    "tables": "tables",
    "units": "units",
    "widgets": "widgets",
}

__all__ = [
    "bound", "check", "costs", "count", "find_device", "measure", "measure_all", "open_unit", "plots", "predict",
    "report", "size", "specs", "tables", "units", "widgets",
]  # fmt: skip


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'rooflab' has no attribute {name!r}")
    module = import_module(f".{home}", __name__)
    return module if name == home else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
