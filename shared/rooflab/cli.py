"""What does the command `rooflab` do?

>>> build_parser().parse_args(["run", "u1_step_cost"]).unit
['u1_step_cost']
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import __version__
from .book import UnknownUnit
from .extras import MissingExtra
from .files import OutputError, explain
from .grading.checking import add_check_options, check_notebooks
from .grading.course_command import add_course_options
from .grading.grade_command import add_grade_options
from .kernel_bench import add_bench_options, bench
from .kernel_commands import add_compile_options, compile_kernels
from .kernel_ladder import add_ladder_options, show_ladder
from .plaintext import allow_any_terminal
from .specs import UnknownChip
from .speedrun.commands import add_speedrun_options, speedrun
from .speedrun.watch import Stopped
from .stopping import exit_code, reason, stop_on_signals

__all__ = ["build_parser", "main", "parse"]

_ABOUT = """Rooflab: predict, measure and explain the performance of deep learning on the device that is there.

Begin with:
  rooflab device        which device is this, and how fast can it be?
  rooflab tour          run the first units and the first lab, grade it, and leave one page to look at
  make lab              (in a clone) open the book in JupyterLab
"""
_UNIT_HELP = "s1_measurement/u1_step_cost, u1_step_cost or s1/u1; or the path of a notebook"


def build_parser() -> argparse.ArgumentParser:
    """The command line with all its options."""
    parser = argparse.ArgumentParser(
        prog="rooflab", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"rooflab {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    device = commands.add_parser("device", help="show the device, its measured ceilings, and what is missing")
    device.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    device.add_argument("--remeasure", action="store_true", help="measure the ceilings again (else: once, then kept)")

    tour = commands.add_parser("tour", help="run and grade the first of everything; leave one HTML report")
    tour.add_argument("--fresh", action="store_true", help="measure the device's ceilings again")
    tour.add_argument("--no-open", action="store_true", help="do not open the report in a browser")
    _add_output(tour, "tour")

    run = commands.add_parser("run", help="run units or labs from top to bottom, without a browser")
    run.add_argument("unit", nargs="+", help=_UNIT_HELP)
    run.add_argument(
        "--edition",
        choices=("solution", "student"),
        default="solution",
        help="of a lab given by its name: the one with its solutions (default, because it runs to its end), or the one "
        "that students get, which stops at the first exercise that is not answered; a path means that very notebook",
    )
    _add_output(run, "run")

    record = commands.add_parser("record", help="run units and keep what they measured as dated records")
    record.add_argument("unit", nargs="*", help=f"{_UNIT_HELP} (default: every unit of the book)")
    _add_output(record, "record")

    _add_kernels(commands)
    _add_classroom(commands)
    return parser


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line; kernels may stand behind options, too.

    Of `compile softmax --for sm90 gelu` argparse gives the command the words before its first option, and leaves gelu.
    """
    parser = build_parser()
    options, late = parser.parse_known_args(arguments)
    if isinstance(getattr(options, "kernel", None), list):
        options.kernel = [*options.kernel, *(word for word in late if not word.startswith("-"))]
        late = [word for word in late if word.startswith("-")]
    if late:
        parser.error(f"unrecognized arguments: {' '.join(late)}")
    return options


def _add_kernels(commands: Any) -> None:
    """What readers of the kernels use."""
    compiled = commands.add_parser(
        "compile",
        help="compile kernels for a chip that need not be there; show registers, spills, matrix instructions",
        description="Compile kernels for a chip that need not be there, and show what they use of it. "
        "Example: rooflab compile softmax --for sm90 --show ptx",
    )
    add_compile_options(compiled)

    ladder = commands.add_parser(
        "ladder",
        help="show the steps of a kernel from a first attempt to the roof, and what each of them is for",
        description="Show the steps of a kernel from a first attempt to the roof, with what each moves (without a GPU) "
        "or takes (on one). Example: rooflab ladder softmax --diff 2 3",
    )
    add_ladder_options(ladder)

    measured = commands.add_parser(
        "bench",
        help="measure kernels beside their ceilings and rivals, in one run on a GPU",
        description="Measure kernels beside their ceilings and rivals, in one run on a GPU; leave a record and a "
        "figure. Example: rooflab bench kernels softmax rms_norm",
    )
    add_bench_options(measured)

    trained = commands.add_parser(
        "speedrun",
        help="train a transformer to a loss as soon as possible, one named change after the other",
        description="Train a transformer on the device that is there, with the named changes that are asked for "
        "(default: all that the device can do). Examples: rooflab speedrun --list; rooflab speedrun --up-to bf16; "
        "rooflab speedrun ladder",
    )
    add_speedrun_options(trained)


def _add_classroom(commands: Any) -> None:
    """What students and instructors of a class use."""
    check = commands.add_parser(
        "check",
        help="run the visible checks of your copy of a lab, as grading would",
        description="Run the visible checks of your copy of a lab as grading would, and say what each of them found. "
        "Nothing is handed in, and nothing is written. Example: rooflab check lab1_timer.ipynb",
    )
    add_check_options(check)

    grade = commands.add_parser(
        "grade",
        help="grade an assignment of an nbgrader course, in a sandbox",
        description="Grade what was handed in for an assignment of an nbgrader course: into its gradebook, autograded/ "
        "and feedback/. It may be stopped and run again. Example: rooflab grade lab1_timer --html class.html",
    )
    add_grade_options(grade)
    course = commands.add_parser(
        "course",
        help="make an nbgrader course out of the book, keep it up to date, export grades",
        description="Make an nbgrader course out of the book's labs, bring it up to date with the book, or export its "
        "grades. Submissions and grades are never touched. Example: rooflab course perf101 --lab lab1_timer",
    )
    add_course_options(course)


def _folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("expected the name of a folder, found nothing")
    return Path(text)


def _add_output(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(
        "--output",
        type=_folder,
        metavar="DIR",
        help=f"folder for what is written (default: .rooflab/{name} in the clone)",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 all went well, 1 something failed, 2 it was called
    wrongly, 128 + n it was stopped by signal n."""
    allow_any_terminal()
    options = parse(arguments)
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "device": _device,
        "tour": _tour,
        "run": _run,
        "record": _record,
        "compile": compile_kernels,
        "bench": bench,
        "ladder": show_ladder,
        "speedrun": speedrun,
        "check": check_notebooks,
        "grade": _grade,
        "course": _course,
    }
    with stop_on_signals():  # also while an error is told: a second signal spoils no sentence and no exit code
        return _run_command(commands[options.command], options)


def _run_command(command: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    try:
        _require_folder()
        code = command(options)
        sys.stdout.flush()  # what cannot be printed is told here, and not by the interpreter's last words
        return code
    except KeyboardInterrupt as error:
        return _say(str(error) or f"Stopped by {reason()}.", exit_code())
    except BrokenPipeError:  # whoever read our output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (UnknownUnit, UnknownChip) as error:
        return _say(str(error), 2)
    except (MissingExtra, MemoryError, OSError, ValueError, Stopped) as error:
        if os.environ.get("ROOFLAB_DEBUG"):
            raise
        return _say(explain(error) if isinstance(error, OSError) else str(error), 1)


def _require_folder() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        raise OutputError("The folder in which you are has been removed: change to another one (cd).") from None


def _say(sentence: str, code: int) -> int:
    if os.environ.get("ROOFLAB_DEBUG") and sys.exc_info()[0] is not None:
        raise
    print(f"rooflab: {sentence}", file=sys.stderr)
    return code


def _device(options: argparse.Namespace) -> int:
    from .devicecard import show

    return show(as_json=options.json, fresh=options.remeasure)


def _tour(options: argparse.Namespace) -> int:
    from .tour import tour

    return tour(_output(options.output, "tour"), fresh=options.fresh, show=not options.no_open)


def _run(options: argparse.Namespace) -> int:
    from .book import open_book
    from .runs import run_units

    return run_units(open_book(), options.unit, _output(options.output, "run"), edition=options.edition)


def _record(options: argparse.Namespace) -> int:
    from .book import open_book
    from .runs import record_units

    return record_units(open_book(), options.unit, _output(options.output, "record"))


def _grade(options: argparse.Namespace) -> int:
    from .grading.grade_command import grade

    return grade(options)


def _course(options: argparse.Namespace) -> int:
    from .grading.course_command import course

    return course(options)


def _output(given: Path | None, name: str) -> Path:
    """The folder for results: the one that was given, else that of this name among all results."""
    from .book import results_root

    return given or results_root() / name
