"""How fast can a small transformer reach a target loss, and which change buys how much?

A ladder of named changes from a plain baseline to a record, each with its prediction and its measurement; and the data
to train on:

>>> from rooflab.speedrun.data import Corpus
>>> Corpus.__name__
'Corpus'
"""

__all__ = ()
