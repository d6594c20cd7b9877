"""Can this be measured at all?

What cannot is refused before the clock starts, in one sentence: a call that was made already, a function that only
promises its work, a number of calls that is none.

>>> refuse_promise("steps", (n for n in range(3)))  # doctest: +ELLIPSIS
Traceback (most recent call last):
TypeError: 'steps' returns a generator, which has not done its work yet: measure a function that does it, ...
"""

from __future__ import annotations

import inspect
import io
import math
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from .costs import Work

__all__ = ["refuse_candidates", "refuse_numbers", "refuse_options", "refuse_promise"]

_GENERATOR = "as in list(...)"
_COROUTINE = "as in asyncio.run(...)"
_FUTURE = "as in .result() or .wait()"
_FUNCTIONS = (
    (inspect.isgeneratorfunction, "a generator function", _GENERATOR),
    (inspect.isasyncgenfunction, "an asynchronous generator function", _COROUTINE),
    (inspect.iscoroutinefunction, "a coroutine function (async def)", _COROUTINE),
)
MOST_ASKED = 2**20
_MOST_ENTRIES = 4096
_NESTS = (list, tuple, set, frozenset, deque)
# What a promise of later work can be asked: futures of Python and torch, results of a pool, works of torch.distributed.
_PROMISES = (("done", "result"), ("done", "wait"), ("ready", "get", "wait"), ("is_completed", "wait"))


def refuse_candidates(candidates: Any, work: Any) -> Mapping[str, Work | None]:
    """Refuse what is no function, or one that would do nothing; returns the work of each candidate."""
    if not isinstance(candidates, Mapping):
        raise TypeError(f"measure_all expects names and functions, as in {{'eager': f}}; found {_kind(candidates)}.")
    if not candidates:
        raise ValueError("measure_all needs at least one candidate; found none.")
    for name, fn in candidates.items():
        if not callable(fn):
            raise TypeError(f"expected a function to measure, as in measure(lambda: f(x)); found {_kind(fn)} for "
                            f"{name!r}: was the call made already?")  # fmt: skip
        for function in (fn, type(fn).__call__):  # of an object that can be called, its method
            for is_one, what, how in _FUNCTIONS:
                if is_one(function):
                    raise TypeError(f"{name!r} is {what}: a call of it does no work yet; measure a function that does "
                                    f"it, {how}.")  # fmt: skip
    works = work if isinstance(work, Mapping) else dict.fromkeys(candidates, work)
    if set(works) != set(candidates):
        raise ValueError(f"work is given for {[*works]!r:.80}, candidates are {[*candidates]!r:.80}.")
    for name, each in works.items():
        if each is not None and not isinstance(each, Work):
            raise TypeError(f"expected the work of {name!r} as costs.Work, such as costs.matmul(n, n, n, 'fp32'); "
                            f"found {_kind(each)}.")  # fmt: skip
    return works


def refuse_options(clock: Any, inputs: Any, *, cold: bool) -> None:
    """Refuse inputs that cannot be rotated through, and options that do not go together."""
    if inputs is not None:
        if not (hasattr(inputs, "__len__") and hasattr(inputs, "__getitem__")) or isinstance(inputs, Mapping):
            raise TypeError(f"expected inputs as a list, one entry a call; found {_kind(inputs)}.")
        if len(inputs) == 0:
            raise ValueError("inputs is empty: give at least one, or leave it out for a function without arguments.")
    unroll = getattr(clock, "unroll", 1)
    if cold and unroll > 1:
        raise ValueError(f"cold=True needs single calls, and a graph replays {unroll} of them: pass clock='events'.")
    if inputs is not None and unroll % len(inputs) and unroll > 1:
        raise ValueError(f"A graph of {unroll} calls cannot rotate through {len(inputs)} inputs evenly; "
                         f"pass clock=GraphClock(unroll={len(inputs)}).")  # fmt: skip


def refuse_numbers(*, calls: Any, min_samples: Any, max_samples: Any, settle: Any, budget_s: Any) -> None:
    """Refuse counts that are no whole numbers, and shares and seconds that are no numbers."""
    counts = {"calls": 1 if calls is None else calls, "min_samples": min_samples, "max_samples": max_samples}
    for name, value in counts.items():
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{name} is {value!r}; expected a whole number of 1 or more.")
        if value < 1 and name == "calls":
            raise ValueError(f"{name} is {value!r}; expected 1 or more.")
        if value > MOST_ASKED and name == "calls":
            raise ValueError(f"expected at most {MOST_ASKED:,} calls in one sample, within which no budget can stop; "
                             "found more.")  # fmt: skip
    if not 1 <= min_samples <= max_samples:
        raise ValueError(f"expected 1 <= min_samples <= max_samples; found {min_samples} and {max_samples}.")
    for name, value, unit in (("settle", settle, "a share of the median"), ("budget_s", budget_s, "seconds")):
        if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, complex):
            raise TypeError(f"{name} is {value!r}; expected {unit}, zero or more.")
        if isinstance(value, int) and value.bit_length() > 1000:
            raise ValueError(f"{name} is beyond all floats; expected {unit}, zero or more.")
        if math.isnan(value) or value < 0:
            raise ValueError(f"{name} is {value!r}; expected {unit}, zero or more.")


def refuse_promise(name: str, result: Any) -> None:
    """Refuse the result of a first call that only promises work: timed would be the promising.

    Looked for in lists, tuples, dicts and sets too, among the first thousands of their entries.

    Raises:
        TypeError: it is, or holds, a generator or another iterator, a coroutine, a future or the like.
    """
    waiting, entries = [result], 0
    while waiting and entries < _MOST_ENTRIES:
        one = waiting.pop()
        entries += 1
        if isinstance(one, _NESTS):
            waiting.extend(islice(one, _MOST_ENTRIES - entries))
        elif isinstance(one, Mapping):
            waiting.extend(islice(one.values(), _MOST_ENTRIES - entries))
        else:
            _refuse_promise(name, one)


def _refuse_promise(name: str, result: Any) -> None:
    # An open file is an iterator too, but what was written to it has been written.
    if isinstance(result, Iterator) and not isinstance(result, io.IOBase):
        what, how = _article(type(result).__name__), _GENERATOR
    elif inspect.isasyncgen(result):
        what, how = "an asynchronous generator", _COROUTINE
    elif inspect.iscoroutine(result):
        result.close()  # else Python warns that nobody awaited it
        what, how = "a coroutine", _COROUTINE
    elif _promises(result):
        what, how = _article(type(result).__name__), _FUTURE
    else:
        return
    raise TypeError(
        f"{name!r} returns {what}, which has not done its work yet: measure a function that does it, {how}."
    )


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def _promises(result: Any) -> bool:
    kind = type(result)
    if kind.__module__.split(".")[0] in ("numpy", "jaxlib", "jax", "builtins"):
        return False
    return any(all(callable(getattr(kind, name, None)) for name in names) for names in _PROMISES)


def _kind(value: Any) -> str:
    return (
        f"{value!r}" if isinstance(value, int | float | str) and len(repr(value)) < 40 else f"a {type(value).__name__}"
    )
