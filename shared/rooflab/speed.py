"""How near does a function come to the roof of its device, by a clock that it cannot reach?

A check on a machine with a GPU calls

    found = against_roof(softmax, [rows((8192, 4096), "bf16")], reference=lambda x: x.double().softmax(-1),
                         work=costs.softmax(8192, 4096, "bf16"), dtype="bf16")
    found.points({0.5: 1, 0.8: 2})

On a student's own machine both ends of the protocol of :mod:`rooflab.grading.timed` run here; when a class is graded,
the function runs in the student's process, the clock and everything that it is compared with in others. Without a GPU
there is nothing to time: count instead (:mod:`rooflab.traffic`); :func:`route` says which.

>>> Speed(0.82, 0.79, 0.85, 1e-3, 0.8e-3, 20).points({0.5: 1, 0.8: 2, 0.9: 3})
2
"""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .costs import Work
from .grading.timed import Recipe, Timed, probe_function
from .grading.trial import Trial

__all__ = ["Runner", "Speed", "TooFast", "Unsteady", "against_roof", "route", "set_runners"]

_WIDEST = 0.2  # of the roof: a band that says something
_ROUNDS = 3
_RESAMPLES = 999  # of the turns, for the band (percentile bootstrap)
_PILOTS, _PILOT = 5, 4  # readings before the first, of so many calls, from which the number of calls together follows
_NOISE = 0.05  # of one reading, beside the ceiling of all its calls
_MOST_TOGETHER, _LONGEST_S = 128, 0.5  # calls of one reading, and what they may take
_SLOWER = 2  # how many times as long a call may take when the number of calls together is found as when it is timed
# A result this much faster than the measured roof is no measurement.
_TOO_FAST = 1.15
# FLOP per byte from which on arithmetic may bind on some device, so that a product is timed beside the copy.
_INTENSE = 20.0


class TooFast(AssertionError):
    """A time that the device cannot reach: somebody has worked before the clock started, or the cost model is wrong."""


class Unsteady(RuntimeError):
    """The times, or those of the ceiling, are too wide apart to say anything; measure again on a quiet device."""


@dataclass(frozen=True)
class Speed:
    """The share of the roof that was reached, with its band.

    Attributes:
        ratio: bound / time, medians.
        low: the lower end of its 95 % interval, by resampling the turns.
        high: the upper end, which decides about points.
        seconds: of one call, without what the protocol takes.
        bound_s: what the roof allows, measured in the same run.
        calls: how many were timed, and verified.
    """

    ratio: float
    low: float
    high: float
    seconds: float
    bound_s: float
    calls: int

    def points(self, bands: Mapping[float, float]) -> float:
        """Return the points of the highest band that the upper end of the ratio's band reaches."""
        return max((points for least, points in bands.items() if self.high >= least), default=0)

    def __str__(self) -> str:
        return f"{self.ratio:.2f} of the roof ({self.low:.2f} to {self.high:.2f}, {self.calls} calls)"


class Runner(Protocol):
    """Whoever runs one function between start and stop: this process, or another one."""

    def go(self, seed: int, key: int, calls: int) -> int:
        """Run it several times; returns the digest of all results."""
        ...

    def fetch(self) -> Sequence[Any]:
        """Return the bytes of the last call's results, as arrays of 32-bit words."""
        ...

    def blocks(self, which: Sequence[Sequence[int]]) -> list[Sequence[Any]]:
        """Return for each call of the last `go` what came of all blocks of its results, and the blocks of a choice."""
        ...


Open = Callable[[Any, Sequence[Recipe], str, str], Runner]


class _Grader:
    open: Open | None = None


def set_runners(opened: Open | None) -> None:
    """Let the grader run functions in processes of its choice; None: all in this process."""
    _Grader.open = opened


def route() -> str:
    """Return how speed is graded here: by the "clock" where torch has a GPU, else by "count"."""
    from .device import find_device

    device = find_device()
    return "clock" if device.kind in ("cuda", "rocm") and device.torch else "count"


class _Here:
    """A runner in this process."""

    def __init__(self, function: Callable[..., Any], recipes: Sequence[Recipe], device: str, framework: str) -> None:
        self.function, self.timed = function, Timed(recipes, device, framework)

    def go(self, seed: int, key: int, calls: int) -> int:
        return self.timed.go(self.function, seed, key, calls)

    def fetch(self) -> Sequence[Any]:
        return self.timed.fetch()

    def blocks(self, which: Sequence[Sequence[int]]) -> list[Sequence[Any]]:
        return [self.timed.blocks(call, each) for call, each in enumerate(which)]


def _open_here(what: Any, recipes: Sequence[Recipe], device: str, framework: str) -> Runner:
    return _Here(probe_function(what, device) if isinstance(what, dict) else what, recipes, device, framework)


def against_roof(
    function: Callable[..., Any],
    inputs: Sequence[Recipe],
    *,
    reference: Callable[..., Any],
    work: Work,
    dtype: str = "fp32",
    length: int = 1,
    calls: int = 20,
    device: str | None = None,
    framework: str = "torch",
) -> Speed:
    """Time a function on fresh inputs and compare with what the device can do at most.

    Args:
        function: of arrays, in the order of the inputs; returns an array or several.
        inputs: how each input is drawn.
        reference: of torch's tensors, what is right, in a format at least as exact.
        work: the least that the function has to do.
        dtype: the format of the results, and of the arithmetic, for the tolerance.
        length: of its reductions, for the tolerance.
        calls: how many times the clock is read, after one or several calls; every call is verified.
        device: torch's name of it (default: the device that is there).
        framework: whose arrays the function takes and returns: "torch" or "jax".

    Raises:
        ValueError: the framework is another one, or the results are too large to be compared.
        AssertionError: a result is wrong.
        TooFast: the time cannot be true.
        Unsteady: the times are too wide apart to say anything, also after three times as many calls; or the GPU has no
            room left.
    """
    import torch

    from .device import find_device

    if framework not in ("torch", "jax"):
        raise ValueError(f"framework is {framework!r}; expected 'torch' or 'jax'.")
    place = device or find_device().torch or "cpu"
    try:
        return _measured(function, Trial(reference, list(inputs), place, dtype, length), work, calls, framework)
    except torch.OutOfMemoryError as error:  # a function's own comes as another kind of error where a class is graded
        said = str(error).partition(". ")[0]
        raise Unsteady(
            f"The GPU has no room for this check, beside what your function and others on it keep ({said})."
        ) from None


def _measured(function: Callable[..., Any], trial: Trial, work: Work, calls: int, framework: str) -> Speed:
    opened = _Grader.open or _open_here
    runners = {"own": opened(function, trial.inputs, trial.device, framework)}
    for name, what in trial.probes(work, _INTENSE).items():
        runners[name] = opened(what, trial.inputs, trial.device, "torch")
    for name, runner in runners.items():
        seed, key = _fresh()
        digest = runner.go(seed, key, 1)  # compiles and loads
        if name == "own":
            trial.verify(runner.fetch(), seed, key, digest)  # what is wrong is not timed
    together, promised = _together(runners, trial)
    times: dict[str, list[float]] = {name: [] for name in runners}
    for rounds in range(1, _ROUNDS + 1):
        for _ in range(calls):
            for name in trial.lot.sample(
                list(runners), len(runners)
            ):  # what is left running cannot choose whom it slows
                taken, seed, key, digest = _timed(runners[name], together)
                times[name].append(taken)
                if name == "own":
                    last = seed, key, digest, together
            trial.verify_blocks(runners["own"].blocks, *last)
        _same_pace(statistics.median(times["own"]) / together, promised)
        try:
            return _speed(times, together)
        except Unsteady:  # more calls tell more; those that were disturbed stay among them
            if rounds == _ROUNDS:
                raise
    raise AssertionError


def _timed(runner: Runner, together: int) -> tuple[float, int, int, int]:
    runner.go(*_fresh(), 1)  # a device that has idled, or has served another process, wakes up
    seed, key = _fresh()
    begun = time.perf_counter()
    digest = runner.go(seed, key, together)
    return time.perf_counter() - begun, seed, key, digest


def _together(runners: Mapping[str, Runner], trial: Trial) -> tuple[int, float]:
    """How many calls one reading of the clock takes in: so many that its noise is small beside the ceiling.

    Returns:
        the number, and what a call of the function took if it is that which keeps the number small, otherwise 0.
    """
    pilot = {
        name: [_timed(runner, _PILOT)[0] for _ in range(_PILOTS)] for name, runner in runners.items() if name != "own"
    }
    null = pilot.pop("null")
    ceiling = max((statistics.median(each) - statistics.median(null)) / _PILOT for each in pilot.values())
    noise = max(null) - min(null)
    wanted = noise / (_NOISE * ceiling) if ceiling > 0 else _MOST_TOGETHER
    own_s = min(_timed(runners["own"], 1)[0] for _ in range(2))
    together = max(1, min(math.ceil(wanted), _MOST_TOGETHER, trial.most_together()))
    fit = max(1, int(_LONGEST_S / own_s))
    return (fit, own_s) if fit < together else (together, 0.0)


def _same_pace(call_s: float, promised_s: float) -> None:
    """Refuse times of few calls because of a function that was slow only while their number was found: they are noise.

    Args:
        call_s: what a call takes, with all that is around it.
        promised_s: what one took before.
    """
    if call_s < promised_s / _SLOWER:
        raise Unsteady(
            f"A call took {promised_s * 1e3:.1f} ms when it was tried and {call_s * 1e3:.1f} ms when it was timed. "
            "Do the same work in every call."
        )


def _fresh() -> tuple[int, int]:
    return secrets.randbits(62), secrets.randbits(31)


def _speed(times: Mapping[str, Sequence[float]], together: int = 1) -> Speed:
    """Subtract what the protocol takes, and compare with the slower of the ceilings.

    Args:
        times: of each runner, in seconds.
        together: the calls that each of them took.
    """
    taken = {name: np.asarray(each) / together for name, each in times.items()}
    own, bound = (float(one[0]) for one in _medians(taken, np.arange(len(taken["own"]))[None]))
    turns = np.random.default_rng(0).integers(0, len(taken["own"]), (_RESAMPLES, len(taken["own"])))
    owns, bounds = _medians(taken, turns)
    low, high = np.percentile(bounds / np.maximum(owns, 1e-12), [2.5, 97.5])
    if min(own, bound) <= 0 or high - low > _WIDEST:
        slow, fast = np.percentile(owns, [97.5, 2.5]) * 1e6
        lower, upper = np.percentile(bounds, [2.5, 97.5]) * 1e6
        raise Unsteady(
            f"The times vary too much: a call takes between {fast:.0f} and {slow:.0f} µs, the roof's time is between "
            f"{lower:.0f} and {upper:.0f} µs. Measure again on a device that nobody else uses, or on larger inputs."
        )
    if bound / own > _TOO_FAST:
        told = f"a call took {own * 1e6:.0f} µs, and this device needs {bound * 1e6:.0f} µs for it at the least"
        raise TooFast(f"The time cannot be true: {told}.")
    return Speed(bound / own, float(low), float(high), own, bound, len(taken["own"]) * together)


def _medians(taken: Mapping[str, np.ndarray[Any, Any]], turns: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Medians over some turns of the function's time and of the slower ceiling's, without what the protocol takes.

    Args:
        taken: the times of each runner, in seconds, of shape (turns,).
        turns: which of them, of shape (resamples, turns): what all runners had to bear in a turn stays together.
    """
    median = {name: np.median(each[turns], axis=1) for name, each in taken.items()}
    null = median.pop("null")
    own = median.pop("own") - null
    return own, np.max(list(median.values()), axis=0) - null
