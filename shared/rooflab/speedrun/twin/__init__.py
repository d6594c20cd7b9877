"""The same transformer in JAX: how far do plain functions and one compiler come, beside torch with the same rungs?

>>> from rooflab.speedrun.config import preset
>>> reasons(preset("tiny").change(position="rotary", rungs=("rotary",)))
{'rotary': 'the twin in JAX has no position = rotary'}
"""

from __future__ import annotations

from .scope import RUNGS_OF_TWIN, narrowed, reasons
from .train import run_twin

__all__ = ["RUNGS_OF_TWIN", "narrowed", "reasons", "run_twin"]
