"""How are two answers written so that a reader sees at once where they differ?

Numbers are short, in their unit where it is known, and get more digits only where two of them would look alike:

>>> both(60e-6, 1.0643200000000001e-4, unit="s")
('60 µs', '106.432 µs')
>>> both(0.4, 0.1 + 0.2)
('0.4', '0.3')
>>> both(0.3, 0.1 + 0.2)
('0.3', '0.30000000000000004')
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .units import format_si

__all__ = ["amount", "both", "kind"]

_DIGITS = (6, 9, 12, 17)  # the last tells any two float64 apart
_BITS = 1000
_LONGEST, _HEAD, _TAIL = 200, 120, 60


def kind(value: object) -> str:
    """Say what ``value``, which is plain, is; two values of different kinds are never equal."""
    if isinstance(value, np.ndarray):
        of = {"b": " of bools", "c": " of complex numbers"}.get(value.dtype.kind, "")
        return f"an array{of} of shape {value.shape}"
    names = {bool: "a bool", complex: "a complex number", str: "a string", list: "a list", dict: "a dict"}
    return "nothing" if value is None else names.get(type(value), "a number")


def both(expected: object, found: object, *, unit: str | None = None) -> tuple[str, str]:
    """Write two plain values with as few digits, from six on, as tell them apart.

    Args:
        expected: numbers, strings, lists, dicts or arrays.
        found: likewise.
        unit: of all their numbers, which are in SI units; None writes them bare.
    """
    texts = [(_short(expected, digits, unit), _short(found, digits, unit)) for digits in _DIGITS]
    return next((pair for pair in texts if pair[0] != pair[1]), texts[0])


def amount(value: float, unit: str | None) -> str:
    """Write a tolerance or an error: two digits say enough."""
    return format_si(float(value), unit, digits=2) if unit is not None else f"{value:.2g}"


def _short(value: object, digits: int, unit: str | None) -> str:
    """Write ``value`` on at most a few lines."""
    if isinstance(value, np.ndarray):
        text = _array(value, digits, unit)
        return f"{text} shape {value.shape}" if value.size > 12 else text
    text = value if isinstance(value, str) and len(value) > _LONGEST else _text(value, digits, unit)
    return text if len(text) <= _LONGEST else f"{text[:_HEAD]} ... {text[-_TAIL:]}"


def _array(value: np.ndarray[Any, Any], digits: int, unit: str | None) -> str:
    how: dict[str, Any] = {"threshold": 12, "edgeitems": 3, "precision": digits, "max_line_width": 100}
    if unit is not None and value.dtype.kind in "iuf":
        how["formatter"] = {"all": lambda item: _text(item.item(), digits, unit)}
    return np.array2string(value, **how)


def _text(value: object, digits: int, unit: str | None) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_text(item, digits, unit) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_text(item, digits, unit)}" for key, item in value.items()) + "}"
    if isinstance(value, bool) or not isinstance(value, int | float | complex):
        return repr(value)
    if isinstance(value, int) and value.bit_length() > _BITS:
        return f"a whole number of {value.bit_length():,} bits"  # no float is so large, and Python may not write it
    if unit is not None and not isinstance(value, complex) and np.isfinite(value):
        return format_si(float(value), unit, digits)
    if isinstance(value, int):
        return repr(value)
    rounded = f"{value:.{digits}g}"
    return repr(value) if complex(rounded.strip("()")) == value else rounded
