"""Text as tokens (a stand-in until the data of the speedrun are there).

>>> from rooflab.speedrun.data import corpus
>>> corpus("stdlib").vocabulary
257
"""

from .corpus import Corpus, CorpusMissing, corpus

__all__ = ["Corpus", "CorpusMissing", "corpus"]
