"""How is the corpus `code` made: Python source of pinned wheels, as byte pairs, the same tokens on every machine?

pip fetches the wheels that `code_wheels.toml` names and checks their digests; the sieve leaves out what is not worth
training on; whole packages are for validation.

>>> pins = pinned()
>>> len(pins.wheels) > 20, {wheel.part for wheel in pins.wheels} == {"train", "valid"}
(True, True)
"""

from __future__ import annotations

import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from .bytepairs import BytePairs, code_vocabulary
from .corpus import data_folder
from .fetching import Wheel, fetch_wheels
from .sieve import Sieve, clean
from .writing import writing

__all__ = ["Pins", "documents", "make_code", "pinned", "read_pins"]

Tell = Callable[[str, int, int], None]
# Folders of other projects' code inside a wheel: it has licences of its own, and copies of it stand in many wheels.
_VENDORED = {"_vendor", "vendor", "vendored", "_vendored_packages", "_bundled", "third_party", "extern", "externals"}


@dataclass(frozen=True)
class Pins:
    """What the corpus is made of, and what must come out.

    Attributes:
        digest: SHA-256 of the tokens; empty: not pinned, whatever comes out is taken.
        wheels: in the order of the file; those for validation are read first.
    """

    digest: str
    wheels: tuple[Wheel, ...]


@lru_cache(maxsize=1)
def pinned() -> Pins:
    """The wheels and the digest that this version of Rooflab pins."""
    return read_pins((files(__package__) / "code_wheels.toml").read_text(encoding="utf-8"))


def read_pins(text: str) -> Pins:
    """Pins from the text of a file such as `code_wheels.toml`.

    Raises:
        ValueError: an entry lacks a field, or has an unknown one.
    """
    told = tomllib.loads(text)
    try:
        return Pins(told["digest"], tuple(Wheel(**entry) for entry in told["wheel"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"expected `digest` and [[wheel]] entries with the fields of Wheel; found {error}") from error


def documents(folder: Path, pins: Pins, left_out: Counter[str] | None = None) -> Iterator[tuple[Wheel, str, bytes]]:
    """Wheel, name and text of each file that is kept: those for validation first, so that training repeats none.

    Args:
        folder: holds the wheels.
        pins: which wheels, and for which part.
        left_out: is given the bytes that were left out, by the rule that did it.
    """
    sieve = Sieve()
    for wheel in sorted(pins.wheels, key=lambda wheel: (wheel.part != "valid", wheel.name)):
        with zipfile.ZipFile(folder / wheel.file) as opened:
            for name in sorted(opened.namelist()):
                if not name.endswith(".py") or _VENDORED.intersection(name.split("/")):
                    continue
                text = clean(opened.read(name))
                reason = sieve.take(text)
                if not reason:
                    yield wheel, name, text
                elif left_out is not None:
                    left_out[reason] += len(text)


def make_code(
    *, folder: Path | None = None, wheels: Path | None = None, pins: Pins | None = None,
    vocabulary: BytePairs | None = None, tell: Tell = lambda what, done, total: None,
) -> dict[str, Any]:  # fmt: skip
    """Fetch the wheels, encode their source and put the corpus into its folder.

    Stopped, it goes on later with the wheels that it has; the corpus is there whole or not at all.

    Args:
        folder: where corpora lie (default: `data` in Rooflab's folder).
        wheels: a folder that may hold wheels already, and keeps them (default: one that is removed at the end).
        pins: which wheels (default: those that this version of Rooflab pins).
        vocabulary: byte pairs (default: those that come with Rooflab).
        tell: is called with what is done, how many of it, and of how many.

    Returns:
        The corpus's description.

    Raises:
        FetchError: a wheel could not be had; the message says why and what to do.
        ValueError: the tokens do not have the digest that is pinned.
        OutputError: the folder cannot be written to.
    """
    pins, vocabulary = pins or pinned(), vocabulary or code_vocabulary()
    place = data_folder(folder)
    store = wheels or place / "wheels"
    fetch_wheels(pins.wheels, store, tell=tell)
    with writing("code", place) as writer:
        sizes: Counter[str] = Counter()
        seen: dict[str, None] = {}
        end = np.array([vocabulary.end_of_text], dtype=np.uint16)
        for wheel, _, text in documents(store, pins):
            if wheel.name not in seen:
                seen[wheel.name] = None
                tell("encoding", len(seen), len(pins.wheels))
            sizes[wheel.part] += len(text)
            write = writer.valid if wheel.part == "valid" else writer.train
            write(vocabulary.encode(text))
            write(end)
        told = writer.finish(
            vocabulary=vocabulary.vocabulary, valid_bytes=sizes["valid"], train_bytes=sizes["train"],
            source=f"Python source of {len(pins.wheels)} pinned packages, as byte pairs.",
        )  # fmt: skip
        if pins.digest and told["digest"] != pins.digest:
            writer.told = {}
            raise ValueError(
                f"The tokens of code came out with the digest {told['digest'][:12]}, but {pins.digest[:12]} is pinned: "
                "the corpus was not kept. Rooflab's files may be of two versions; install it anew."
            )
    if wheels is None:
        for wheel in pins.wheels:
            (store / wheel.file).unlink(missing_ok=True)
        with suppress(OSError):  # something else lies in it, or another process still fills it
            store.rmdir()
    return told
