"""How long does this take?

``measure`` waits for the device, warms up, and takes samples until the median is settled. ``measure_all`` does the
same for several candidates in turn, so that whatever drifts hits all of them alike.

>>> m = measure(lambda: sum(range(100)), budget_s=0.02)
>>> m.low_s <= m.median_s <= m.high_s
True
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from .clocks import Clock, cache_flusher, made_by_jax, named_clock, wait
from .costs import Work
from .load import Watch
from .measurable import refuse_candidates, refuse_numbers, refuse_options, refuse_promise
from .samples import Measurement, Ratio, median_interval, quantile
from .shortage import clear_shortage

__all__ = ["Measurement", "Ratio", "measure", "measure_all", "median_interval", "quantile"]

SAMPLE_S = 1e-3  # a sample lasts at least this long, so that reading the clock is no part of it
_turns = count(1)
AHEAD = 8  # samples that a device may have queued
MOST_CALLS = 2**14  # calls in a sample, however short they are
SURE = 6  # the fewest samples whose median has a 95 % interval
OFTEN = 50  # up to so many samples, look after each whether the median has settled; then after each tenth more


@dataclass
class _Candidate:
    name: str
    run: Callable[[int], float]
    work: Work | None
    first_call_s: float
    calls: int
    times_s: list[float] = field(default_factory=list)
    _queued: deque[Callable[[], float]] = field(default_factory=deque)

    def sample(self) -> None:
        """Take one sample; on a clock that can read later, queue it, so that the device never waits for the host."""
        begin = getattr(self.run, "begin", None)
        if begin is None:
            self.times_s.append(self.run(self.calls) / self.calls)
        else:
            self._queued.append(begin(self.calls))
            self.read(AHEAD)

    def read(self, ahead: int) -> None:
        """Read the queued samples but the newest ``ahead``."""
        while len(self._queued) > ahead:
            self.times_s.append(self._queued.popleft()() / self.calls)

    def settled(self, within: float) -> bool:
        if len(self.times_s) < SURE or within <= 0:
            return False
        low, high = median_interval(self.times_s)
        return (high - low) <= within * quantile(self.times_s, 0.5)


def measure(fn: Callable[..., Any], work: Work | None = None, *, name: str = "", **options: Any) -> Measurement:
    """Measure one function; see ``measure_all`` for the options and errors.

    Args:
        fn: what to time; takes no argument, or one entry of ``inputs``; returns its arrays, to be waited for.
        work: what one call must do, for rates.
        name: how tables call it.
    """
    label = name or getattr(work, "name", "") or getattr(fn, "__name__", "call")
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
        calls: calls per sample, rounded up so that every sample sees each input equally often; default: as many as
            make a sample last a millisecond.
        settle: stop once each median's 95 % interval is narrower than this share of the median; 0: never.
        budget_s: sampling time per candidate, after which an unsettled measurement stops and says so.
        min_samples: at least so many samples, settled or not.
        max_samples: at most so many.

    Returns:
        name to ``Measurement``, all with the same number of samples, paired by round.

    Raises:
        ValueError: nothing to measure, or options that do not go together; one sentence says which.
        TypeError: a candidate is no function, or only promises its work (a generator, a coroutine, a future).
        RuntimeError: the clock cannot time this here.
        OutOfMemory: a candidate does not fit.
    """
    ticker = named_clock(clock)
    works = refuse_candidates(candidates, work)
    refuse_options(ticker, inputs, cold=cold)
    refuse_numbers(calls=calls, min_samples=min_samples, max_samples=max_samples, settle=settle, budget_s=budget_s)
    flush = cache_flusher() if cold else None
    now = _host_now(ticker)
    prepared = []
    for name, fn in candidates.items():
        with clear_shortage(f"measuring {name!r}"):
            prepared.append(_prepare(name, fn, works[name], ticker, inputs, cold, calls, budget_s))
    _even_out(prepared)
    # What others compute goes by true time: a pretended clock has nothing to do with it.
    watch = Watch() if now is time.perf_counter else None
    stop = now() + budget_s * len(prepared)
    with _no_garbage_collection():
        for done in range(max_samples):
            if done >= min_samples and (now() > stop or _all_settled(prepared, settle, done)):
                break
            for candidate in prepared if done % 2 == 0 else reversed(prepared):
                with clear_shortage(f"measuring {candidate.name!r}"):
                    if flush is not None:
                        flush()
                    candidate.sample()
        for candidate in prepared:
            candidate.read(0)
    return _finish(prepared, ticker, settle, cold, watch)


def _host_now(clock: Clock) -> Callable[[], float]:
    """What the budget is read from: the clock's own host clock, if it has one."""
    return getattr(clock, "now", None) or named_clock("host").now  # type: ignore[attr-defined]


def _prepare(
    name: str, fn: Callable[..., Any], work: Work | None, clock: Clock, inputs: Sequence[Any] | None, cold: bool,
    calls: int | None, budget_s: float,
) -> _Candidate:  # fmt: skip
    """Make the first call apart, warm up until two timings in a row agree, and choose the calls per sample."""
    call = _rotating(fn, inputs, one_by_one=cold)
    now, pause = _host_now(clock), getattr(clock, "wait", wait)
    pause(None)
    start = now()
    result = call(0)
    refuse_promise(name, result)  # before the wait: JAX warns of generators
    pause(result)
    first_call_s = now() - start
    if clock.name in ("events", "graph") and made_by_jax(result):
        raise RuntimeError(f"{name!r} returns JAX arrays, and the {clock.name} clock times torch's stream only; "
                           "use clock='host'.")  # fmt: skip
    del result
    run = clock.bind(call)
    turn = 1 if inputs is None or cold else len(inputs)
    _warm_up(run, turn, budget_s)
    if cold:
        calls = 1
    elif calls is None:
        calls = _calls_that_last(run, turn, max(SAMPLE_S, 100 * clock.resolution_s))
    return _Candidate(name, run, work, first_call_s, -(-calls // turn) * turn)


def _rotating(fn: Callable[..., Any], inputs: Sequence[Any] | None, *, one_by_one: bool) -> Callable[[int], Any]:
    """A function of the number of the call, which takes the inputs in turn.

    Args:
        fn: takes no argument, or one of the inputs.
        inputs: one after the other.
        one_by_one: samples are single calls, all with the number 0: count here instead.
    """
    if inputs is None:
        return lambda _: fn()
    if one_by_one:
        counted = count()
        return lambda _: fn(inputs[next(counted) % len(inputs)])
    return lambda i: fn(inputs[i % len(inputs)])


def _warm_up(run: Callable[[int], float], turn: int, limit_s: float, agree: float = 0.2, at_most: int = 10) -> None:
    """Run turns through the inputs until two in a row take the same time, or the time is up."""
    last = spent = run(turn)
    for _ in range(at_most - 1):
        before, last = last, run(turn)
        spent += last
        if abs(last - before) <= agree * min(last, before) or spent > limit_s:
            break


def _calls_that_last(run: Callable[[int], float], turn: int, shortest_s: float) -> int:
    """How many calls make a sample of ``shortest_s``; found by doubling, since a single call is mostly waiting."""
    calls = turn
    while calls < MOST_CALLS and run(calls) < shortest_s:
        calls *= 2
    return calls


def _even_out(candidates: Sequence[_Candidate]) -> None:
    """Give candidates that are about equally fast equally many calls: what a sample adds then weighs on them alike."""
    most = max(candidate.calls for candidate in candidates)
    for candidate in candidates:
        if 2 * candidate.calls >= most:
            candidate.calls = most


def _all_settled(candidates: Sequence[_Candidate], within: float, done: int) -> bool:
    """Whether all medians have settled; looked at now and then only, because sorting many samples takes time too."""
    if done > OFTEN and done % (done // OFTEN * 5):
        return False
    return all(c.settled(within) for c in candidates)


def _finish(
    candidates: Sequence[_Candidate], clock: Clock, settle: float, cold: bool, watch: Watch | None
) -> dict[str, Measurement]:
    """What the samples of one run say, with the load of others that all of them saw."""
    from .device import find_device

    device = find_device()
    load = watch.load(accelerator=device.is_accelerator) if watch is not None else None
    env, turn, found = {"device": device.name, **device.versions}, next(_turns), {}
    for c in candidates:
        if min(c.times_s) <= 0:
            raise RuntimeError(f"{c.calls} calls of {c.name!r} took no time on the {clock.name} clock "
                               f"(resolution {clock.resolution_s:g} s); pass a larger calls=.")  # fmt: skip
        found[c.name] = Measurement(c.name, tuple(c.times_s), c.calls, c.first_call_s, settle <= 0 or c.settled(settle),
                                    c.work, clock.name, cold, turn, load, env)  # fmt: skip
    return found


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
