"""The command `rooflab speedrun data`: which corpora are here, and how does one get here?

>>> import argparse
>>> parser = argparse.ArgumentParser(); add_data_commands(parser.add_subparsers())
>>> parser.parse_args(["data", "make", "fineweb", "--shards", "2"]).shards
2
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["add_data_commands", "data_command"]

_MB = 1_000_000


def add_data_commands(subparsers: Any) -> None:
    """Add `data` with its verbs to the subcommands of `rooflab speedrun`; its function is the default `call`."""
    data = subparsers.add_parser(
        "data",
        help="list, make, pack or unpack what the speedrun trains on",
        description="List, make, pack or unpack what the speedrun trains on. Only `make` downloads.",
    )
    data.set_defaults(call=data_command)
    verbs = data.add_subparsers(dest="verb", metavar="VERB", required=True)
    verbs.add_parser("list", help="which corpora are here: tokens, bytes for a token, room on disk, digest")
    make = verbs.add_parser("make", help="download what a corpus is made of, and make it")
    make.add_argument("name", choices=("code", "fineweb"))
    make.add_argument(
        "--shards", type=int, default=1, metavar="N", help="of fineweb: 100 million tokens each (default: 1)"
    )
    make.add_argument(
        "--wheels", type=Path, metavar="DIR", help="of code: a folder of wheels to use, and to keep them in"
    )
    pack = verbs.add_parser("pack", help="write a corpus into one file, to carry to a machine without a network")
    pack.add_argument("file", type=Path)
    pack.add_argument("--name", choices=("code", "fineweb"), default="code", help="which corpus (default: code)")
    unpack = verbs.add_parser("unpack", help="check such a file and put its corpus into Rooflab's folder")
    unpack.add_argument("file", type=Path)


def data_command(options: argparse.Namespace) -> int:
    """Do what the verb says; returns the exit code."""
    verbs: dict[str, Callable[[argparse.Namespace], str]] = {
        "list": _list, "make": _make, "pack": _pack, "unpack": _unpack,
    }  # fmt: skip
    print(verbs[options.verb](options))
    return 0


def _list(options: argparse.Namespace) -> str:
    from ...plaintext import terminal_width
    from ...tables import render_text
    from ...units import format_si
    from .corpus import NAMES, CorpusMissing, corpus, data_folder

    rows, missing = [], []
    for name in NAMES:
        try:
            found = corpus(name)
        except CorpusMissing as error:
            missing.append(str(error))
            continue
        rows.append([
            name, f"{len(found.train):,}", f"{len(found.valid):,}", f"{found.valid_bytes / len(found.valid):.3f}",
            "–" if name == "stdlib" else format_si(found.train.nbytes + found.valid.nbytes, "B"), found.digest[:12],
        ])  # fmt: skip
    head = ["corpus", "training tokens", "validation tokens", "bytes per token", "on disk", "digest"]
    return "\n\n".join([render_text(head, rows, width=terminal_width()), *missing, f"They lie in {data_folder()}."])


def _make(options: argparse.Namespace) -> str:
    from .code import make_code
    from .fineweb import make_fineweb

    with _progress() as tell:
        if options.name == "code":
            told = make_code(wheels=options.wheels, tell=tell)
        else:
            told = make_fineweb(options.shards, tell=tell)
    return _told(options.name, told)


def _pack(options: argparse.Namespace) -> str:
    from .packing import pack

    with _progress() as tell:
        file = pack(options.name, options.file, tell=tell)
    return f"{file}: {file.stat().st_size / _MB:.1f} MB. On the other machine: rooflab speedrun data unpack {file.name}"


def _unpack(options: argparse.Namespace) -> str:
    from .packing import unpack

    with _progress() as tell:
        told = unpack(options.file, tell=tell)
    return _told(str(told["name"]), told)


def _told(name: str, told: dict[str, Any]) -> str:
    return (
        f"{name}: {told['train_tokens']:,} tokens for training, {told['valid_tokens']:,} for validation "
        f"({told['valid_bytes'] / told['valid_tokens']:.3f} bytes each), digest {told['digest'][:12]}."
    )


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows a bar for each thing that is done; large totals are bytes, and shown in MB."""
    from ...progress import Progress

    bars: dict[str, Progress] = {}

    def tell(what: str, done: int, total: int) -> None:
        scale, unit = (_MB, "MB") if total > _MB else (1, "step")
        if what not in bars:
            for bar in bars.values():
                bar.close("done")
            bars.clear()
            bars[what] = Progress(what, -(-total // scale), unit=unit)
        bars[what].reach(done // scale)

    outcome = "stopped"
    try:
        yield tell
        outcome = "done"
    finally:
        for bar in bars.values():
            bar.close(outcome)
