"""Which types of the standard library cross the pipe, and what of them is refused before anything is built?

What could keep the grader busy for hours, though it is short to send: dicts whose keys all have one hash, ranges and
fractions of enormous numbers.

>>> REBUILT["range"][2]((0, 6, 2))
range(0, 6, 2)
>>> REBUILT["range"][2]((0, 10**12, 1))
Traceback (most recent call last):
rooflab.grading.parts.Refused: an answer holds a range of more than 100,000,000 numbers
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
from collections.abc import Callable
from typing import Any

__all__ = [
    "MOST_ITEMS", "REBUILT", "Refused", "list_of", "pair_of", "real_of", "spread", "text_of", "unlike", "whole_of",
]  # fmt: skip

MOST_ITEMS = 2_000_000

_MOST_RANGE = 10**8
_MOST_BITS = 20_000
_MOST_COLLISIONS = 1000
_FACTORIES = (int, float, complex, bool, str, list, tuple, dict, set)  # of what a defaultdict lacks


class Refused(ValueError):
    """Data that came over the pipe and is not what was agreed."""


def list_of(value: Any) -> list[Any]:
    """Return a list that is one; this and the following raise Refused."""
    if type(value) is not list:
        raise Refused("an answer holds something that should be a list and is none")
    return value


def pair_of(value: Any) -> list[Any]:
    """Return a list of two."""
    if type(value) is not list or len(value) != 2:
        raise Refused("an answer holds something that should be a pair and is none")
    return value


def whole_of(value: Any) -> int:
    """Return a whole number that is no bool."""
    if type(value) is not int:
        raise Refused("an answer holds something that should be a whole number and is none")
    return value


def real_of(value: Any) -> float:
    """Return a float."""
    if type(value) is not float:
        raise Refused("an answer holds something that should be a number and is none")
    return value


def text_of(value: Any) -> str:
    """Return a string."""
    if type(value) is not str:
        raise Refused("an answer holds something that should be text and is none")
    return value


def _range(parts: Any) -> range:
    made = range(*map(whole_of, parts))
    if len(made) > _MOST_RANGE:  # short to send, and a check would go through all of it
        raise Refused(f"an answer holds a range of more than {_MOST_RANGE:,} numbers")
    return made


def _short(number: Any) -> int:
    if whole_of(number).bit_length() > _MOST_BITS:  # to reduce a fraction takes the square of its length
        raise Refused("an answer holds a fraction of enormous numbers")
    return int(number)


def _decimal(text: Any) -> decimal.Decimal:
    made = decimal.Decimal(text_of(text)[:_MOST_BITS])
    if made.is_finite() and abs(made.adjusted()) > _MOST_BITS:  # a whole number of it would fill the memory
        raise Refused("an answer holds a decimal number with an enormous exponent")
    return made


def _factory(told: Any) -> Callable[[], Any] | None:
    return next((kind for kind in _FACTORIES if kind is told), None)


def spread(pairs: list[Any]) -> list[Any]:
    """Pairs for a dict, unless their keys were made to have one hash: to look each up would take the square of all."""
    unlike([pair_of(list(pair))[0] for pair in pairs])
    return pairs


def unlike(keys: list[Any]) -> list[Any]:
    """Keys of a dict or a set, unless they were made to have one hash."""
    if max(collections.Counter(map(hash, keys)).values(), default=0) > _MOST_COLLISIONS:
        raise Refused("an answer holds a dict or a set whose keys all have the same hash")
    return keys


# Types that are rebuilt from plain ones, by name: how to take them apart, and how to build them.
REBUILT: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "OrderedDict": (collections.OrderedDict, lambda v: list(v.items()), lambda v: collections.OrderedDict(spread(v))),
    "Counter": (collections.Counter, lambda v: list(v.items()), lambda v: collections.Counter(dict(spread(v)))),
    "defaultdict": (
        collections.defaultdict,
        lambda v: (_factory(v.default_factory), list(v.items())),
        lambda v: collections.defaultdict(_factory(v[0]), spread(v[1])),
    ),
    "deque": (collections.deque, list, collections.deque),
    "range": (range, lambda v: (v.start, v.stop, v.step), _range),
    "slice": (slice, lambda v: (v.start, v.stop, v.step), lambda v: slice(*v)),
    "Fraction": (
        fractions.Fraction,
        lambda v: (v.numerator, v.denominator),
        lambda v: fractions.Fraction(*map(_short, v)),
    ),
    "Decimal": (decimal.Decimal, str, _decimal),
    "date": (datetime.date, lambda v: v.isoformat(), lambda v: datetime.date.fromisoformat(text_of(v))),
    "datetime": (datetime.datetime, lambda v: v.isoformat(), lambda v: datetime.datetime.fromisoformat(text_of(v))),
    "timedelta": (
        datetime.timedelta,
        lambda v: (v.days, v.seconds, v.microseconds),
        lambda v: datetime.timedelta(*map(whole_of, v)),
    ),
}
