"""What does the speedrun train on? Tokens that are the same on every machine, with a validation set held apart.

>>> from rooflab.speedrun.data import corpus
>>> corpus("stdlib").vocabulary
257
"""

from __future__ import annotations

from .corpus import Corpus, CorpusMissing, corpus
from .cutting import cut, why_whole

__all__ = ["Corpus", "CorpusMissing", "corpus", "cut", "why_whole"]
