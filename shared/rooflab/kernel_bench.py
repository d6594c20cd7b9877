"""The command `rooflab bench kernels`: every kernel beside its ceiling and its rivals, in one run.

>>> import argparse
>>> parser = argparse.ArgumentParser(); add_bench_options(parser)
>>> parser.parse_args(["kernels", "softmax"]).kernel
['softmax']
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .book import results_root
from .files import explain, output_folder, write_atomic
from .kernel_figure import PICTURES, draw_pictures, file_name, share_text
from .plaintext import filled, terminal_width
from .progress import Progress
from .tables import render_text
from .units import format_si

if TYPE_CHECKING:
    from .kernels.benchmark import Case

__all__ = ["add_bench_options", "bench", "row"]

Found = Mapping[str, Mapping[str, Any]]  # of each case: its ceiling's name, the target, the seconds of each candidate
_UNIT = "kernels_"  # a record for each kernel, under this name and the kernel's
_LEGEND = (
    "rooflab, best rival: share of the speed of the ceiling (1.00: as fast), which is a copy or an addition of as many "
    "bytes, or the library's own kernel. –: no rival but the ceiling. target: the share that is wanted; behind: where "
    "ours is to be as fast as the best rival, too, and is not."
)
_MEMORY = (
    "288 MiB (872 MiB): the peak of memory beside the inputs, of ours and of the ceiling; over: it is to be no more "
    "than that."
)
_MISSED = 'Why a target is missed: docs/kernels.md, "What is reached, and what limits the rest".'
_NOISE = 0.01  # two medians of one run differ by so much for no reason


def add_bench_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab bench`."""
    parser.add_argument("what", type=_kernels, metavar="kernels", help="what to measure: this very word")
    parser.add_argument("kernel", nargs="*", default=[], help="only these, such as softmax (default: every kernel)")
    parser.add_argument("--size", help="only this size, such as '16384 x 1024', as the table shows it")
    parser.add_argument("--output", type=Path, metavar="DIR", help="for the results (default: .rooflab/bench)")
    parser.add_argument("--tune", action="store_true", help="find the best block sizes for this chip first")
    parser.add_argument("--record", action="store_true", help="keep the results among the records, too")
    parser.add_argument("--recorded", metavar="DEVICE", help="measure nothing; show the records of nvidia-h200, say")


def _kernels(word: str) -> str:
    """The word `kernels`; whoever leaves it out is told the whole command."""
    if word == "kernels":
        return word
    known = any(word in kernels for _, kernels in PICTURES.values())
    raise argparse.ArgumentTypeError(
        f"expected `rooflab bench kernels {word if known else 'softmax'}`, found `rooflab bench {word}`: "
        "the word `kernels` stands before the names of kernels"
    )


def bench(options: argparse.Namespace) -> int:
    """Measure kernels, print a table, and leave records and figures; returns 1 if one of them is wrong."""
    from .kernels.catalogue import every_case
    from .kernels.launching import ready

    options.output = options.output or results_root() / "bench"
    if options.recorded is not None and (options.tune or options.record):
        raise ValueError("Records are shown and not measured: expected --recorded without --tune and --record.")
    if options.recorded is not None:
        found, where, versions = _recorded(options.recorded, options.kernel, options.size)
        options.size = options.size and next(iter(found)).partition(" ")[2]  # as the records have it
        _show(found)
        try:
            _draw(found, options, where)
        except OSError as error:  # the table, which was asked for, needs no file
            print(filled(f"{explain(error)} So there is no figure: `--output DIR` takes one."), file=sys.stderr)
        if any("missed" in row(name, one)[-1] for name, one in found.items()):
            print(filled(_MISSED))
        print(filled(f"Recorded on {where} ({versions}): kernels that were changed since are as they were then."))
        return 0
    ready()
    try:
        _need_gpu()
    except ValueError:
        next(every_case(options.kernel, device="cpu"), None)  # a name that is none is the nearer reason
        raise
    cases = [case for case in every_case(options.kernel) if options.size is None or _same(options.size, case.size)]
    if not cases:
        sizes = sorted({case.size for case in every_case(options.kernel)})
        raise ValueError(f"No kernel is measured at the size {options.size!r}, but at {'; '.join(sizes)}.")
    options.size = options.size and cases[0].size  # as the cases have it
    output_folder(options.output)  # before minutes are spent on results that could not be kept
    _prepare(options, cases)
    found, wrong = _measure(cases, options)
    if found:
        _show(found)
        _draw(found, options, _here())
    if wrong:
        print(filled(f"{wrong} of {len(cases)} cases could not be measured: the reasons stand above the table."))
    return int(bool(wrong))


def _need_gpu() -> None:
    from .device import find_device

    if find_device().kind not in ("cuda", "rocm"):
        raise ValueError(
            "There is no GPU that Triton compiles for, and an interpreted kernel has no speed: see `rooflab compile`, "
            "or count what a kernel moves with rooflab.count; `--recorded nvidia-h200` shows what was measured on one."
        )


def _prepare(options: argparse.Namespace, cases: Sequence[Case]) -> None:
    """Find block sizes, if that is wanted; then compile in many processes what the cases will run."""
    from .kernels.precompile import compile_candidates
    from .kernels.tuner import tune_kernels

    wanted = sorted({case.kernel for case in cases})
    if options.tune:
        print(f"The best block sizes are kept in {tune_kernels(wanted, options.size)}.")
    if len(cases) > 1:
        print(f"Compiling the candidates of {len(cases)} cases, in as many processes as there are cores.")
        compile_candidates(wanted, options.size)


def _measure(cases: Sequence[Case], options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    """Results by case, which are kept on disk as they come; and how many cases are wrong, which is told at once."""
    from .kernels.benchmark import peak_bytes, run_case

    bar = Progress("bench kernels", len(cases), unit="case")
    found: dict[str, Any] = {}
    wrong = 0
    for number, case in enumerate(cases, 1):
        bar.step(number)
        try:
            timed = run_case(case)
            one: dict[str, Any] = {"ceiling": case.ceiling, "target": case.target, "seconds": dict(timed.seconds)}
            if case.leads:
                one["leads"] = True
            if case.most_bytes is not None:
                able = [name for name in case.candidates if name not in timed.left_out]
                one |= {"most_bytes": case.most_bytes, "peak_bytes": peak_bytes(case, able)}
            found[f"{case.kernel} {case.size}"] = one
            _keep(case.kernel, found, options)
            for rival, reason in timed.left_out.items():
                print(f"{case.kernel} {case.size}: {rival} cannot run here: {reason}")
        except Exception as error:  # of a compiler or of a chip, whose kinds differ; the other cases go on
            wrong += 1
            named = "" if isinstance(error, AssertionError) else f"{case.kernel} {case.size}: "
            print(f"rooflab: {named}{(str(error).splitlines() or [type(error).__name__])[0]}", flush=True)
        _free()
    bar.close("measured")
    return found, wrong


def _keep(kernel: str, found: Found, options: argparse.Namespace) -> None:
    """Save a kernel's cases as a record of its own, so that another run of one kernel replaces no other's."""
    from .records import save_record

    own = {name: one for name, one in found.items() if name.partition(" ")[0] == kernel}
    save_record(f"{_UNIT}{kernel}", own, folder=options.output)
    if options.record:
        save_record(f"{_UNIT}{kernel}", own)


def _recorded(device: str, wanted: Sequence[str], size: str | None = None) -> tuple[dict[str, Any], str, str]:
    """The results that are kept of a device, by its folder's name; device and days; versions and commits.

    Raises:
        ValueError: there are none of that device, kernel or size; the message names those that are there.
    """
    from .kernels.catalogue import unknown
    from .records import all_records, records_folder, short_name

    records = {str(one["unit"]).removeprefix(_UNIT): one for one in all_records(device) if _of_kernels(one)}
    if not records:
        there = ", ".join(sorted({path.parent.name for path in records_folder().glob(f"*/{_UNIT}*.json")})) or "none"
        raise ValueError(f"There is no record of kernels on {device!r}; recorded devices: {there}.")
    measured = dict.fromkeys([*(name for _, kernels in PICTURES.values() for name in kernels), *records])
    for name in wanted:
        if name not in measured:
            raise unknown(f"No kernel {name!r} is measured", name, measured)
    if lacking := [name for name in wanted if name not in records]:
        raise ValueError(
            f"There is no record of {', '.join(lacking)} on {device!r}, but of {', '.join(sorted(records))}."
        )
    chosen = [records[name] for name in wanted or records]
    every = {name: one for record in chosen for name, one in record["values"].items() if _whole(device, name, one)}
    found = {name: one for name, one in every.items() if size is None or _same(name.partition(" ")[2], size)}
    if not found:
        sizes = sorted({name.partition(" ")[2] for name in every})
        raise ValueError(f"Nothing is recorded at the size {size!r}, but at {'; '.join(sizes)}.")
    days = sorted({str(record["date"])[:10] for record in chosen})
    versions = {f"{key} {record['versions'][key]}": None for key in ("torch", "triton") for record in chosen
                if key in record["versions"]}  # fmt: skip
    commits = sorted({f"commit {record['commit'][:10]}" for record in chosen})
    where = f"{short_name(chosen[0])}, {' to '.join(dict.fromkeys((days[0], days[-1])))}"
    return dict(sorted(found.items(), key=lambda pair: _order(pair[0]))), where, ", ".join([*versions, *commits])


def _same(size: str, other: str) -> bool:
    """Whether two sizes are the same, however they are typed: without spaces, too."""
    return "".join(size.split()) == "".join(other.split())


def _of_kernels(record: Mapping[str, Any]) -> bool:
    return str(record.get("unit", "")).startswith(_UNIT)


def _here() -> str:
    """This device and this day, as a picture names them."""
    from .device import find_device
    from .logbook import now
    from .records import short_name

    return f"{short_name({'device': {'name': find_device().name}})}, {now()[:10]}"


def _whole(device: str, name: str, one: Any) -> bool:
    """Whether a record says of a case all that is shown; what does not is named and left out."""
    try:
        row(name, one)
    except (AttributeError, LookupError, TypeError, ValueError, ZeroDivisionError):
        print(f"rooflab: the record of {name} on {device} is damaged: restore it, or record it again.", file=sys.stderr)
        return False
    return True


def _order(name: str) -> tuple[str, int, int, list[int], str]:
    """By kernel, then by size: little work before much, and of equal work the shortest rows first.

    >>> sorted(["softmax 2048 x 32768", "softmax 16384 x 4096", "softmax 16384 x 1024"], key=_order)
    ['softmax 16384 x 1024', 'softmax 16384 x 4096', 'softmax 2048 x 32768']
    """
    kernel, _, size = name.partition(" ")
    numbers = [int(number) for number in re.findall(r"\d+", size)]
    return kernel, math.prod(numbers), numbers[-1] if numbers else 0, numbers, size


def _show(found: Found) -> None:
    """Print the table, and what its columns are."""
    head = ["kernel", "size", "time", "rooflab", "best rival", "target"]
    print(render_text(head, [row(name, one) for name, one in found.items()], width=terminal_width()))
    legend = f"{_LEGEND} {_MEMORY}" if any("most_bytes" in one for one in found.values()) else _LEGEND
    print(f"\n{filled(legend)}")


def _draw(found: Found, options: argparse.Namespace, where: str) -> None:
    """Write the figures and name them; one of some kernels, or of one size, replaces none of a whole group."""
    output_folder(options.output)
    names = []
    for picture, content in draw_pictures(found, where).items():
        names.append(file_name(picture, options.kernel, options.size))
        write_atomic(options.output / names[-1], content)
    one = f"The figure is {options.output / names[0]}."
    print(filled(one if len(names) == 1 else f"The figures in {options.output} are {', '.join(names)}."))


def row(name: str, one: Mapping[str, Any]) -> list[str]:
    """Return a case as a row: kernel, size, our time, our share of the ceiling, the best rival's, what it should be."""
    from .kernels.benchmark import OURS, share

    shares = share(one["seconds"], one["ceiling"])
    kernel, _, size = name.partition(" ")
    rivals = {rival: value for rival, value in shares.items() if rival != OURS}
    best = max(rivals, key=rivals.__getitem__, default="")
    told = f"{rivals[best]:.2f} ({best})" if best else "–"
    wanted = [f"{one['target']:.2f}"] + ["missed"] * (shares[OURS] < one["target"])
    if one.get("leads") and best and shares[OURS] < rivals[best] - _NOISE:
        wanted.append("behind")
    if "most_bytes" in one:
        peak = one["peak_bytes"][OURS]
        told += f"; {format_si(peak, 'MiB')} ({format_si(one['peak_bytes'][one['ceiling']], 'MiB')})"
        if peak > one["most_bytes"]:
            wanted.append(f"over {format_si(one['most_bytes'], 'MiB')}")
    taken = format_si(one["seconds"][OURS], "s")
    return [kernel, size, taken, share_text(shares[OURS], one["target"]), told, ", ".join(wanted)]


def _free() -> None:
    """Give the memory of a case back before the next one."""
    import gc

    import torch

    gc.collect()
    torch._dynamo.reset()
    torch.cuda.empty_cache()
