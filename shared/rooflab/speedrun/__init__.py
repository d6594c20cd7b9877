"""A transformer trained to a loss as soon as possible, one named change after the other.

>>> from rooflab import speedrun
>>> speedrun.select(speedrun.preset("tiny"), up_to="padded-vocabulary", without=["tf32", "bf16"]).config.rungs
('padded-vocabulary',)
"""

from .config import Config, preset
from .rungs import RUNGS, select
from .session import run_once

__all__ = ["RUNGS", "Config", "preset", "run_once", "select"]
