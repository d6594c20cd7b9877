"""How far may a right result be from a float64 reference, in a format and after a reduction of some length?

>>> tolerance("bf16").rtol > tolerance("fp32").rtol > tolerance("fp64").rtol
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["Tolerance", "tolerance"]

# Format -> (unit roundoff, smallest step near zero). fp8 is e4m3.
_FORMATS = {
    "fp64": (2.0**-53, 2.0**-1022),
    "fp32": (2.0**-24, 2.0**-126),
    "tf32": (2.0**-11, 2.0**-126),
    "bf16": (2.0**-8, 2.0**-126),
    "fp16": (2.0**-11, 2.0**-24),
    "fp8": (2.0**-4, 2.0**-9),
}
# No misconception is this small, and a reference in float64 has rounding errors of its own.
_SMALLEST_RTOL = 1e-12


@dataclass(frozen=True)
class Tolerance:
    """A found value f passes for e when ``|f - e| <= atol + rtol * |e|``."""

    rtol: float
    atol: float


def tolerance(dtype: str, length: int = 1, *, scale: float = 0.0) -> Tolerance:
    """Return how far a right answer in ``dtype`` may be from a float64 reference.

    A few roundings of the result, ``4 u``, and ``4 sqrt(length) u`` for a sum of ``length`` terms, where formats
    narrower than fp32 are taken to be added up in fp32: a bf16 accumulator is a mistake and has to be seen. Errors of
    a sum are relative to what it comes to on the way (``scale``: the size of its terms, or of its largest partial sum
    where that is more), not to what is left when the terms cancel. Source: Higham and Mary, "A new approach to
    probabilistic rounding error analysis", SIAM J. Sci. Comput. 41(5), 2019.

    >>> tolerance("bf16", 1024).rtol < 32 * 2**-8      # what adding 1,024 terms in bf16 would cost
    True
    """
    if dtype not in _FORMATS:
        raise ValueError(f"unknown format {dtype!r}; expected one of {', '.join(_FORMATS)}")
    if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 1:
        raise ValueError(f"a reduction has at least one term, a whole number of them; found length={length!r}")
    if not 0 <= scale < math.inf:
        raise ValueError(f"expected the size of the terms as a finite number of zero or more; found scale={scale!r}")
    unit, step = _FORMATS[dtype]
    accumulator = min(unit, _FORMATS["fp32"][0])
    rtol = max(4 * unit + 4 * math.sqrt(length) * accumulator, _SMALLEST_RTOL)
    return Tolerance(rtol, rtol * scale + step)
