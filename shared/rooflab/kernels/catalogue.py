"""Which kernels are there, and how is each compiled for a chip?

>>> FAMILIES[0]
'rows'
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from .compiled import Build
from .jax_cases import cases as jax_cases

if TYPE_CHECKING:
    from .benchmark import Case

__all__ = ["FAMILIES", "every_build", "every_case", "find_build", "unknown"]

FAMILIES = ("rows", "pointwise", "quantize", "attend", "products", "loss")


def every_build() -> dict[str, Build]:
    """Return a typical build of every kernel, by its name; Triton must compile in this process."""
    made: dict[str, Build] = {}
    for family in FAMILIES:
        made |= importlib.import_module(f"{__package__}.{family}.builds").builds()
    return made


def every_case(wanted: Sequence[str] = (), device: str = "cuda") -> Iterator[Case]:
    """Yield the cases of the benchmark, of some kernels or of all; its large tensors are made when a case runs.

    Raises:
        ValueError: there is no such kernel; the message names the nearest, or those that there are.
    """
    cases: list[Case] = []
    for family in FAMILIES:
        cases += importlib.import_module(f"{__package__}.{family}.cases").cases(device=device)
    cases += jax_cases(device=device)
    known = list(dict.fromkeys(case.kernel for case in cases))
    for name in wanted:
        if name not in known:
            raise unknown(f"No kernel {name!r} is measured", name, known)
    yield from (case for case in cases if not wanted or case.kernel in wanted)


def find_build(name: str) -> Build:
    """Return the build of one kernel.

    Raises:
        ValueError: there is no such kernel; the message names the nearest, or those that there are.
    """
    every = every_build()
    if name not in every:
        raise unknown(f"There is no kernel {name!r}", name, every)
    return every[name]


def unknown(told: str, name: str, names: Iterable[str]) -> ValueError:
    """Return the error about a name that is none: what is told, and the nearest name; where none is near, all of them.

    >>> unknown("There is no kernel 'RMSnorm'", "RMSnorm", ["softmax", "rms_norm"])
    ValueError("There is no kernel 'RMSnorm'; did you mean rms_norm?")
    """
    names = list(names)
    near = get_close_matches(name.lower(), names, n=1)
    return ValueError(f"{told}; did you mean {near[0]}?" if near else f"{told}; expected one of {', '.join(names)}.")
