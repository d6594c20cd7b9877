"""What must one call do: how many FLOPs, how many bytes, how many kernels?

>>> twice = 2 * Work(flops=6, bytes_read=8, bytes_written=4)
>>> twice.flops, twice.bytes, twice.launches, twice.intensity
(12, 24, 2, 0.5)
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from numbers import Integral, Real

from rooflab.units import format_name, format_si

__all__ = ["Work"]


@dataclass(frozen=True)
class Work:
    """The least that one call must do, whatever the device.

    Conventions: a multiply-add is two FLOPs; a comparison, a division, a square root and an exponential are one each;
    every input is read from memory once and every output written once.

    Attributes:
        flops: arithmetic operations, multiply and add counted apart.
        bytes_read: bytes that come from memory.
        bytes_written: bytes that go to memory.
        launches: kernels that the host starts.
        dtype: the format whose rate bounds the arithmetic.
        name: what it is, for tables and figures.

    Raises:
        ValueError: for a negative or undefined count, one beyond all floats, or a format that is not in
            `rooflab.units.FORMATS`.
        TypeError: for a name that is no text.
    """

    flops: float = 0
    bytes_read: float = 0
    bytes_written: float = 0
    launches: int = 1
    dtype: str = "fp32"
    name: str = ""

    def __post_init__(self) -> None:
        for field in ("flops", "bytes_read", "bytes_written", "launches"):
            object.__setattr__(self, field, check_number(field, getattr(self, field)))
        check_number("bytes read and written", self.bytes)
        if not isinstance(self.name, str):
            raise TypeError(f"expected the name of the work as text; found {self.name!r:.60}")
        object.__setattr__(self, "dtype", format_name(self.dtype))

    @property
    def bytes(self) -> float:
        """Bytes moved to and from memory."""
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Arithmetic intensity in FLOP/byte; infinite when no byte moves."""
        return self.flops / self.bytes if self.bytes else math.inf

    def __add__(self, other: Work) -> Work:
        """One after the other: all counts sum; the format is that of the part with more FLOPs."""
        if not isinstance(other, Work):
            return NotImplemented
        return Work(
            flops=self.flops + other.flops,
            bytes_read=self.bytes_read + other.bytes_read,
            bytes_written=self.bytes_written + other.bytes_written,
            launches=self.launches + other.launches,
            dtype=self.dtype if self.flops >= other.flops else other.dtype,
            name=" + ".join(dict.fromkeys(part for part in (self.name, other.name) if part)),
        )

    def __radd__(self, other: int) -> Work:
        """Let `sum` add works: it starts from zero."""
        return self if other == 0 else NotImplemented

    def __mul__(self, repeats: int) -> Work:
        """The same call `repeats` times, one after the other."""
        if isinstance(repeats, bool) or not isinstance(repeats, Integral):
            return NotImplemented
        return Work(
            flops=self.flops * repeats,
            bytes_read=self.bytes_read * repeats,
            bytes_written=self.bytes_written * repeats,
            launches=self.launches * repeats,
            dtype=self.dtype,
            name=self.name,
        )

    __rmul__ = __mul__

    def __str__(self) -> str:
        kernels = f"{self.launches} kernel" + ("" if self.launches == 1 else "s")
        counts = f"{format_si(self.flops, 'FLOP')}, {format_si(self.bytes, 'B')}, {kernels}"
        return f"{self.name}: {counts}" if self.name else counts


LARGEST = 2**128  # of one size: products of several are floats still


def check_counts(*, least: int = 1, **counts: float) -> tuple[int, ...]:
    """Return sizes as whole numbers of Python, which never overflow as NumPy's do.

    Raises:
        ValueError: naming the first that is no whole number of `least` or more.
    """
    for name, value in counts.items():
        if not (_is_real(value) and least <= value < math.inf and value % 1 == 0):
            raise ValueError(f"expected {name} to be a whole number of {least} or more; found {_shown(value)}")
        if int(value) > LARGEST:
            raise ValueError(f"expected {name} to be at most 2^128; found {_shown(value)}")
    return tuple(int(value) for value in counts.values())


def check_number(name: str, value: float, *, positive: bool = False) -> float:
    """Return a number of Python's, whole where it is of a whole type.

    Raises:
        ValueError: with one sentence that names it; it is no finite number of zero or more, or with ``positive`` zero.
    """
    if not (_is_real(value) and value >= 0 and value < math.inf and (value or not positive)):
        wanted = "to be a positive number" if positive else "of zero or more"
        raise ValueError(f"expected {name} {wanted}; found {_shown(value)}")
    number = int(value) if isinstance(value, Integral) else float(value)
    if number > sys.float_info.max:
        raise ValueError(f"expected {name} to be at most {sys.float_info.max:.2g}; found {_shown(value)}")
    return number


def check_flag(name: str, value: object) -> bool:
    """Return a choice as Python's True or False.

    Raises:
        TypeError: it is neither.
    """
    if not (isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")):  # the latter are NumPy's
        raise TypeError(f"expected {name} to be True or False; found {value!r:.60}")
    return bool(value)


def _is_real(value: object) -> bool:
    """Whether it is a number with an order; of NumPy's too, but a bool is none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a whole number of {value.bit_length():,} bits"
    return f"{value!r:.60}"
