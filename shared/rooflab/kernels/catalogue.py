"""Which kernels are there, and how is each compiled for a chip?

>>> FAMILIES[0]
'rows'
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .compiled import Build
from .jax_cases import cases as jax_cases

if TYPE_CHECKING:
    from .benchmark import Case

__all__ = ["FAMILIES", "every_build", "every_case", "find_build"]

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
        ValueError: there is no such kernel; the message names those that there are.
    """
    cases: list[Case] = []
    for family in FAMILIES:
        cases += importlib.import_module(f"{__package__}.{family}.cases").cases(device=device)
    cases += jax_cases(device=device)
    known = list(dict.fromkeys(case.kernel for case in cases))
    for name in wanted:
        if name not in known:
            raise ValueError(f"No kernel {name!r} is measured; expected one of {', '.join(known)}.")
    yield from (case for case in cases if not wanted or case.kernel in wanted)


def find_build(name: str) -> Build:
    """Return the build of one kernel.

    Raises:
        ValueError: there is no such kernel; the message names those that there are.
    """
    every = every_build()
    if name not in every:
        raise ValueError(f"There is no kernel {name!r}; expected one of {', '.join(every)}.")
    return every[name]
