"""The command `rooflab compile`: what does a kernel become on a chip that need not be there?

>>> import argparse
>>> parser = argparse.ArgumentParser(); add_compile_options(parser)
>>> parser.parse_args(["softmax", "--for", "sm90"]).chip
['sm90']
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from .extras import require
from .plaintext import terminal_width
from .tables import render_text

__all__ = ["add_compile_options", "compile_kernels"]

_STAGES = ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn")
_LEGEND = (
    "registers: of 32 bits, of each thread. spilled: bytes of each thread. programs: as many as one multiprocessor "
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
    rows, failed = [], 0
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
    if rows and not options.show:
        head = ["kernel", "chip", "warps", "registers", "spilled", "shared", "programs", "matrix instructions"]
        print(f"{render_text(head, rows, width=terminal_width())}\n\n{_LEGEND}")
    return int(failed > 0)


def _row(name: str, made: Any) -> list[str]:
    matrix = ", ".join(f"{count} {instruction}" for instruction, count in made.matrix.items()) or "–"
    shared = "–"
    if made.shared_bytes:
        shared = f"{made.shared_bytes / 1024:.1f} KiB" if made.shared_bytes >= 1024 else f"{made.shared_bytes} B"
    spilled = f"{made.spill_bytes} B" if made.spill_bytes else "–"
    return [name, made.target, str(made.warps), str(made.registers), spilled, shared, str(made.resident()), matrix]


def _code(made: Any, stage: str, name: str) -> str:
    if stage not in made.text:
        there = ", ".join(each for each in _STAGES if each in made.text)
        raise ValueError(f"{name} for {made.target} has no {stage}; expected one of {there}.")
    return str(made.text[stage])
