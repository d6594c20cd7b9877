"""The command `rooflab bench kernels`: every kernel beside its ceiling and its rivals, in one run.

>>> import argparse
>>> parser = argparse.ArgumentParser(); add_bench_options(parser)
>>> parser.parse_args(["kernels", "softmax"]).kernel
['softmax']
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .plaintext import terminal_width
from .progress import Progress
from .tables import render_text
from .units import format_si

if TYPE_CHECKING:
    from .kernels.benchmark import Case

__all__ = ["add_bench_options", "bench", "draw", "row"]

Found = Mapping[str, Mapping[str, Any]]  # of each case: its ceiling's name, the target, the seconds of each candidate


def add_bench_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rooflab bench`."""
    parser.add_argument("what", choices=("kernels",), help="what to measure")
    parser.add_argument("kernel", nargs="*", help="only these, such as softmax (default: every kernel)")
    parser.add_argument("--size", help="only this size, such as '16384 x 1024'")
    parser.add_argument("--output", type=Path, default=Path(".rooflab/bench"), metavar="DIR", help="for the results")
    parser.add_argument("--tune", action="store_true", help="find the best block sizes for this chip first")
    parser.add_argument("--record", action="store_true", help="keep the results among the records, too")


def bench(options: argparse.Namespace) -> int:
    """Measure kernels, print a table, and leave a record and a figure; returns 1 if one of them is wrong."""
    from .device import find_device
    from .kernels.benchmark import run_case
    from .kernels.catalogue import every_case
    from .kernels.launching import ready
    from .kernels.tuner import tune_kernels
    from .records import save_record

    ready()
    if find_device().kind not in ("cuda", "rocm"):
        raise ValueError(
            "There is no GPU that Triton compiles for, and an interpreted kernel has no speed: see `rooflab compile`, "
            "or count what a kernel moves with rooflab.count."
        )
    cases = [case for case in every_case(options.kernel) if options.size in (None, case.size)]
    if not cases:
        raise ValueError(f"No kernel is measured at the size {options.size!r}.")
    if options.tune:
        print(f"The best block sizes are kept in {tune_kernels([case.kernel for case in cases], options.size)}.")
    bar = Progress("bench kernels", len(cases), unit="case")
    found: dict[str, Any] = {}
    wrong = []
    for number, case in enumerate(cases, 1):
        bar.step(number)
        try:
            seconds = run_case(case)
        except AssertionError as error:
            wrong.append(str(error))
            continue
        found[f"{case.kernel} {case.size}"] = _kept(case, seconds)
        _free()
    bar.close("measured")
    head = ["kernel", "size", "time", "rooflab", "best rival", "target"]
    print(render_text(head, [row(name, one) for name, one in found.items()], width=terminal_width()))
    print("\nrooflab, best rival: share of the speed of the ceiling, a copy of the same size or the library to beat.")
    options.output.mkdir(parents=True, exist_ok=True)
    path = save_record("kernels", found, folder=options.output)
    (options.output / "kernels.png").write_bytes(draw(found))
    print(f"Kept in {path} and {options.output / 'kernels.png'}.")
    if options.record:
        print(f"Recorded in {save_record('kernels', found)}.")
    for sentence in wrong:
        print(f"rooflab: {sentence}")
    return int(bool(wrong))


def _kept(case: Case, seconds: Mapping[str, float]) -> dict[str, Any]:
    return {"ceiling": case.ceiling, "target": case.target, "seconds": dict(seconds)}


def row(name: str, one: Mapping[str, Any]) -> list[str]:
    """Return a case as a row: kernel, size, our time, our share of the ceiling, the best rival's, what it should be."""
    from .kernels.benchmark import OURS, share

    shares = share(one["seconds"], one["ceiling"])
    kernel, _, size = name.partition(" ")
    rivals = {rival: value for rival, value in shares.items() if rival != OURS}
    best = max(rivals, key=rivals.__getitem__, default="")
    told = f"{rivals[best]:.2f} ({best})" if best else "–"
    reached = "" if shares[OURS] >= one["target"] else ", missed"
    taken = format_si(one["seconds"][OURS], "s")
    return [kernel, size, taken, f"{shares[OURS]:.2f}", told, f"{one['target']:.2f}{reached}"]


def draw(found: Found) -> bytes:
    """Return a picture (PNG): each case a line, each candidate a point at its share of the ceiling's speed."""
    import matplotlib
    from matplotlib.figure import Figure

    from .kernels.benchmark import OURS, share
    from .plots.style import BOUND, house_style, png, series_style

    shares = {name: share(one["seconds"], one["ceiling"]) for name, one in found.items()}
    others = sorted({rival for each in shares.values() for rival in each} - {OURS})
    with matplotlib.rc_context(house_style):
        fig = Figure(figsize=(7.2, 1.4 + 0.26 * len(found)), layout="constrained")
        ax = fig.subplots()
        ax.axvline(1.0, linestyle="--", label="the ceiling", **dict[str, Any](BOUND))
        for number, name in enumerate([OURS, *others]):
            style = series_style(number) | {"linestyle": "none", "markersize": 7 if name == OURS else 5}
            points = [(each[name], place) for place, each in enumerate(shares.values()) if name in each]
            ax.plot(*zip(*points, strict=True), label=name, **style)
        ax.set_yticks(range(len(found)), list(found))
        ax.set(ylim=(len(found) - 0.5, -0.5), xlim=(0, None), xlabel="share of the ceiling's speed")
        fig.legend(loc="outside lower center", ncols=4)
        fig.suptitle("How near each kernel comes to its ceiling", x=0.01, ha="left")
        return png(fig)


def _free() -> None:
    """Give the memory of a case back before the next one."""
    import gc

    import torch

    gc.collect()
    torch._dynamo.reset()
    torch.cuda.empty_cache()
