"""What do the samples of a timing say, and how sure are we?

>>> m = Measurement("copy", times_s=(1.0e-3, 1.1e-3, 0.9e-3))
>>> m.median_s, m.low_s, m.high_s
(0.001, 0.0009, 0.0011)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real

from .costs import Work
from .load import Load, loads_together
from .units import format_si

__all__ = ["Measurement", "Ratio", "disturbance", "median_interval", "quantile"]

SPREAD_LIMIT = 0.10  # p20 to p80, as a share of the median, above which a measurement warns


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile (0 to 1) of at least one value, interpolated linearly between order statistics.

    Raises:
        ValueError: no values, one that is not-a-number, or a q outside 0 to 1.
        TypeError: something is no number.
    """
    ordered = _in_order(values)
    if isinstance(q, bool) or not isinstance(q, int | float):
        raise TypeError(f"expected a q from 0 to 1; found {q!r}")
    if not ordered or not 0 <= q <= 1:
        raise ValueError(f"expected at least one value and a q from 0 to 1; found {len(ordered)} values and q = {q!r}")
    position = q * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def _in_order(values: Sequence[float]) -> list[float]:
    """The values sorted; refuses those that have no order."""
    try:
        ordered = sorted(values)
        total = sum(ordered)
    except TypeError:
        raise TypeError(f"expected numbers in a list; found {str(values)[:60]}") from None
    if total != total and any(value != value for value in ordered):
        raise ValueError(f"expected numbers; found nan among {len(ordered)} values, which has no place in their order")
    return ordered


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """A 95 % confidence interval of the median, from order statistics (no assumption on the distribution).

    The number of samples below the true median is binomial(n, 1/2); its normal approximation gives the two ranks
    n/2 -+ 0.98 sqrt(n) (Le Boudec, Performance Evaluation, section 2.2). Fewer than six samples give the whole range,
    which is less sure (one sample in 2^(n-1) has all values on one side).

    Raises:
        ValueError: no values.
    """
    ordered = _in_order(values)
    n = len(ordered)
    if not n:
        raise ValueError("expected at least one value; found none")
    if n < 6:
        return ordered[0], ordered[-1]
    half = 0.98 * math.sqrt(n)
    low = max(0, math.floor(n / 2 - half) - 1)
    high = min(n - 1, math.ceil(n / 2 + half))
    return ordered[low], ordered[high]


def disturbance(measurements: Iterable[Measurement]) -> str:
    """One sentence on those that should not be trusted yet, and on the load by others; empty where nothing is wrong."""
    every = list(measurements)
    wide = [m for m in every if m.warning]
    load = loads_together(m.load for m in every)
    if not wide and not (load is not None and load.is_heavy):
        return ""
    found = []
    if wide:
        widest = max(m.spread for m in wide)
        found.append(f"{len(wide)} of {len(every)} measurements, spread up to {widest:.0%} of the median")
    return _disturbed(found, load)


def _disturbed(found: list[str], load: Load | None) -> str:
    """What was found, what others computed meanwhile where that is known, and what to do."""
    if load is not None and load.is_known:
        found = [*found, f"{load.sentence()} meanwhile"]
    innocent = load is not None and load.is_light
    return f"Disturbed: {'; '.join(found)}. {'Run' if innocent else 'Close other programs and run'} this cell again."


class Ratio(float):
    """A ratio of two interleaved measurements: the median of the ratios round by round, with their p20 and p80."""

    ratios: tuple[float, ...]
    p20: float
    p80: float
    load: Load | None

    def __new__(cls, ratios: Sequence[float], load: Load | None = None) -> Ratio:
        """Make it from one ratio a round, and from what others computed meanwhile."""
        self = super().__new__(cls, quantile(ratios, 0.5))
        self.ratios, self.load = tuple(ratios), load
        self.p20, self.p80 = quantile(ratios, 0.2), quantile(ratios, 0.8)
        return self

    @property
    def spread(self) -> float:
        """p80 minus p20, as a share of the median."""
        return (self.p80 - self.p20) / self if self.p80 > self.p20 else 0.0

    @property
    def warning(self) -> str:
        """One sentence when the ratio should not be trusted yet, else an empty string."""
        if self.spread <= SPREAD_LIMIT:
            return _disturbed([], self.load) if self.load is not None and self.load.is_heavy else ""
        band = f"{format_si(self.p20, 'x')} to {format_si(self.p80, 'x')}"
        return _disturbed([f"the middle three fifths of {len(self.ratios)} samples gave {band}"], self.load)

    def __getnewargs__(self) -> tuple[tuple[float, ...], Load | None]:  # type: ignore[override]
        return (self.ratios, self.load)  # what copy and pickle make it from; a float would hand over itself


@dataclass(frozen=True)
class Measurement:
    """The samples of one candidate; every ``*_s`` is in seconds per call.

    Attributes:
        times_s: one entry a sample, in the order taken.
        calls: calls in each sample.
        first_call_s: the very first call, with whatever was compiled or allocated in it.
        settled: whether the median's 95 % interval became as narrow as asked before the time was up.
        work: what one call must do, when given.
        clock: "host", "events" or "graph".
        turn: number of the run in which it was interleaved with others; samples are paired within a run only.
        load: what others computed on this machine meanwhile, where that is known.
    """

    name: str
    times_s: tuple[float, ...]
    calls: int = 1
    first_call_s: float = field(default=math.nan, compare=False)  # NaN, where it is not known, equals nothing
    settled: bool = True
    work: Work | None = None
    clock: str = "host"
    cold: bool = False
    turn: int = 0
    load: Load | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        given = self.times_s
        if isinstance(given, str | bytes) or not hasattr(given, "__iter__") or getattr(given, "ndim", 1) != 1:
            raise TypeError(f"expected the times of {self.name!r}, one a sample, in a list; found {given!r:.60}")
        times_s = tuple(given)
        for time_s in times_s:
            if isinstance(time_s, bool) or not isinstance(time_s, Real) or not 0 < time_s < math.inf:
                raise ValueError(f"expected the times of {self.name!r} in seconds, above zero; found {time_s!r}")
        if not times_s:
            raise ValueError(f"expected at least one time of {self.name!r}; found none")
        try:
            object.__setattr__(self, "times_s", tuple(map(float, times_s)))
        except OverflowError:
            raise ValueError(f"expected the times of {self.name!r} in seconds; found one beyond all floats") from None

    @property
    def median_s(self) -> float:
        """Half of the samples took less."""
        return quantile(self.times_s, 0.5)

    @property
    def p20_s(self) -> float:
        """A fifth of the samples took less."""
        return quantile(self.times_s, 0.2)

    @property
    def p80_s(self) -> float:
        """Four fifths of the samples took less."""
        return quantile(self.times_s, 0.8)

    @property
    def low_s(self) -> float:
        """Lower end of the median's 95 % confidence interval."""
        return median_interval(self.times_s)[0]

    @property
    def high_s(self) -> float:
        """Upper end of the median's 95 % confidence interval."""
        return median_interval(self.times_s)[1]

    @property
    def spread(self) -> float:
        """p80 minus p20, as a share of the median."""
        return (self.p80_s - self.p20_s) / self.median_s if self.p80_s > self.p20_s else 0.0

    @property
    def flops_per_s(self) -> float:
        """Achieved rate of the given work."""
        return self._work("flops_per_s").flops / self.median_s

    @property
    def bytes_per_s(self) -> float:
        """Achieved bandwidth of the given work."""
        return self._work("bytes_per_s").bytes / self.median_s

    @property
    def warning(self) -> str:
        """One sentence when the number should not be trusted yet, else an empty string."""
        if self.spread > SPREAD_LIMIT:
            return (f"{self.name}: the middle three fifths of the samples spread over {self.spread:.0%} of the median; "
                    "close what else is running, or measure for longer.")  # fmt: skip
        if self.load is not None and self.load.is_heavy:
            return f"{self.name}: {self.load.sentence()} meanwhile; close what else is running."
        if not self.settled:
            return f"{self.name}: not settled after {len(self.times_s)} samples; raise budget_s."
        return ""

    def _work(self, what: str) -> Work:
        if self.work is None:
            raise ValueError(f"{what} needs the work of a call: pass work=costs.… to measure().")
        return self.work

    def __truediv__(self, other: Measurement) -> Ratio:
        if not isinstance(other, Measurement):
            return NotImplemented
        load = loads_together([self.load, other.load])
        if self.turn and self.turn == other.turn and len(self.times_s) == len(other.times_s):
            return Ratio([a / b for a, b in zip(self.times_s, other.times_s, strict=True)], load)
        # Of different runs no sample belongs to another: each is set against the other's median.
        return Ratio([time_s / other.median_s for time_s in self.times_s], load)

    def __repr__(self) -> str:
        band = f"{format_si(self.p20_s, 's')} to {format_si(self.p80_s, 's')}"
        text = f"{self.name}: {format_si(self.median_s, 's')} (p20 to p80: {band}; {self.clock} clock"
        text += f", {len(self.times_s)} samples of {self.calls}{', cold caches' if self.cold else ''})"
        if self.work is not None and self.work.flops:
            text += f", {format_si(self.flops_per_s, 'FLOP/s')}"
        if self.work is not None and self.work.bytes:
            text += f", {format_si(self.bytes_per_s, 'B/s')}"
        return text + (f"\n  {self.warning}" if self.warning else "")
