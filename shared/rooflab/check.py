"""Is this answer right, and if not, which misunderstanding does it show?

>>> session("s1_measurement/lab1_timer")
>>> with exercise("middle"):
...     equal(sorted([3, 1, 2])[1], 2, what="the middle of three")
✓ middle: the middle of three
>>> close(0.1 + 0.2, 0.4, hint="add, do not guess")
Traceback (most recent call last):
    ...
AssertionError: wrong answer
  expected: 0.4
  found:    0.3
  off by 0.1, where 4e-13 is allowed
  hint:     add, do not guess

A check prints one line or raises; in a notebook these lines are all that a failing cell shows. It is strict: NaN never
passes, a bool is no number, a list is no array, and an answer is first rebuilt from plain data (:func:`plain`), so that
no object can decide itself whether it is equal. Numbers are compared within a tolerance that follows from the format
and the length of the reduction (:func:`tolerance`).
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from typing import NoReturn

import numpy as np

from .answers import Allowed, difference, exact, plain
from .tolerances import Tolerance, tolerance
from .units import unit_of
from .wording import both, kind

__all__ = [
    "Tolerance", "close", "draw", "equal", "exercise", "passed", "plain", "raises", "session", "sow", "that",
    "tolerance",
]  # fmt: skip


class _Session:
    lab: str | None = None
    exercise: str | None = None
    checks: int = 0
    seed: int | None = None
    draws: int = 0


def session(lab: str) -> None:
    """Say which lab this notebook is, as "series/lab"; passed exercises are noted under this name.

    While nbgrader grades or validates, stderr goes to stdout from here on, also what C code writes and what Python
    says when it collects garbage: nbgrader gives no points to a cell with anything on stderr.
    """
    if not isinstance(lab, str) or lab.count("/") != 1:
        raise ValueError(f"expected a lab as 'series/lab', such as 's1_measurement/lab1_timer'; found {lab!r}")
    _Session.lab = lab
    if os.environ.get("NBGRADER_EXECUTION"):
        _join_stderr()


def _join_stderr() -> None:
    # A kernel's stream is asked for its name whenever it sends. Renamed, it also serves those who hold it already
    # (log handlers, progress bars) and file descriptor 2, which the kernel reads into it.
    if getattr(sys.stderr, "name", None) in ("stderr", "stdout"):
        sys.stderr.name = "stdout"  # type: ignore[misc]
    else:
        sys.stderr = sys.stdout


@contextmanager
def exercise(name: str) -> Iterator[None]:
    """Run the checks of one exercise; when all of them pass, the exercise is noted as done.

    Whatever is written to stderr inside (a warning, a progress bar) goes to stdout: nbgrader gives no points
    to a cell with anything on stderr.

    Raises:
        RuntimeError: the block ended without a single check, so that any answer would have passed.
    """
    outer = _Session.exercise, _Session.checks
    _Session.exercise, _Session.checks = name, 0
    try:
        with redirect_stderr(sys.stdout):
            yield
        if _Session.checks == 0:
            raise RuntimeError(f"exercise {name!r} ended without a check; call check.equal, close, that or raises")
    finally:
        _Session.exercise, _Session.checks = outer
    passed(name)


def passed(name: str) -> None:
    """Note that the exercise ``name`` of this lab is done; silent where nothing can be noted, and while grading."""
    if _Session.lab is None or os.environ.get("NBGRADER_EXECUTION"):
        return
    from . import records

    with suppress(OSError):  # a full disk, no home: no reason to fail an exercise that is right
        records.note_progress(_Session.lab, name)


def draw() -> random.Random:
    """Return a source of random numbers for a hidden check: fresh ones, or those that the grader's secret seed gives.

    With a seed, a submission is graded again with the same draws; another submission gets others.

    >>> sow(7)
    >>> first, second = draw().random(), draw().random()
    >>> sow(7)
    >>> (first == draw().random(), second == first)
    (True, False)
    >>> sow(None)
    """
    _Session.draws += 1
    return random.Random(None if _Session.seed is None else f"{_Session.seed}/{_Session.draws}")


def sow(seed: int | None) -> None:
    """Set the seed of :func:`draw`; the grader does so before each check. None: fresh numbers at each draw."""
    _Session.seed, _Session.draws = seed, 0


def equal(found: object, expected: object, *, what: str = "", hint: str = "", unit: str | None = None) -> None:
    """Check that ``found`` is ``expected`` exactly: same kind, same shape, same values.

    Args:
        found: a number, a string, an array, or lists and dicts of them.
        expected: the same, same shape.
        what: what was checked, for the printed line.
        hint: the misconception that a wrong answer shows.
        unit: of the numbers, as in "s" or "B/s": a wrong answer is then shown as "106 µs"; the values are in SI units.

    >>> equal((1, 2.0), [1, 2])
    ✓ right
    >>> equal(True, 1)
    Traceback (most recent call last):
        ...
    AssertionError: wrong answer
      expected: 1 (a number)
      found:    True (a bool)
    """
    __tracebackhide__ = True
    _compare(found, expected, exact, what=what, hint=hint, unit=unit)


def close(
    found: object,
    expected: object,
    *,
    dtype: str = "fp64",
    length: int = 1,
    scale: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    what: str = "",
    hint: str = "",
    unit: str | None = None,
) -> None:
    """Check that ``found`` is ``expected`` up to rounding; ``expected`` is best computed in float64.

    Args:
        found: a number, an array, or lists and dicts of them.
        expected: the same, same shape.
        dtype: the format the answer is computed in ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8").
        length: the number of terms that are added up for one element.
        scale: where these terms may cancel, their size, or that of the largest sum on the way where it is more;
            default: the largest element expected.
        rtol: overrides the relative tolerance.
        atol: overrides the absolute tolerance.
        what: what was checked, for the printed line.
        hint: the misconception that a wrong answer shows.
        unit: of the numbers, as in "s" or "B/s": a wrong answer is then shown as "106 µs"; the values are in SI units.

    >>> close(np.float32(1) / 3, 1 / 3, dtype="fp32")
    ✓ right
    """
    __tracebackhide__ = True
    for name, given in (("rtol", rtol), ("atol", atol)):
        if given is not None and not given >= 0:
            raise ValueError(f"expected {name} of zero or more; found {given!r}")
    tolerance(dtype, length, scale=scale or 0.0)  # refused before any answer is looked at

    def allowed(largest: float) -> Tolerance:
        size = scale if scale is not None else (largest if length > 1 else 0.0)
        derived = tolerance(dtype, length, scale=size)
        return Tolerance(derived.rtol if rtol is None else rtol, derived.atol if atol is None else atol)

    _compare(found, expected, allowed, what=what, hint=hint, unit=unit)


def that(condition: object, what: str = "", *, hint: str = "") -> None:
    """Check that ``condition`` is True: a bool, not just something that counts as true.

    >>> that(2 > 1, "two is more than one")
    ✓ two is more than one
    """
    __tracebackhide__ = True
    if type(condition) is not bool and type(condition) is not np.bool_:
        _fail(what, hint, expected="True (a bool)", found=f"{type(condition).__name__}")
    if not condition:
        _fail(what, hint, expected="True", found="False")
    _pass(what)


def raises(exception: type[BaseException], call: Callable[[], object], *, what: str = "", hint: str = "") -> None:
    """Check that ``call()`` raises ``exception``; an answer not yet written (NotImplementedError) never passes.

    >>> raises(ValueError, lambda: int("x"), what="no number")
    ✓ no number
    """
    __tracebackhide__ = True
    if not (isinstance(exception, type) and issubclass(exception, BaseException)):
        raise TypeError(f"expected the exception to raise, such as ValueError; found {exception!r}")
    if not callable(call):
        raise TypeError("expected a function to call, as in check.raises(ValueError, lambda: f(x)); "
                        f"found {type(call).__name__}")  # fmt: skip
    try:
        result = call()
    except NotImplementedError:
        raise
    except exception:
        _pass(what)
        return
    except Exception as error:
        _fail(what, hint, expected=exception.__name__, found=f"{type(error).__name__}: {str(error)[:200]}")
    _fail(what, hint, expected=exception.__name__, found=f"no error, but a {type(result).__name__}")


def _compare(found: object, expected: object, allowed: Allowed, *, what: str, hint: str, unit: str | None) -> None:
    __tracebackhide__ = True
    if unit is not None:
        unit_of(unit)  # refused before any answer is looked at
    right = plain(expected, what="the expected value")
    try:
        answer = plain(found)
    except TypeError as error:
        _fail(what, hint, expected=both(right, None, unit=unit)[0], found=str(error))
    place = difference(answer, right, allowed, unit=unit)
    if place is not None:
        kinds = kind(right), kind(answer)
        told = [f" ({name})" if kinds[0] != kinds[1] else "" for name in kinds]
        texts = both(right, answer, unit=unit)
        _fail(what, hint, expected=texts[0] + told[0], found=texts[1] + told[1], place=place)
    _pass(what)


def _caption(what: str) -> str:
    return ": ".join(filter(None, (_Session.exercise, what)))


def _pass(what: str) -> None:
    _Session.checks += 1
    print(f"✓ {_caption(what) or 'right'}")


def _fail(what: str, hint: str, *, expected: str, found: str, place: str = "") -> NoReturn:
    __tracebackhide__ = True
    lines = [_caption(what) or "wrong answer", f"  expected: {expected}", f"  found:    {found}"]
    lines += [f"  {place}"] * bool(place) + [f"  hint:     {hint}"] * bool(hint)
    error = AssertionError("\n".join(lines))
    # IPython, from 7 to 9, asks an exception how to show itself: a student needs these lines and no library's frames.
    error._render_traceback_ = lambda: [f"AssertionError: {lines[0]}", *lines[1:]]  # type: ignore[attr-defined]
    raise error from None
