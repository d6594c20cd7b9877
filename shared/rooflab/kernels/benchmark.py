"""How near does a kernel come to its ceiling, and to its rivals, in one run?

A case is one kernel at one size. Its candidates (ours, the rivals, and a ceiling of the same size, such as a copy) are
timed in turn, by replaying graphs of many calls, since a launch costs as much as a short kernel. Inputs are rotated, so
that no cache holds the last ones. JAX's calls cannot be recorded into the same graph: they are made in a compiled loop,
round by round with the others, and two lengths of the loop are subtracted.

>>> share({"copy": 1.0, "rooflab": 1.25, "eager": 2.0}, "copy")
{'rooflab': 0.8, 'eager': 0.5}
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rooflab.clocks import Clock, EventClock, GraphClock, HostClock
from rooflab.measurement import measure_all
from rooflab.tolerances import tolerance

__all__ = ["OURS", "Case", "JaxLoop", "JaxTimer", "Timed", "graph_clock", "peak_bytes", "run_case", "share"]

OURS = "rooflab"
_GRAPH_S, _UNROLL = 0.01, 20  # a graph takes so long, but has no more calls than that
_CACHES = 240e6  # bytes of inputs in rotation: several times the cache of any chip
_FORMATS = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16"}


@dataclass(frozen=True)
class JaxLoop:
    """A function of JAX whose result can be its next input.

    Attributes:
        step: of the state and of the other arrays; returns the next state.
        state: the first one, made of the first set of inputs.
        arrays: the others.
        back: turns a result into the layout of the case's reference; None where it is in that layout.
    """

    step: Callable[..., Any]
    state: Any
    arrays: tuple[Any, ...] = ()
    back: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Case:
    """One kernel at one size.

    Attributes:
        kernel: its name, as in the catalogue.
        size: for tables, such as "16384 x 1024".
        inputs: makes a set of tensors from a seed.
        candidates: by name, each called with a set; "rooflab" is ours, unless ours is a loop of JAX's.
        ceiling: the name of the candidate that does nothing but move as many bytes, or is the library to beat.
        reference: what is right, of a set in fp32; None for codes, which tests compare one by one.
        length: of the reductions, for the tolerance.
        target: the share of the ceiling that ours should reach.
        leads: whether ours should be as fast as the best rival, too.
        most_bytes: that ours should take beside its inputs at any moment; None where nobody asks.
        jax: makes loops of JAX's candidates, by name; "rooflab" among them where a kernel for JAX is measured.
        waiting: candidates that wait for the device within a call, so that no graph can be made of them: they are timed
            by events.
    """

    kernel: str
    size: str
    inputs: Callable[[int], tuple[Any, ...]]
    candidates: Mapping[str, Callable[..., Any]]
    ceiling: str
    reference: Callable[..., Any] | None
    length: int = 1
    target: float = 0.95
    leads: bool = False
    most_bytes: float | None = None
    jax: Mapping[str, Callable[[], JaxLoop]] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timed:
    """What one case took.

    Attributes:
        seconds: per call, of each candidate: medians over the rounds.
        left_out: rivals that cannot run here, and why.
    """

    seconds: Mapping[str, float]
    left_out: Mapping[str, str]


def graph_clock(sets: int, seconds: float) -> Clock:
    """Return a clock whose graphs rotate through so many sets of inputs evenly, of calls that take so long."""
    calls = min(_UNROLL, math.ceil(_GRAPH_S / seconds))
    return GraphClock(sets * math.ceil(calls / sets))


def run_case(
    case: Case,
    *,
    rounds: int = 3,
    budget_s: float = 0.1,
    clock: Callable[[int, float], Clock] = graph_clock,
    waiting_clock: Callable[[], Clock] = EventClock,
    sets: int = 0,
) -> Timed:
    """Time all candidates of a case in turn.

    Args:
        case: what to time.
        rounds: how many times all of them are measured.
        budget_s: sampling time of each candidate in a round.
        clock: makes the clock for torch's candidates, from the number of sets and the seconds of a call, about.
        waiting_clock: makes the one for those that wait.
        sets: of inputs in rotation (default: as many as no cache holds).

    Raises:
        AssertionError: a result is wrong; the message names the candidate.
    """
    first = case.inputs(0)
    bytes_of_set = sum(each.numel() * each.element_size() for each in first)
    sets = sets or max(2, math.ceil(_CACHES / bytes_of_set))
    inputs = [first, *(case.inputs(seed) for seed in range(1, sets))]
    made = {name: make() for name, make in case.jax.items()}
    left_out = _verify(case, first, made)
    calls = {name: _spread(fn) for name, fn in case.candidates.items() if name not in left_out}
    rough = _rough_seconds(lambda: case.candidates[OURS if OURS in case.candidates else case.ceiling](*first))
    found: dict[str, list[float]] = {}
    loops = {name: JaxTimer(loop) for name, loop in made.items() if name not in left_out}
    apart = {name: calls.pop(name) for name in case.waiting if name in calls}
    options: dict[str, Any] = {"inputs": inputs, "budget_s": budget_s, "settle": 0.01, "min_samples": 5}
    for _ in range(rounds):
        measured = measure_all(calls, clock=clock(sets, rough), **options)
        if apart:
            measured |= measure_all(apart, clock=waiting_clock(), **options)
        for name, one in measured.items():
            found.setdefault(name, []).append(one.median_s)
        for name, loop in loops.items():
            found.setdefault(name, []).append(loop.seconds())
    return Timed({name: statistics.median(times) for name, times in found.items()}, left_out)


def _rough_seconds(call: Callable[[], Any]) -> float:
    """Of one call, by the host's clock: the shorter of two."""
    run = HostClock().bind(lambda _: call())
    return min(run(1), run(1))


def peak_bytes(case: Case, wanted: Iterable[str]) -> dict[str, int]:
    """Return the most memory that a call of each candidate takes beside its inputs, on a CUDA device."""
    import torch

    found, given = {}, case.inputs(0)
    for name in wanted:
        case.candidates[name](*given)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        case.candidates[name](*given)
        found[name] = torch.cuda.max_memory_allocated() - before
    return found


def share(seconds: Mapping[str, float], ceiling: str) -> dict[str, float]:
    """Return which share of the ceiling's speed each of the others reaches, the fastest first."""
    ratios = {name: seconds[ceiling] / taken for name, taken in seconds.items() if name != ceiling}
    return dict(sorted(ratios.items(), key=lambda pair: -pair[1]))


def _spread(fn: Callable[..., Any]) -> Callable[[tuple[Any, ...]], Any]:
    return lambda given: fn(*given)


def _verify(case: Case, given: tuple[Any, ...], loops: Mapping[str, JaxLoop]) -> dict[str, str]:
    """Compare every candidate but a mere copy with the reference; returns rivals that fail, and their errors."""
    left_out = {}
    right = None if case.reference is None else list(_tensors(case.reference(*[each.float() for each in given])))
    every = dict(case.candidates) | {name: functools.partial(_once, loop) for name, loop in loops.items()}
    for name, fn in every.items():
        try:
            found = list(_tensors(fn(*given)))
        except Exception as error:  # of a rival, whatever it is: a library that cannot do this here
            if name in (OURS, case.ceiling):
                raise
            left_out[name] = (str(error).strip().splitlines() or [type(error).__name__])[0]
            continue
        if right is None or name in ("copy", "add", "traffic", "product"):
            continue
        for one, want in zip(found, right, strict=False):
            size = float(want.abs().max())
            allowed = tolerance(_FORMATS[str(one.dtype)], case.length, scale=size)
            # A rival may round in between, which is no fault of its speed: twice the tolerance.
            off = float((one.float() - want.float()).abs().max())
            if not off <= 2 * (allowed.atol + allowed.rtol * size):
                raise AssertionError(f"{case.kernel} {case.size}: the result of {name} is off by {off:g} of {size:g}")
    return left_out


def _once(loop: JaxLoop, *_: Any) -> Any:
    """One turn of a loop, as tensors of torch."""
    import jax
    import torch

    found = jax.jit(loop.step)(loop.state, *loop.arrays)
    back = loop.back or (lambda value: value)
    return [torch.from_dlpack(back(each)) for each in jax.tree.leaves(found)]


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for each in value:
            yield from _tensors(each)
    elif value is not None:
        yield value


class JaxTimer:
    """A compiled loop of two lengths, whose difference is free of launches and of waiting.

    Args:
        loop: what is done in a turn.
    """

    _SHORT, _LONG = 10, 50

    def __init__(self, loop: JaxLoop) -> None:
        import jax

        self.loop = loop

        def turns(count: int) -> Callable[..., Any]:
            # Two steps a turn: the second may write where the first one read, and nothing has to be copied back.
            return jax.jit(lambda state, *arrays: jax.lax.fori_loop(
                0, count // 2, lambda _, value: loop.step(loop.step(value, *arrays), *arrays), state
            ))  # fmt: skip

        self.runs = [turns(count) for count in (self._SHORT, self._LONG)]
        self.seconds()  # compiles

    def seconds(self) -> float:
        """Of one turn."""
        import jax

        taken = []
        for run in self.runs:
            times = []
            for _ in range(5):
                begun = time.perf_counter()
                jax.block_until_ready(run(self.loop.state, *self.loop.arrays))
                times.append(time.perf_counter() - begun)
            taken.append(min(times))
        return max(taken[1] - taken[0], 1e-9) / (self._LONG - self._SHORT)
