"""How long does this take, and how sure are we?

``measure`` waits for the device, warms up, and takes samples until the median is settled. ``measure_all`` does the
same for several candidates in turn, so that whatever drifts hits all of them alike.

>>> m = measure(lambda: sum(range(100)), budget_s=0.02)
>>> m.low_s <= m.median_s <= m.high_s
True
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from .clocks import Clock, cache_flusher, named_clock, wait
from .costs import Work
from .units import format_si

__all__ = ["Measurement", "Ratio", "measure", "measure_all", "median_interval", "quantile"]

SPREAD_LIMIT = 0.10  # p20 to p80, as a share of the median, above which a measurement warns
SAMPLE_S = 1e-3  # a sample lasts at least this long, so that reading the clock is no part of it


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile of at least one value, interpolated linearly between order statistics."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """A 95 % confidence interval of the median, from order statistics (no assumption on the distribution).

    The number of samples below the true median is binomial(n, 1/2); its normal approximation gives the two ranks
    n/2 -+ 0.98 sqrt(n) (Le Boudec, Performance Evaluation, section 2.2). Fewer than six samples give the whole range.
    """
    ordered, n = sorted(values), len(values)
    if n < 6:
        return ordered[0], ordered[-1]
    half = 0.98 * math.sqrt(n)
    low = max(0, math.floor(n / 2 - half) - 1)
    high = min(n - 1, math.ceil(n / 2 + half))
    return ordered[low], ordered[high]


class Ratio(float):
    """A ratio of two interleaved measurements: the median of the ratios round by round, with their p20 and p80."""

    p20: float
    p80: float

    def __new__(cls, ratios: Sequence[float]) -> Ratio:
        """Make it from one ratio a round."""
        self = super().__new__(cls, quantile(ratios, 0.5))
        self.p20, self.p80 = quantile(ratios, 0.2), quantile(ratios, 0.8)
        return self


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
    """

    name: str
    times_s: tuple[float, ...]
    calls: int = 1
    first_call_s: float = math.nan
    settled: bool = True
    work: Work | None = None
    clock: str = "host"
    cold: bool = False
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

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
        return (self.p80_s - self.p20_s) / self.median_s

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
        if not self.settled:
            return f"{self.name}: not settled after {len(self.times_s)} samples; raise budget_s."
        return ""

    def _work(self, what: str) -> Work:
        if self.work is None:
            raise ValueError(f"{what} needs the work of a call: pass work=costs.… to measure().")
        return self.work

    def __truediv__(self, other: Measurement) -> Ratio:
        if len(self.times_s) == len(other.times_s):
            return Ratio([a / b for a, b in zip(self.times_s, other.times_s, strict=True)])
        return Ratio([self.p20_s / other.median_s, self.median_s / other.median_s, self.p80_s / other.median_s])

    def __repr__(self) -> str:
        band = f"{format_si(self.p20_s, 's')} to {format_si(self.p80_s, 's')}"
        text = f"{self.name}: {format_si(self.median_s, 's')} (p20 to p80: {band}; {self.clock} clock"
        text += f", {len(self.times_s)} samples of {self.calls}{', cold caches' if self.cold else ''})"
        if self.work is not None and self.work.flops:
            text += f", {format_si(self.flops_per_s, 'FLOP/s')}"
        if self.work is not None and self.work.bytes:
            text += f", {format_si(self.bytes_per_s, 'B/s')}"
        return text + (f"\n  {self.warning}" if self.warning else "")


@dataclass
class _Candidate:
    name: str
    run: Callable[[int], float]
    work: Work | None
    first_call_s: float
    calls: int
    times_s: list[float] = field(default_factory=list)

    def settled(self, within: float) -> bool:
        low, high = median_interval(self.times_s)
        return len(self.times_s) >= 6 and (high - low) <= within * quantile(self.times_s, 0.5)


def measure(fn: Callable[..., Any], work: Work | None = None, *, name: str = "", **options: Any) -> Measurement:
    """Measure one function; see ``measure_all`` for the options.

    Args:
        fn: what to time; takes no argument, or one entry of ``inputs``; returns its arrays, to be waited for.
        work: what one call must do, for rates.
        name: how tables call it.
    """
    label = name or (work.name if work is not None and work.name else getattr(fn, "__name__", "call"))
    return measure_all({label: fn}, work=work, **options)[label]


def measure_all(
    candidates: Mapping[str, Callable[..., Any]],
    work: Work | Mapping[str, Work] | None = None,
    *,
    clock: str | Clock = "host",
    inputs: Sequence[Any] | None = None,
    cold: bool = False,
    calls: int | None = None,
    settle: float = 0.02,
    budget_s: float = 0.5,
    min_samples: int = 9,
    max_samples: int = 2000,
) -> dict[str, Measurement]:
    """Measure several candidates interleaved: one sample of each per round, in alternating order.

    Args:
        candidates: name to function; all take no argument, or all take one entry of ``inputs``.
        work: what one call must do: one for all, or one per name.
        clock: "host", "events", "graph", or a ``Clock``.
        inputs: rotated through call by call, so that no cache can hold the last one.
        cold: overwrite the caches before every sample, which then is a single call.
        calls: calls per sample; default: as many as make a sample last a millisecond.
        settle: stop once each median's 95 % interval is narrower than this share of the median.
        budget_s: sampling time per candidate, after which an unsettled measurement stops and says so.
        min_samples: at least so many samples, settled or not.
        max_samples: at most so many.

    Returns:
        name to ``Measurement``, all with the same number of samples, paired by round.
    """
    if not candidates:
        raise ValueError("measure_all needs at least one candidate.")
    ticker = named_clock(clock)
    flush = cache_flusher() if cold else None
    works = work if isinstance(work, Mapping) else dict.fromkeys(candidates, work)
    if set(works) != set(candidates):
        raise ValueError(f"work is given for {sorted(works)}, candidates are {sorted(candidates)}.")
    prepared = [_prepare(name, fn, works[name], ticker, inputs, 1 if cold else calls)
                for name, fn in candidates.items()]  # fmt: skip
    now = getattr(ticker, "now", None) or named_clock("host").now  # type: ignore[attr-defined]
    stop = now() + budget_s * len(prepared)
    with _no_garbage_collection():
        while len(prepared[0].times_s) < max_samples:
            rounds = len(prepared[0].times_s)
            if rounds >= min_samples and (now() > stop or all(c.settled(settle) for c in prepared)):
                break
            for candidate in prepared if rounds % 2 == 0 else reversed(prepared):
                if flush is not None:
                    flush()
                candidate.times_s.append(candidate.run(candidate.calls) / candidate.calls)
    return {c.name: _finish(c, ticker, settle, cold) for c in prepared}


def _prepare(
    name: str, fn: Callable[..., Any], work: Work | None, clock: Clock, inputs: Sequence[Any] | None, calls: int | None
) -> _Candidate:
    """Make the first call apart, warm up until two timings in a row agree, and choose the calls per sample."""
    if inputs is not None and len(inputs) == 0:
        raise ValueError("inputs is empty: give at least one, or leave it out for a function without arguments.")
    unroll = getattr(clock, "unroll", None)
    if inputs is not None and unroll is not None and unroll % len(inputs):
        raise ValueError(f"A graph of {unroll} calls cannot rotate through {len(inputs)} inputs evenly; "
                         f"pass clock=GraphClock(unroll={len(inputs)}).")  # fmt: skip
    if inputs is None:
        call: Callable[[int], Any] = lambda _: fn()  # noqa: E731
    else:
        call = lambda i: fn(inputs[i % len(inputs)])  # noqa: E731
    now = getattr(clock, "now", None) or named_clock("host").now  # type: ignore[attr-defined]
    pause = getattr(clock, "wait", wait)
    pause(None)
    start = now()
    pause(call(0))
    first_call_s = now() - start
    run = clock.bind(call)
    _warm_up(run)
    if calls is None:
        calls = _calls_that_last(run, max(SAMPLE_S, 100 * clock.resolution_s))
    if inputs is not None:
        calls = -(-calls // len(inputs)) * len(inputs)  # every sample sees each input equally often
    return _Candidate(name, run, work, first_call_s, calls)


def _calls_that_last(run: Callable[[int], float], shortest_s: float) -> int:
    """How many calls make a sample of ``shortest_s``; found by doubling, since a single call is mostly waiting."""
    calls = 1
    while run(calls) < shortest_s and calls < 2**14:
        calls *= 2
    return calls


def _warm_up(run: Callable[[int], float], agree: float = 0.2, at_most: int = 10) -> None:
    """Call until two single calls in a row agree, or ``at_most`` times."""
    times = [run(1)]
    while len(times) < at_most:
        times.append(run(1))
        before, last = next(pairwise(times[-2:]))
        if abs(last - before) <= agree * min(last, before):
            break


def _finish(candidate: _Candidate, clock: Clock, settle: float, cold: bool) -> Measurement:
    from .device import find_device

    device = find_device()
    env = {"device": device.name, **device.versions}
    return Measurement(candidate.name, tuple(candidate.times_s), candidate.calls, candidate.first_call_s,
                       candidate.settled(settle), candidate.work, clock.name, cold, env)  # fmt: skip


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection in the middle of a sample would be charged to whoever happened to run."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
