"""How does source code become tokens, the same on every machine?

Byte-pair encoding (Gage 1994; Sennrich et al. 2016; of bytes: GPT-2, Radford et al. 2019). A text is cut into pieces by
`PIECES`, a pattern of bytes, so that no version of Unicode has a say. Within a piece neighbours are merged in the order
in which training found the pairs. Token 0 to 255 is a byte, 256 + i the i-th merge, the last one ends a text.

>>> toy = BytePairs(learn({b"return": 3, b" return": 2}, merges=5))
>>> toy.encode(b"return").tolist(), toy.decode([260, 32]), toy.vocabulary
([260], b'return ', 262)
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

import numpy as np

__all__ = ["PIECES", "BytePairs", "code_vocabulary", "learn"]

MERGES = 50_000
# Letters with the one character before them (" name", ".name", "_name", "(name"); signs with the line's end and the
# next line's indentation ("):\n        "); an end of line with its indentation; up to three digits; signs; spaces.
# Bytes of 0x80 and above count as letters. The simplest of those patterns that gave the fewest tokens of nine tried
# (docs/speedrun-data.md).
PIECES = re.compile(
    rb"[^\nA-Za-z\x80-\xff0-9]?[A-Za-z\x80-\xff]+"
    rb"| ?[^\sA-Za-z\x80-\xff0-9]+\n[ \t\n]*"
    rb"|[ \t]*\n[ \t\n]*"
    rb"| ?[0-9]{1,3}"
    rb"| ?[^\sA-Za-z\x80-\xff0-9]+"
    rb"|[ \t]+(?= )"
    rb"|\s"
)
_NONE = 1 << 17  # above every token


class BytePairs:
    """Merges, learned once, and what follows from them.

    Args:
        merges: integers of shape (number of merges, 2): the tokens that the i-th merge joins to token 256 + i.
    """

    def __init__(self, merges: np.ndarray) -> None:
        self.merges = merges
        self._order = {(int(left), int(right)): 256 + i for i, (left, right) in enumerate(merges)}
        self._pair_of = {token: pair for pair, token in self._order.items()}
        self.bytes_of = [bytes([i]) for i in range(256)]
        for left, right in self._order:
            self.bytes_of.append(self.bytes_of[left] + self.bytes_of[right])
        self.bytes_of.append(b"")  # the end of a text stands for no bytes
        self.vocabulary = len(self.bytes_of)
        self.end_of_text = self.vocabulary - 1
        self._known: dict[bytes, tuple[int, ...]] = {}

    def encode(self, text: bytes) -> np.ndarray:
        """The tokens of a text, uint16, without an end."""
        found: list[int] = []
        known = self._known
        for piece in PIECES.findall(text):
            tokens = known.get(piece)
            if tokens is None:
                tokens = known[piece] = self._merge(piece)
            found.extend(tokens)
        return np.array(found, dtype=np.uint16)

    def decode(self, tokens: Iterable[int]) -> bytes:
        """The text that the tokens stand for; the ends of texts are left out."""
        return b"".join(map(self.bytes_of.__getitem__, tokens))

    def _merge(self, piece: bytes) -> tuple[int, ...]:
        tokens = list(piece)
        while len(tokens) > 1:
            first = min(self._order.get(pair, _NONE) for pair in pairwise(tokens))
            if first == _NONE:
                break
            tokens = _replace(tokens, self._pair_of[first], first)
        return tuple(tokens)


def learn(pieces: Mapping[bytes, int], *, merges: int = MERGES) -> np.ndarray:
    """Find merges: again and again the commonest pair of neighbours, of equals the one with the lower tokens.

    Args:
        pieces: how often each piece occurs.
        merges: how many to find.

    Returns:
        Integers of shape (merges, 2), uint16; fewer rows where no pair is left.
    """
    pairs = _Pairs(pieces)
    found: list[tuple[int, int]] = []
    while len(found) < merges and (pair := pairs.commonest()) is not None:
        pairs.join(pair, 256 + len(found))
        found.append(pair)
    return np.array(found, dtype=np.uint16).reshape(-1, 2)


class _Pairs:
    """How often each pair of neighbours occurs, and in which pieces."""

    def __init__(self, pieces: Mapping[bytes, int]) -> None:
        self._pieces = [list(piece) for piece in pieces]
        self._times = list(pieces.values())
        self._count: Counter[tuple[int, int]] = Counter()
        self._where: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        for i, piece in enumerate(self._pieces):
            for pair in pairwise(piece):
                self._count[pair] += self._times[i]
                self._where[pair].add(i)
        self._heap = [(-count, pair) for pair, count in self._count.items()]
        heapq.heapify(self._heap)

    def commonest(self) -> tuple[int, int] | None:
        """The pair to merge next; None when no piece has two tokens."""
        while self._heap:
            count, pair = heapq.heappop(self._heap)
            if (now := self._count[pair]) == -count:
                return pair
            if now > 0:  # it has lost some since its entry was made
                heapq.heappush(self._heap, (-now, pair))
        return None

    def join(self, pair: tuple[int, int], token: int) -> None:
        """Replace the pair by the token wherever it stands."""
        gained = set()
        for i in self._where.pop(pair):
            for old in pairwise(self._pieces[i]):
                self._count[old] -= self._times[i]
            self._pieces[i] = _replace(self._pieces[i], pair, token)
            for new in pairwise(self._pieces[i]):
                self._count[new] += self._times[i]
                self._where[new].add(i)
                if token in new:
                    gained.add(new)
        del self._count[pair]
        for new in gained:
            heapq.heappush(self._heap, (-self._count[new], new))


def _replace(tokens: list[int], pair: tuple[int, int], token: int) -> list[int]:
    new, i = [], 0
    while i < len(tokens):
        if tokens[i] == pair[0] and i + 1 < len(tokens) and tokens[i + 1] == pair[1]:
            new.append(token)
            i += 2
        else:
            new.append(tokens[i])
            i += 1
    return new


@lru_cache(maxsize=1)
def code_vocabulary() -> BytePairs:
    """The vocabulary of `code`: 50,000 merges, learned from its training files (docs/speedrun-data.md)."""
    with (files(__package__) / "code_merges.npy").open("rb") as file:
        return BytePairs(np.load(file, allow_pickle=False))
