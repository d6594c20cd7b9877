"""How fast could it be, and what holds it back?

A call takes at least t = max(t0 launches, bytes / beta, flops / pi): the time to start its kernels, to move its
bytes, to do its arithmetic. The largest term names the regime.

>>> from rooflab import costs
>>> laptop = Ceilings(bytes_per_s=50e9, flops_per_s={"fp32": 1e12}, launch_s=5e-6)
>>> bound(costs.matmul(1024, 1024, 1024, "fp32"), laptop).regime
'compute'
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .costs.work import Work, check_number
from .units import format_name

if TYPE_CHECKING:
    from .specs import Chip

__all__ = [
    "REGIMES", "Bound", "Ceilings", "MissingFormat", "attainable", "bound", "fit_three", "sequence_regime",
    "sequence_time_s",
]  # fmt: skip

REGIMES = ("overhead", "bandwidth", "compute")

Array = TypeVar("Array", float, np.ndarray)


@dataclass(frozen=True)
class Ceilings:
    """What a device can do at most.

    Attributes:
        bytes_per_s: memory bandwidth beta (read and written bytes together).
        flops_per_s: arithmetic rate pi of each format.
        launch_s: time t0 to start one kernel.
        label: what the ceilings belong to, for legends.
        measured: True if measured on a device, False if from a datasheet.
        date: ISO date of measuring, or of checking the datasheet.
    """

    bytes_per_s: float
    flops_per_s: Mapping[str, float] = field(hash=False)
    launch_s: float = 0.0
    label: str = ""
    measured: bool = False
    date: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.flops_per_s, Mapping):
            raise TypeError(
                f"expected flops_per_s as format and rate, as in {{'fp32': 1e12}}; found {self.flops_per_s!r}"
            )
        rates: dict[str, float] = {}
        for given, rate in self.flops_per_s.items():
            name = format_name(given)
            if name in rates:
                raise ValueError(f"expected one rate of {name}; found two, one as {given!r}")
            rates[name] = float(check_number(f"the rate of {name}", rate, positive=True))
        bytes_per_s = check_number("the rate of bytes_per_s", self.bytes_per_s, positive=True)
        object.__setattr__(self, "bytes_per_s", bytes_per_s)
        object.__setattr__(self, "launch_s", check_number("launch_s", self.launch_s))
        object.__setattr__(self, "flops_per_s", MappingProxyType(rates))

    def __reduce__(self) -> tuple[Callable[..., Ceilings], tuple[dict[str, Any]]]:
        return Ceilings.from_dict, (self.to_dict(),)  # a mapping proxy cannot be pickled or deep-copied

    def rate(self, dtype: str) -> float:
        """Return the arithmetic rate of a format in FLOP/s.

        Raises:
            KeyError: if the device has no rate for it; the message names those it has.
        """
        name = format_name(dtype)
        if name not in self.flops_per_s:
            known = ", ".join(self.flops_per_s) or "none"
            raise MissingFormat(
                f"expected a format with a known rate on {self.label or 'this device'} ({known}); found {name}"
            )
        return self.flops_per_s[name]

    def ridge(self, dtype: str) -> float:
        """Return the ridge point pi / beta in FLOP/byte: the intensity above which arithmetic is the limit."""
        return self.rate(dtype) / self.bytes_per_s

    def raised(self, *, bytes_per_s: float = 0.0, flops_per_s: Mapping[str, float] | None = None) -> Ceilings:
        """Return these ceilings, raised to what was reached: a ceiling that a measurement breaks through was none.

        Args:
            bytes_per_s: a bandwidth that was reached with data beyond all caches.
            flops_per_s: rates that were reached, by format.
        """
        for name, reached in {"bytes_per_s": bytes_per_s, **(flops_per_s or {})}.items():
            check_number(f"the rate of {name} that was reached", reached)
        rates = {name: max(rate, (flops_per_s or {}).get(name, 0.0)) for name, rate in self.flops_per_s.items()}
        return replace(self, bytes_per_s=max(self.bytes_per_s, bytes_per_s), flops_per_s=rates)

    @classmethod
    def of_chip(cls, chip: Chip) -> Ceilings:
        """Return the ceilings that a datasheet promises; a datasheet says nothing of launches, so those are free."""
        if not hasattr(chip, "bytes_per_s"):
            raise TypeError(f"expected a chip, such as specs.chip('h200'); found {chip!r:.60}")
        return cls(chip.bytes_per_s, chip.flops_per_s, label=f"{chip.name} (datasheet)", date=chip.checked)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "bytes_per_s": self.bytes_per_s,
            "flops_per_s": dict(self.flops_per_s),
            "launch_s": self.launch_s,
            "label": self.label,
            "measured": self.measured,
            "date": self.date,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Ceilings:
        """Return the ceilings that `to_dict` described.

        Raises:
            ValueError: a value is missing, unknown, or cannot be; one sentence says which.
            TypeError: a value is of another type, or these are no values by name.
        """
        if not isinstance(values, Mapping):
            raise TypeError(f"expected ceilings as values by name; found a {type(values).__name__}")
        names = [each.name for each in fields(cls)]
        if missing := [name for name in ("bytes_per_s", "flops_per_s") if name not in values]:
            raise ValueError(f"expected ceilings with {' and '.join(missing)}; found {', '.join(values) or 'nothing'}")
        if strangers := [name for name in values if name not in names]:
            raise ValueError(f"expected ceilings of {', '.join(names)}; found {', '.join(map(repr, strangers))}")
        return cls(**values)


class MissingFormat(KeyError):
    """A device has no known rate for the format asked for."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the sentence in quotes


@dataclass(frozen=True)
class Bound:
    """The three lower bounds on the time of one call, in seconds, and the work they belong to."""

    overhead_s: float
    bandwidth_s: float
    compute_s: float
    flops: float = field(default=0.0, repr=False)

    @property
    def time_s(self) -> float:
        """The bound: the largest of the three."""
        return max(self.overhead_s, self.bandwidth_s, self.compute_s)

    @property
    def regime(self) -> str:
        """Which term is the largest: "overhead", "bandwidth" or "compute" (the later in this order on a tie)."""
        terms = dict(zip(REGIMES, (self.overhead_s, self.bandwidth_s, self.compute_s), strict=True))
        return max(reversed(REGIMES), key=terms.__getitem__)

    @property
    def flops_per_s(self) -> float:
        """The arithmetic rate at the bound; 0 for a call without arithmetic, inf for one that takes no time."""
        if not self.flops:
            return 0.0
        return self.flops / self.time_s if self.time_s else math.inf


def bound(work: Work, ceilings: Ceilings) -> Bound:
    """Return the least time that `work` takes under `ceilings`, term by term.

    Raises:
        KeyError: if the work does arithmetic in a format whose rate the ceilings lack.
        TypeError: if it is no work, or these are no ceilings.
    """
    if not isinstance(work, Work) or not isinstance(ceilings, Ceilings):
        raise TypeError(
            f"expected bound(work, ceilings); found a {type(work).__name__} and a {type(ceilings).__name__}"
        )
    return Bound(
        overhead_s=ceilings.launch_s * work.launches,
        bandwidth_s=work.bytes / ceilings.bytes_per_s,
        compute_s=work.flops / ceilings.rate(work.dtype) if work.flops else 0.0,
        flops=work.flops,
    )


def sequence_time_s(works: Iterable[Work], ceilings: Ceilings) -> float:
    """Return the least time of works that run one after the other on the device.

    The host starts kernels while the device runs earlier ones, so the launches overlap with the device's work; the
    device's works do not overlap with each other: max(sum t0 launches, sum max(bytes / beta, flops / pi)).
    With one format, at least `bound` of the sum, which would let one work's arithmetic hide another's traffic.
    """
    bounds = _bounds(works, ceilings)
    device_s = sum(max(b.bandwidth_s, b.compute_s) for b in bounds)
    return max(sum(b.overhead_s for b in bounds), device_s)


def sequence_regime(works: Iterable[Work], ceilings: Ceilings) -> str:
    """Return the regime of works that run one after the other, as in `sequence_time_s`.

    "overhead" where the launches take longer than the device; else "bandwidth" or "compute", whichever regime the
    works that take most of the device's time are in.
    """
    bounds = _bounds(works, ceilings)
    moving_s = sum(b.bandwidth_s for b in bounds if b.bandwidth_s > b.compute_s)
    computing_s = sum(b.compute_s for b in bounds if b.bandwidth_s <= b.compute_s)
    if sum(b.overhead_s for b in bounds) > moving_s + computing_s:
        return "overhead"
    return "bandwidth" if moving_s > computing_s else "compute"


def _bounds(works: Iterable[Work], ceilings: Ceilings) -> list[Bound]:
    """The bound of each work."""
    if isinstance(works, Work):
        raise TypeError("expected a list of works, one after the other; found a single one: take bound(work, ceilings)")
    if isinstance(works, str | Mapping) or not isinstance(works, Iterable):
        raise TypeError(f"expected a list of works, one after the other; found {works!r:.60}")
    return [bound(work, ceilings) for work in works]


def attainable(intensity: Array, ceilings: Ceilings, dtype: str) -> Array:
    """Return the roof min(pi, beta I) in FLOP/s at an intensity in FLOP/byte; elementwise on an array.

    Raises:
        KeyError: if the ceilings have no rate for the format.
        ValueError: if an intensity is negative or no number.
        TypeError: if these are no ceilings.
    """
    if not isinstance(ceilings, Ceilings):
        raise TypeError(f"expected attainable(intensity, ceilings, dtype); found {ceilings!r:.60} for the ceilings")
    if isinstance(intensity, np.ndarray):
        fine = intensity.dtype.kind in "fiu" and bool(np.all(intensity >= 0))
    else:
        fine = isinstance(intensity, Real) and bool(intensity >= 0)
    if not fine:
        raise ValueError(
            f"expected an intensity of zero or more in FLOP/byte, or an array of them; found {intensity!r:.80}"
        )
    if isinstance(intensity, np.ndarray):
        with np.errstate(over="ignore"):  # infinite, which the roof is below
            return np.minimum(ceilings.rate(dtype), intensity * ceilings.bytes_per_s)
    beyond = isinstance(intensity, int) and intensity > sys.float_info.max  # a whole number may be larger than floats
    return min(ceilings.rate(dtype), (math.inf if beyond else float(intensity)) * ceilings.bytes_per_s)


def fit_three(
    tiny_s: float, elementwise: tuple[float, float], matmul: tuple[float, float], *, dtype: str, label: str = ""
) -> Ceilings:
    """Fit the three-regime model from three measured numbers.

    Each number is taken deep inside one regime, where the other two terms do not matter, so each gives one
    parameter: t0 = tiny_s, beta = bytes / seconds, pi = flops / seconds.

    Args:
        tiny_s: seconds of an operation on a few elements (one kernel).
        elementwise: bytes moved and seconds of a large elementwise operation.
        matmul: FLOPs and seconds of a large matrix product.
        dtype: format of the matrix product.
        label: what was measured.

    Raises:
        ValueError: if a number is not positive, or a large operation was no slower than the tiny one.
    """
    large = {"elementwise": elementwise, "matmul": matmul}
    for what, pair in large.items():
        numbers = [tiny_s, *pair] if isinstance(pair, tuple | list) else []
        if len(numbers) != 3 or not all(isinstance(number, Real) for number in numbers):
            raise TypeError(f"expected seconds of the tiny operation, and (amount, seconds) of the {what}; "
                            f"found {tiny_s!r} and {pair!r}")  # fmt: skip
        amount, seconds = pair
        if not (amount > 0 and tiny_s > 0 and seconds > tiny_s):
            raise ValueError(
                f"expected a large {what} that takes longer than the tiny operation ({tiny_s!r} s); "
                f"found {amount!r} in {seconds!r} s: measure a larger one"
            )
    rates = {dtype: matmul[0] / matmul[1]}
    return Ceilings(elementwise[0] / elementwise[1], rates, launch_s=tiny_s, label=label, measured=True)
