"""Which block sizes does a kernel use on this chip?

They were found by measuring, and are kept: those of known chips in `choices.toml` beside this module, so that a first
call is fast; those of any other chip are found at its first call, which says so, and kept in Rooflab's folder.

>>> nearest((5000,), [(1024,), (4096,), (32768,)])
(4096,)
"""

from __future__ import annotations

import functools
import math
import statistics
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rooflab.clocks import Clock
from rooflab.state import read_json, update_json

__all__ = ["FILE", "Choice", "choose", "known_choices", "nearest", "seconds_of", "set_tuner"]

Choice = Mapping[str, Any]
Key = tuple[int, ...]

FILE = Path(__file__).with_name("choices.toml")
_KEPT = "kernel_choices.json"
_REPEATS, _TRIES, _MOST = 5, 12, 4096


def choose(kernel: str, key: Key, candidates: Sequence[Choice], run: Callable[[Choice], None], device: Any) -> Choice:
    """Return what to launch a kernel with.

    Args:
        kernel: its name.
        key: the sizes on which the choice depends.
        candidates: what can be chosen for these sizes, the most likely one first; a chip that is not known tries the
            first dozen.
        run: launches the kernel with one of them; called to measure on a chip that is not known.
        device: torch's, on which the tensors are.

    Returns:
        the choice of the nearest sizes that are known for the chip, if it is one of the candidates; else the first
        candidate on a CPU and while a graph is captured, or the fastest one, measured.
    """
    if _Tuner.now is not None:
        return _Tuner.now(kernel, key, candidates, run)
    if device.type == "cpu" or len(candidates) == 1:
        return candidates[0]
    chosen = _Tuner.chosen.get((kernel, key, device))
    if chosen is None or chosen not in candidates:
        found = _found(kernel, key, candidates, run, device)
        if found is None:
            return candidates[0]
        if len(_Tuner.chosen) >= _MOST:
            _Tuner.chosen.clear()
        chosen = _Tuner.chosen[kernel, key, device] = candidates[candidates.index(found)]
    return chosen


def _found(kernel: str, key: Key, candidates: Sequence[Choice], run: Callable[[Choice], None], device: Any) -> Any:
    """The choice that is kept, or else the fastest one; None while a graph is captured, where nothing can be timed."""
    import torch

    chip = torch.cuda.get_device_name(device)
    known = _usable(known_choices(chip, kernel), candidates)
    if known:
        return known[nearest(key, known)]
    found = _remembered(chip, kernel, key)
    if found in candidates:
        return found
    if torch.cuda.is_current_stream_capturing():
        return None
    tried = candidates[:_TRIES]
    print(f"Tuning {kernel} for {chip}: trying {len(tried)} block sizes once; the best is kept.", file=sys.stderr)
    best = min(tried, key=lambda each: _seconds(run, each))
    _remember(chip, kernel, key, best)
    return best


def set_tuner(tuner: Callable[[str, Key, Sequence[Choice], Callable[[Choice], None]], Choice] | None) -> None:
    """Let somebody else choose, who tries all candidates; None: choose as above."""
    _Tuner.now = tuner


class _Tuner:
    now: Callable[[str, Key, Sequence[Choice], Callable[[Choice], None]], Choice] | None = None
    chosen: ClassVar[dict[tuple[str, Key, Any], Choice]] = {}  # by kernel, sizes and device


def seconds_of(run: Callable[[Choice], None], choice: Choice, clock: Clock, calls: int = 1) -> float:
    """Return the median time of a call; infinite for a choice that the chip cannot run.

    Args:
        run: launches the kernel with a choice.
        choice: which.
        clock: by which it is timed.
        calls: in each of a few samples.
    """
    try:
        run(choice)  # compiles
        timed = clock.bind(lambda _: run(choice))
        timed(calls)
        return statistics.median(timed(calls) / calls for _ in range(_REPEATS))
    except Exception as error:  # Triton's kinds differ between versions
        if "out of resource" not in str(error).lower():
            raise
        return math.inf


def nearest(key: Key, known: Iterable[Key]) -> Key:
    """Return the known sizes whose ratios to these are smallest."""
    return min(known, key=lambda each: sum(abs(math.log(a / b)) for a, b in zip(key, each, strict=True)))


def known_choices(chip: str, kernel: str) -> dict[Key, Choice]:
    """Return what `choices.toml` says of a kernel on a chip, by sizes."""
    return {
        tuple(map(int, sizes.split("x"))): choice for sizes, choice in _table().get(chip, {}).get(kernel, {}).items()
    }


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def _usable(known: Mapping[Key, Choice], candidates: Sequence[Choice]) -> dict[Key, Choice]:
    return {key: choice for key, choice in known.items() if choice in candidates}


def _name(chip: str, kernel: str, key: Key) -> str:
    return "/".join((chip, kernel, "x".join(map(str, key))))


@functools.cache
def _remembered(chip: str, kernel: str, key: Key) -> Choice | None:
    return read_json(_KEPT, {}).get(_name(chip, kernel, key))


def _remember(chip: str, kernel: str, key: Key, choice: Choice) -> None:
    update_json(_KEPT, lambda kept: kept.update({_name(chip, kernel, key): dict(choice)}))
    _remembered.cache_clear()


def _seconds(run: Callable[[Choice], None], choice: Choice) -> float:
    from rooflab.clocks import EventClock

    return seconds_of(run, choice, EventClock(), _REPEATS)
