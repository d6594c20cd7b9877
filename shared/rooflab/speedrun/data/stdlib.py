"""The corpus that is always there: the source of the interpreter's own library, as bytes.

Token 0 to 255 is a byte, 256 ends a file. Whole modules and packages are in one part or the other.

>>> here = stdlib()
>>> here.vocabulary, here.train.dtype == np.uint16, len(here.train) > 10 * len(here.valid)
(257, True, True)
"""

from __future__ import annotations

import sys
import sysconfig
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import numpy as np

from .corpus import Corpus, CorpusMissing, digest
from .sieve import Sieve, clean

__all__ = ["split", "stdlib"]

END_OF_TEXT, VOCABULARY = 256, 257
MOST_BYTES = 16_000_000
_VALID_SHARE = 0.05
_LARGEST_VALID = 0.2  # of the validation part: so that no module is most of it
# Not the library's own, or not there in every build of it; `_sysconfigdata` differs with the machine.
_LEFT_OUT = {
    "site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test", "lib-dynload", "ensurepip",
    "pydoc_data",
}  # fmt: skip


def stdlib() -> Corpus:
    """The standard library of the interpreter that runs; read once a process.

    Raises:
        CorpusMissing: this interpreter comes without the source of its library.
    """
    return _read(Path(sysconfig.get_paths()["stdlib"]))


def split(sizes: dict[str, int]) -> set[str]:
    """Which modules are for validation: in the order of the digests of their names, until 5 % of the bytes are reached.

    Args:
        sizes: bytes of each top-level module or package.
    """
    wanted = _VALID_SHARE * sum(sizes.values())
    chosen: set[str] = set()
    taken = 0
    for name in sorted(sizes, key=lambda name: sha256(name.encode()).digest()):
        if taken < wanted and sizes[name] <= max(_LARGEST_VALID * wanted, min(sizes.values())):
            chosen.add(name)
            taken += sizes[name]
    return chosen


@lru_cache(maxsize=2)
def _read(place: Path) -> Corpus:
    modules: defaultdict[str, list[bytes]] = defaultdict(list)
    size = 0
    for name, text in _sources(place):
        if size + len(text) > MOST_BYTES:
            break
        size += len(text)
        modules[_family(name)].append(text)
    chosen = split({name: sum(map(len, texts)) for name, texts in modules.items()})
    sieve = Sieve()
    kept: dict[bool, list[bytes]] = {True: [], False: []}
    for for_valid in (True, False):  # validation first: training gets nothing that repeats it
        for name in sorted(modules):
            if (name in chosen) is for_valid:
                kept[for_valid] += [text for text in modules[name] if not sieve.take(text)]
    if not kept[True] or not kept[False]:
        raise CorpusMissing(
            f"This interpreter has no source of its library in {place}: expected files that end in .py. Take a Python "
            "that comes with its source, or another corpus (`rooflab speedrun data list`)."
        )
    train, valid = _tokens(kept[False]), _tokens(kept[True])
    version = ".".join(map(str, sys.version_info[:3]))
    source = f"Source of the standard library of Python {version}, as bytes."
    return Corpus("stdlib", train, valid, VOCABULARY, sum(map(len, kept[True])), digest(train, valid), source)


def _tokens(texts: list[bytes]) -> np.ndarray:
    tokens = np.empty(sum(map(len, texts)) + len(texts), dtype=np.uint16)
    at = 0
    for text in texts:
        tokens[at : at + len(text)] = np.frombuffer(text, dtype=np.uint8)
        at += len(text) + 1
        tokens[at - 1] = END_OF_TEXT
    tokens.flags.writeable = False  # it is kept for the whole process
    return tokens


def _family(name: str) -> str:
    """The top-level module that a file belongs to; a twin in Python (`_pydecimal`) goes with the module it stands for.

    >>> _family("json/decoder.py"), _family("_pydecimal.py"), _family("_strptime.py")
    ('json', 'decimal', 'strptime')
    """
    top = name.split("/")[0].removesuffix(".py")
    return top.removeprefix("_py").lstrip("_") or top


def _sources(place: Path) -> Iterator[tuple[str, bytes]]:
    """Name and text of each file of the library, sorted by name; what cannot be read is passed over."""
    archive = next((path for path in (place, place.with_name(_archive_name())) if path.is_file()), None)
    if place.is_dir():
        yield from _in_folder(place)
    elif archive is not None and zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            for name in sorted(filter(_wanted, opened.namelist())):
                yield name, clean(opened.read(name))


def _in_folder(place: Path) -> Iterator[tuple[str, bytes]]:
    names = []
    for top in place.iterdir():
        if top.is_dir():
            if top.name not in _LEFT_OUT:
                names += [path.relative_to(place).as_posix() for path in top.rglob("*.py")]
        elif top.suffix == ".py":
            names.append(top.name)
    for name in sorted(filter(_wanted, names)):
        try:
            yield name, clean((place / name).read_bytes())
        except OSError:  # no right to read it, a dangling link, a folder of that name
            continue


def _wanted(name: str) -> bool:
    return name.endswith(".py") and not _LEFT_OUT.intersection(name.split("/")) and "_sysconfigdata" not in name


def _archive_name() -> str:
    return f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
