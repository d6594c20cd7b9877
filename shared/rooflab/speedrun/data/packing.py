"""How does a corpus travel to a machine without a network?

As one file: a line that says what is in it, then both parts as one xz stream. Compressed tokens take a little less room
than the compressed text, and are not encoded again at the other end.

>>> import tempfile
>>> from .writing import writing
>>> folder = Path(tempfile.mkdtemp())
>>> with writing("toy", folder) as writer:
...     writer.train(np.arange(500, dtype=np.uint16)); writer.valid(np.arange(9, dtype=np.uint16))
...     told = writer.finish(vocabulary=501, valid_bytes=9, source="a line")
>>> packed = pack("toy", folder / "toy.pack", folder=folder)
>>> unpack(packed, folder=folder / "other")["train_tokens"]
500
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ...files import OutputError, explain
from ...state import replacing
from .corpus import TRAIN, VALID, CorpusMissing, data_folder, describe
from .writing import writing

__all__ = ["PackError", "pack", "unpack", "unpack_waiting"]

Tell = Callable[[str, int, int], None]
_MAGIC = b"rooflab corpus 1\n"
_MOST_HEADER = 100_000
_CHUNK = 1 << 22
# Tokens are pairs of bytes: lp and pb tell the coder so, which saves a tenth.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 26, "lc": 3, "lp": 1, "pb": 1}]


class PackError(ValueError):
    """A file is no packed corpus, or not the one that was packed."""


def _silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


def pack(name: str, file: Path, *, folder: Path | None = None, tell: Tell = _silent) -> Path:
    """Write a corpus that lies in the folder into one file.

    Args:
        name: of the corpus.
        file: to be written, whole or not at all.
        folder: where corpora lie (default: `data` in Rooflab's folder).
        tell: is called with what is done, how many bytes of it, and of how many.

    Raises:
        CorpusMissing: the corpus is not there.
        OutputError: the file cannot be written.
    """
    told = describe(name, data_folder(folder))
    total = 2 * (told["train_tokens"] + told["valid_tokens"])
    header = json.dumps({**told, "name": name}, sort_keys=True).encode() + b"\n"
    try:
        with replacing(file) as out:
            out.write(_MAGIC + header)
            with lzma.open(out, "wb", format=lzma.FORMAT_XZ, filters=_FILTERS) as stream:
                done = 0
                for chunk in _chunks(data_folder(folder) / name):
                    stream.write(chunk)
                    tell("packing", done := done + len(chunk), total)
    except OSError as error:
        raise OutputError(f"Cannot write {file}: {explain(error)}") from error
    return file


def _chunks(place: Path) -> Iterator[bytes]:
    for name in (TRAIN, VALID):
        with (place / name).open("rb") as part:
            while chunk := part.read(_CHUNK):
                yield chunk


def unpack(file: Path, *, folder: Path | None = None, tell: Tell = _silent) -> dict[str, Any]:
    """Check a packed corpus and put it into the folder; returns its description.

    Raises:
        PackError: the file is none, is cut short, or its tokens do not have the digest that they should have.
        OutputError: the folder cannot be written to.
    """
    try:
        with file.open("rb") as packed:
            told = _header(packed, file)
            with writing(told["name"], data_folder(folder)) as writer:
                _copy(packed, told, writer, tell)
                made = writer.finish(**{key: told[key] for key in told if key not in _FOUND})
                if made["digest"] != told["digest"]:
                    writer.told = {}
                    raise PackError(
                        f"{file} is damaged: its tokens do not have the digest that it names. Get it again."
                    )
    except (lzma.LZMAError, EOFError) as error:
        raise PackError(f"{file} is damaged or cut short ({error}). Get it again.") from error
    return {**made, "name": told["name"]}


_FOUND = ("name", "digest", "train_tokens", "valid_tokens")  # what is counted anew, or is the folder's name


def _header(packed: BinaryIO, file: Path) -> dict[str, Any]:
    if packed.read(len(_MAGIC)) != _MAGIC:
        raise PackError(f"{file} is no packed corpus: expected a file that `rooflab speedrun data pack` wrote.")
    try:
        told = json.loads(packed.readline(_MOST_HEADER))
        counts = [told[key] for key in ("train_tokens", "valid_tokens", "vocabulary", "valid_bytes")]
        whole = all(type(count) is int and count > 0 for count in counts) and {"digest", "source"} <= told.keys()
        if whole and told["name"].isidentifier():  # it becomes the name of a folder
            return told
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise PackError(f"{file} is damaged: its second line does not describe a corpus. Get it again.")


def _copy(packed: BinaryIO, told: dict[str, Any], writer: Any, tell: Tell) -> None:
    """Unpack as many bytes as the header names, and no more."""
    total, done = 2 * (told["train_tokens"] + told["valid_tokens"]), 0
    with lzma.open(packed, "rb") as stream:
        for count, write in ((told["train_tokens"], writer.train), (told["valid_tokens"], writer.valid)):
            left = 2 * count
            while left:
                chunk = stream.read(min(_CHUNK, left))
                if len(chunk) % 2 or not chunk:
                    raise EOFError("fewer tokens than it names")
                write(np.frombuffer(chunk, dtype="<u2"))
                left -= len(chunk)
                tell("unpacking", done := done + len(chunk), total)
        if stream.read(1):
            raise EOFError("more tokens than it names")


def unpack_waiting(name: str, folder: Path) -> None:
    """Unpack `NAME.pack` where it lies in the folder and the corpus does not: whoever carried it there wants it."""
    file = folder / f"{name}.pack"
    if (folder / name).exists() or not file.is_file():
        return
    try:
        unpack(file, folder=folder)
    except (PackError, OSError) as error:
        raise CorpusMissing(f"The corpus {name} could not be unpacked: {error}") from error
