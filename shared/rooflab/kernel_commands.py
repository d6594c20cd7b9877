"""The command `rooflab compile`: what does a kernel become on a chip that need not be there?

>>> import argparse
>>> parser = argparse.ArgumentParser(); add_compile_options(parser)
>>> parser.parse_args(["softmax", "--for", "sm90"]).chip
['sm90']
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import Any

from .extras import require
from .plaintext import filled, terminal_width
from .tables import render_text

__all__ = ["add_compile_options", "compile_kernels"]

_STAGES = ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn")
_LEGEND = (
    "registers: of 32 bits, of each thread. spilled: bytes of each thread. programs: as many as one {place} "
    "holds at a time. matrix instructions: as they stand in the code, however often a loop runs them. –: none."
)


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab compile`."""
    parser.add_argument("kernel", nargs="*", help="its name, such as softmax (default: every kernel)")
    parser.add_argument(
        "--for", dest="chip", action="append", metavar="CHIP",
        help="sm80 (A100), sm90 (H100, H200), sm100 (B200) or gfx942 (MI300X); may be repeated (default: all of them)",
    )  # fmt: skip
    parser.add_argument(
        "--show", choices=_STAGES, metavar="STAGE", help=f"print the code instead of the table: {', '.join(_STAGES)}"
    )


def compile_kernels(options: argparse.Namespace) -> int:
    """Compile kernels and print what they use of a chip; returns 1 if one of them cannot be compiled."""
    os.environ["TRITON_INTERPRET"] = "0"  # where there is no GPU, kernels would be interpreted
    require("triton", "triton")
    from .kernels.catalogue import every_build, find_build
    from .kernels.compiled import compile_for
    from .kernels.targets import TARGETS, target

    chips = [target(name).name for name in options.chip or TARGETS]
    rows, told, failed = [], [], 0
    for name, build in ({name: find_build(name) for name in options.kernel} or every_build()).items():
        if not set(chips).intersection(build.chips):
            failed += len(options.kernel) > 0
            print(f"rooflab: {name} is for {', '.join(build.chips)}; it has no form for {chips[0]}.", file=sys.stderr)
        for chip in (each for each in chips if each in build.chips):
            try:
                made = compile_for(build, chip)
            except RuntimeError as error:
                failed += 1
                print(f"rooflab: {error}", file=sys.stderr)
                continue
            if options.show:
                print(_code(made, options.show, name))
            rows.append(_row(name, made))
            told += [line for line in [_sizes(name, build)] if line not in told]
    if rows and not options.show:
        head = ["kernel", "chip", "warps", "registers", "spilled", "shared", "programs", "matrix instructions"]
        places = {"nvidia": "multiprocessor", "amd": "compute unit"}
        place = " (AMD: ".join(places[vendor] for vendor in sorted({TARGETS[row[1]].vendor for row in rows})[::-1])
        place += ")" * ("(" in place)
        print(f"{render_text(head, rows, width=terminal_width())}\n\n{filled(_LEGEND.format(place=place))}")
        last = told if options.kernel else ["What a kernel is compiled for: rooflab compile and its name."]
        print(filled("\n".join(last)))
    return int(failed > 0)


def _row(name: str, made: Any) -> list[str]:
    matrix = ", ".join(f"{count} {instruction}" for instruction, count in made.matrix.items()) or "–"
    shared = "–"
    if made.shared_bytes:
        shared = f"{made.shared_bytes / 1024:.1f} KiB" if made.shared_bytes >= 1024 else f"{made.shared_bytes} B"
    spilled = f"{made.spill_bytes} B" if made.spill_bytes else "–"
    return [name, made.target, str(made.warps), str(made.registers), spilled, shared, str(made.resident()), matrix]


def _sizes(name: str, build: Any) -> str:
    """For what formats and sizes a kernel is compiled: those of a typical call."""
    arrays: dict[str, list[str]] = {}
    for argument, kind in build.types.items():
        if kind.startswith("*"):
            arrays.setdefault(kind[1:], []).append(argument)
        elif tile := re.match(r"tensordesc<(\w+)\[([\d, ]+)\]", kind):
            sizes = " x ".join(size for size in tile[2].replace(" ", "").split(",") if size != "1")
            arrays.setdefault(f"{tile[1]}, blocks of {sizes}", []).append(argument)
    of = [f"{', '.join(names)} in {kind}" for kind, names in arrays.items()]
    constants = [f"{one}={value}" for one, value in build.constants.items() if value is not None]
    return f"{name}: {'; '.join([*of, *([', '.join(constants)] if constants else []), f'{build.warps} warps'])}."


def _code(made: Any, stage: str, name: str) -> str:
    if stage not in made.text:
        there = ", ".join(each for each in _STAGES if each in made.text)
        raise ValueError(f"{name} for {made.target} has no {stage}; expected one of {there}.")
    return str(made.text[stage])
