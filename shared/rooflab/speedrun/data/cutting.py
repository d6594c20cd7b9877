"""The same text in a smaller vocabulary: a token that was merged late is written as the tokens it was merged from.

Byte pairs are merged in the order in which they were learned, so the first merges alone would have made exactly the
tokens that this leaves: no text is encoded anew.

>>> import numpy as np
>>> merges = np.array([[97, 98], [256, 99], [257, 257]])          # ab, abc, abcabc, and token 259 ends a text
>>> expanded(np.array([258, 97, 259]), merges, 258).tolist()      # bytes, ab, and an end
[256, 99, 256, 99, 97, 257]
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from .bytepairs import code_vocabulary
from .corpus import Corpus

__all__ = ["check_cut", "cut", "expanded", "why_whole"]

_last: dict[tuple[str, int], Corpus] = {}  # of a process: its runs have one text, and cutting it takes seconds
_AT_A_TIME = 1 << 20  # tokens; what they become takes tens of MB for a moment


def why_whole(data: Corpus) -> str:
    """Why the vocabulary of a text cannot be cut; empty if it can."""
    if data.name == "code":
        return ""
    if data.vocabulary <= 257:
        return f"{data.name} has no byte pairs to cut, its tokens are bytes"
    return f"the vocabulary of {data.name} comes without the merges that it was made of"


def check_cut(data: Corpus, most: int, asked: str = "cut_vocabulary") -> None:
    """Refuse to cut what cannot be cut: that costs nothing, and is asked before a run measures or builds anything.

    Args:
        data: the text.
        most: tokens that are to be left; 0: all of them.
        asked: the switch, or the rung, that asks for it.

    Raises:
        ValueError: the text's merges are not known, or so few tokens are not even all bytes.
    """
    if not isinstance(most, int):
        raise TypeError(f"expected cut_vocabulary to be a whole number; found {most!r}")
    if most and (why := why_whole(data)):
        raise ValueError(f"expected the corpus code with {asked}: {why}")
    if 0 < most < 257:
        raise ValueError(f"expected cut_vocabulary to be 257 or more, bytes and the end of a text; found {most}")


def cut(data: Corpus, most: int) -> Corpus:
    """The corpus with a vocabulary of at most `most` tokens: bytes, the first merges and the end of a text.

    The arrays are made in memory, two bytes a token. 0, or more than there are, leaves the corpus as it is.

    Raises:
        ValueError: the text's merges are not known, or so few tokens are not even all bytes.
    """
    check_cut(data, most)
    if not most or most >= data.vocabulary:
        return data
    if (data.digest, most) in _last:
        return _last[data.digest, most]
    merges = code_vocabulary().merges
    train, valid = (expanded(part, merges, most) for part in (data.train, data.valid))
    told = hashlib.sha256(f"{data.digest} {most}".encode()).hexdigest()
    found = replace(data, train=train, valid=valid, vocabulary=most, digest=told)
    _last.clear()
    _last[data.digest, most] = found
    return found


def expanded(tokens: np.ndarray, merges: np.ndarray, most: int) -> np.ndarray:
    """Tokens in the vocabulary of the first merges, uint16; the end of a text becomes `most - 1`.

    Args:
        tokens: one dimension.
        merges: of shape (number of merges, 2): the tokens that the i-th one joins to token 256 + i.
        most: size of the new vocabulary.
    """
    parts: list[tuple[int, ...]] = [(token,) for token in range(256)]
    for i, (left, right) in enumerate(merges.tolist()):
        parts.append((256 + i,) if 256 + i < most - 1 else parts[left] + parts[right])
    parts.append((most - 1,))
    lengths = np.array([len(part) for part in parts])
    flat = np.array([token for part in parts for token in part], dtype=np.uint16)
    starts = np.cumsum(lengths) - lengths
    found = []
    for first in range(0, len(tokens), _AT_A_TIME):
        some = np.asarray(tokens[first : first + _AT_A_TIME])
        many = lengths[some]
        ends = np.cumsum(many)
        within = np.arange(ends[-1]) - np.repeat(ends - many, many)
        found.append(flat[np.repeat(starts[some], many) + within])
    return np.concatenate(found) if found else np.zeros(0, dtype=np.uint16)
