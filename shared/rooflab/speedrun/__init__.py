"""A transformer trained to a loss as soon as possible, one named change after the other.

>>> from rooflab.speedrun import rungs
>>> rungs.RUNGS[0].name
'baseline'
"""

__all__: list[str] = []
