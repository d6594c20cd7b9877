"""How near does a function come to the roof of its device, by a clock that it cannot reach?

A check on a machine with a GPU calls

    found = against_roof(softmax, [normal((8192, 4096), "bf16")], reference=lambda x: x.double().softmax(-1),
                         work=costs.softmax(8192, 4096, "bf16"), dtype="bf16")
    found.points({0.5: 1, 0.8: 2})

On a student's own machine both ends of the protocol of :mod:`rooflab.grading.timed` run here; when a class is graded,
the function runs in the student's process, the clock and everything that it is compared with in others. Without a GPU
there is nothing to time: count instead (:mod:`rooflab.traffic`); :func:`route` says which.

>>> Speed(0.82, 0.79, 0.85, 1e-3, 0.8e-3, 20).points({0.5: 1, 0.8: 2, 0.9: 3})
2
"""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .answers import tolerance
from .costs import Work
from .grading.digest import digest_of
from .grading.timed import Recipe, Timed, ballast, probe_function, results_of
from .samples import median_interval

__all__ = ["Runner", "Speed", "TooFast", "Unsteady", "against_roof", "route", "set_runners"]

_WIDEST = 0.5  # of the median: an interval that says something
_WIDEST_BOUND = 0.2
_ROUNDS = 3
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
        low: the 95 % interval of the median, lower end.
        high: its upper end, which decides about points.
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

    def go(self, seed: int, key: int) -> int:
        """Run it once; returns the digest of its results."""
        ...

    def fetch(self) -> Sequence[Any]:
        """Return the results' bytes, as arrays of 32-bit words."""
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

    def go(self, seed: int, key: int) -> int:
        return self.timed.go(self.function, seed, key)

    def fetch(self) -> Sequence[Any]:
        return self.timed.fetch()


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
        calls: how many are timed; every one of them is verified.
        device: torch's name of it (default: the device that is there).
        framework: whose arrays the function takes and returns: "torch" or "jax".

    Raises:
        ValueError: the framework is another one.
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
        return _measured(function, _Trial(reference, list(inputs), place, dtype, length), work, calls, framework)
    except torch.OutOfMemoryError as error:  # a function's own comes as another kind of error where a class is graded
        said = str(error).partition(". ")[0]
        raise Unsteady(
            f"The GPU has no room for this check, beside what your function and others on it keep ({said})."
        ) from None


def _measured(function: Callable[..., Any], trial: _Trial, work: Work, calls: int, framework: str) -> Speed:
    place = trial.device
    opened = _Grader.open or _open_here
    runners = {"own": opened(function, trial.inputs, place, framework)}
    for name, what in trial.probes(work).items():
        runners[name] = opened(what, trial.inputs, place, "torch")
    for name, runner in runners.items():
        seed, key = _fresh()
        digest = runner.go(seed, key)  # compiles and loads
        if name == "own":
            trial.verify(runner.fetch(), seed, key, digest)  # what is wrong is not timed
    times: dict[str, list[float]] = {name: [] for name in runners}
    for rounds in range(1, _ROUNDS + 1):
        for turn in range(calls):
            for name in list(runners) if turn % 2 else list(runners)[::-1]:
                runners[name].go(*_fresh())  # a device that has idled, or has served another process, wakes up
                seed, key = _fresh()
                begun = time.perf_counter()
                digest = runners[name].go(seed, key)
                times[name].append(time.perf_counter() - begun)
                if name == "own":
                    last = seed, key, digest
            trial.verify(runners["own"].fetch(), *last)
        try:
            return _speed(times)
        except Unsteady:  # more calls tell more; those that were disturbed stay among them
            if rounds == _ROUNDS:
                raise
    raise AssertionError


def _fresh() -> tuple[int, int]:
    return secrets.randbits(62), secrets.randbits(31)


def _speed(times: Mapping[str, Sequence[float]]) -> Speed:
    """Subtract what the protocol takes, and compare with the slower of the ceilings."""
    net = {
        name: [taken - null for taken, null in zip(each, times["null"], strict=True)]
        for name, each in times.items()
        if name != "null"
    }
    own, ceiling = net.pop("own"), max(net.values(), key=statistics.median)
    bound, median = statistics.median(ceiling), statistics.median(own)
    _narrow(ceiling, _WIDEST_BOUND, "ceiling")
    fast, slow = _narrow(own, _WIDEST, "function")
    if bound / median > _TOO_FAST:
        told = f"a call took {median * 1e6:.0f} µs, and this device needs {bound * 1e6:.0f} µs for it at the least"
        raise TooFast(f"The time cannot be true: {told}.")
    return Speed(bound / median, bound / slow, bound / fast, median, bound, len(own))


def _narrow(times: Sequence[float], widest: float, whose: str) -> tuple[float, float]:
    """The interval of the median, if it says something."""
    fast, slow = median_interval(times)
    if fast <= 0 or slow - fast > widest * statistics.median(times):
        raise Unsteady(
            f"The times of the {whose} vary too much, from {fast * 1e6:.0f} to {slow * 1e6:.0f} µs for the median of "
            f"{len(times)} calls: measure again on a device that nobody else uses."
        )
    return fast, slow


class _Trial:
    """What is drawn, expected and allowed."""

    def __init__(
        self, reference: Callable[..., Any], inputs: list[Recipe], device: str, dtype: str, length: int
    ) -> None:
        import torch

        self.reference, self.inputs, self.device, self.dtype, self.length = reference, inputs, device, dtype, length
        self.generator, self.ballast = torch.Generator(device=device), ballast(device)
        self.shapes = [tuple(one.shape) for one in self.expected(0)]

    def expected(self, seed: int) -> list[Any]:
        self.generator.manual_seed(seed)
        results = self.reference(*[recipe.draw(self.generator, self.device) for recipe in self.inputs])
        return list(results) if isinstance(results, tuple | list) else [results]

    def probes(self, work: Work) -> dict[str, dict[str, Any]]:
        """The same calls with nothing, with a copy, and with a product where arithmetic may bind, in the middle."""
        common: dict[str, Any] = {"shapes": [list(shape) for shape in self.shapes], "dtype": self.dtype}
        probes = {"null": {**common, "kind": "null"}, "copy": {**common, "kind": "copy", "bytes": int(work.bytes)}}
        if work.intensity > _INTENSE:
            probes["product"] = {**common, "kind": "product", "flops": work.flops}
        return probes

    def verify(self, raw: Sequence[Any], seed: int, key: int, digest: int) -> None:
        """Compare results, and their digest, with what the seed of the call gives."""
        import torch

        given = [results_of(words, shape, self.dtype) for words, shape in zip(raw, self.shapes, strict=False)]
        if len(raw) != len(self.shapes) or any(one is None for one in given):
            raise AssertionError(f"expected results of the shapes {self.shapes} in {self.dtype}")
        found = [one.to(self.device) for one in given]
        if digest_of([self.ballast, *found], key) != digest:
            raise AssertionError("the results are not those that were there when the clock stopped")
        for one, right in zip(found, self.expected(seed), strict=True):
            finite = right[right.isfinite()]
            size = float(finite.abs().max()) if finite.numel() else 0.0
            allowed = tolerance(self.dtype, self.length, scale=size if self.length > 1 else 0.0)
            mine = one.to(right.device).to(torch.float64)
            want = right.to(torch.float64)
            near = (mine - want).abs() - allowed.atol - allowed.rtol * want.abs() <= 0
            near |= (mine == want) | (mine.isnan() & want.isnan())  # infinities, as of masks, have no distance
            if wrong := int((~near).sum()):
                raise AssertionError(f"{wrong:,} of {right.numel():,} results of a timed call are wrong")
