"""What plain data is an answer made of, and where does it differ from the expected one?

>>> plain((np.float64(1.5), {"a": np.True_}))
[1.5, {'a': True}]
>>> difference([1, 2.5], [1, 2], exact)
'at [1]: expected 2, found 2.5'
>>> from rooflab.tolerances import tolerance
>>> difference(0.1 + 0.2, 0.3, lambda size: tolerance("fp64", 2, scale=size)) is None
True

An object could say of itself that it is equal to anything; numbers, strings, lists, dicts and arrays of exactly these
types cannot. So answers are rebuilt from these before they are compared.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .tolerances import Tolerance
from .wording import amount, both, kind

__all__ = ["Allowed", "difference", "exact", "plain"]

_NUMPY_SCALARS = frozenset(np.sctypeDict.values())
_DEEPEST = 20


Allowed = Callable[[float], Tolerance]
"""The tolerance for numbers of which the largest expected one has this size."""


def exact(_: float) -> Tolerance:
    """Allow nothing."""
    return Tolerance(0.0, 0.0)


def plain(value: object, *, what: str = "the answer", depth: int = 0) -> Any:
    """Rebuild ``value`` from None, bool, int, float, complex, str, list, dict and numpy arrays of numbers.

    Tuples become lists, numpy scalars and arrays without axes become numbers.

    Raises:
        TypeError: naming the type that is none of these (subclasses are not: they may redefine ``==``).

    >>> plain((np.float64(1.5), {"a": np.True_}))
    [1.5, {'a': True}]
    """
    found = type(value)
    if value is None or _one_of(found, (bool, int, float, complex, str)):
        return value
    if depth > _DEEPEST:
        raise TypeError(f"{what} is nested more than {_DEEPEST} deep; expected plain numbers, lists or arrays")
    if isinstance(value, list | tuple) and _one_of(found, (list, tuple)):
        return [plain(item, what=what, depth=depth + 1) for item in value]
    if isinstance(value, dict) and found is dict:
        return {_key(key, what): plain(item, what=what, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, np.ndarray) and found is np.ndarray:
        array = _number_array(value, what)
        return array.item() if array.ndim == 0 else array
    if isinstance(value, np.str_) and found is np.str_:
        return str(value)
    if isinstance(value, np.generic) and (_one_of(found, _NUMPY_SCALARS) or _small_float(found.__name__)):
        return plain(np.asarray(value), what=what, depth=depth)
    raise TypeError(
        f"{what} holds a {found.__module__}.{found.__qualname__}; expected numbers, strings, lists, dicts or numpy "
        "arrays (of a tensor, its .numpy())"
    )


def _one_of(found: type, types: Iterable[type]) -> bool:
    # Not `in`: a metaclass may redefine the == of types.
    return any(found is one for one in types)


def _small_float(name: str) -> bool:
    return name.startswith(("bfloat16", "float8", "float6", "float4"))  # the names that ml_dtypes gives to its formats


def _key(key: object, what: str) -> object:
    if not _one_of(type(key), (str, int, float, bool)):
        raise TypeError(f"{what} has a dict key of type {type(key).__name__}; expected a string or a number")
    return key


def _number_array(array: np.ndarray[Any, Any], what: str) -> np.ndarray[Any, Any]:
    if _small_float(array.dtype.name):
        return array.astype(np.float64)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{what} holds an array of dtype {array.dtype}; expected an array of numbers")
    return array.copy()


def difference(found: Any, expected: Any, allowed: Allowed, *, path: str = "", unit: str | None = None) -> str | None:
    """Say where two plain values differ, or None; numbers are written in ``unit``, if it is given.

    Of arrays the element furthest outside its tolerance is named, of lists and dicts the first. The answer is "" where
    the two values themselves say everything.
    """
    at = f"at {path}: " if path else ""
    if kind(found) != kind(expected):
        return f"{at}expected {kind(expected)}, found {kind(found)}" if path else ""
    if isinstance(expected, dict):
        if found.keys() != expected.keys():
            missing, unexpected = expected.keys() - found.keys(), found.keys() - expected.keys()
            return f"{at}missing keys {sorted(map(str, missing))}, unexpected keys {sorted(map(str, unexpected))}"
        pairs = [(found[key], expected[key], f"{path}[{key!r}]") for key in expected]
    elif isinstance(expected, list):
        if len(found) != len(expected):
            return f"{at}expected {len(expected)} items, found {len(found)}"
        pairs = [(a, b, f"{path}[{index}]") for index, (a, b) in enumerate(zip(found, expected, strict=True))]
    elif isinstance(expected, np.ndarray):
        return _worst_element(found, expected, path, allowed, unit)
    elif type(expected) in (int, float, complex):
        return _number_difference(found, expected, at, allowed, unit)
    else:
        return None if found == expected else _values(at, expected, found, unit)
    places = (difference(a, b, allowed, path=key, unit=unit) for a, b, key in pairs)
    return next((place for place in places if place is not None), None)


def _values(at: str, expected: object, found: object, unit: str | None) -> str:
    if not at:
        return ""
    wanted, got = both(expected, found, unit=unit)
    return f"{at}expected {wanted}, found {got}"


def _number_difference(found: complex, expected: complex, at: str, allowed: Allowed, unit: str | None) -> str | None:
    # In Python and not in numpy: counts of FLOPs and bytes pass 2^63.
    if found == expected:
        return None
    values = _values(at, expected, found, unit)
    try:
        if not cmath.isfinite(expected) or not cmath.isfinite(found):
            return values
        limit, off = allowed(abs(expected)), abs(found - expected)
        bound = limit.atol + limit.rtol * abs(expected)
    except OverflowError:  # a whole number that no float holds is not near one
        return values
    if off <= bound:
        return None
    told = f"off by {amount(off, unit)}, where {amount(bound, unit)} is allowed" if bound else ""
    return ", ".join(filter(None, (values, told)))


def _worst_element(found: Any, expected: Any, path: str, allowed: Allowed, unit: str | None) -> str | None:
    sizes = np.abs(expected[np.isfinite(expected)].astype(complex))
    limit = allowed(float(sizes.max()) if sizes.size else 0.0)
    with np.errstate(all="ignore"):
        same = found == expected
        off = np.abs(np.subtract(found, expected, dtype=np.result_type(found, expected, float)))
        # An infinite element has no neighbourhood, and NaN (on either side) is never right.
        bound = np.where(np.isfinite(expected), limit.atol + limit.rtol * np.abs(expected), 0.0)
        wrong = ~(same | (off <= bound))
    if not wrong.any():
        return None
    excess = np.where(wrong, np.nan_to_num(off - bound, nan=np.inf, posinf=np.inf), -1.0)
    index = np.unravel_index(int(excess.argmax()), excess.shape)
    place = f"{path}[{', '.join(map(str, index))}]"
    values = _values(f"at {place}: ", expected[index].item(), found[index].item(), unit)
    share = f"{int(wrong.sum())} of {wrong.size} elements are wrong; the worst is "
    return f"{share}{values}" + (f", where {amount(bound[index], unit)} is allowed" if bound[index] else "")
