"""How does a corpus come to lie in its folder, whole or not at all?

Its files are written into a temporary folder beside the place, which is then renamed.

>>> import tempfile, numpy as np
>>> from pathlib import Path
>>> from .corpus import load
>>> folder = Path(tempfile.mkdtemp())
>>> with writing("toy", folder) as writer:
...     writer.train(np.array([1, 2, 3], dtype=np.uint16)); writer.valid(np.array([4, 5], dtype=np.uint16))
...     told = writer.finish(vocabulary=257, valid_bytes=2, source="five tokens")
>>> load("toy", folder).valid.tolist()
[4, 5]
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...files import output_folder
from ...locks import alone_in
from .corpus import DESCRIPTION, TRAIN, VALID, describe, digest

__all__ = ["Writer", "writing"]

_STALE_S = 86_400.0


class Writer:
    """Takes tokens part by part; made by `writing`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = {name: (folder / name).open("wb") for name in (TRAIN, VALID)}
        self.told: dict[str, Any] = {}

    def train(self, tokens: np.ndarray) -> None:
        """Append to the training tokens."""
        self._files[TRAIN].write(np.ascontiguousarray(tokens, dtype="<u2").data)

    def valid(self, tokens: np.ndarray) -> None:
        """Append to the validation tokens."""
        self._files[VALID].write(np.ascontiguousarray(tokens, dtype="<u2").data)

    def finish(self, *, vocabulary: int, valid_bytes: int, source: str, **more: Any) -> dict[str, Any]:
        """Write the description and return it.

        Raises:
            ValueError: one of the parts has no token in it, or no byte of text.
        """
        self.close()
        if not all((self.folder / name).stat().st_size for name in self._files) or valid_bytes < 1:
            raise ValueError("expected text for both training and validation; found none for one of them")
        parts = [np.memmap(self.folder / name, dtype="<u2", mode="r") for name in (TRAIN, VALID)]
        self.told = {
            "train_tokens": len(parts[0]), "valid_tokens": len(parts[1]), "vocabulary": vocabulary,
            "valid_bytes": valid_bytes, "digest": digest(parts[0], parts[1]), "source": source, **more,
        }  # fmt: skip
        (self.folder / DESCRIPTION).write_text(json.dumps(self.told, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return self.told

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


@contextmanager
def writing(name: str, folder: Path) -> Iterator[Writer]:
    """Yield a writer; what it was given takes the corpus's place once the block ends after `finish`, else is removed.

    Raises:
        OutputError: the folder cannot be written to.
    """
    folder = output_folder(folder)
    _clear(name, folder)
    temporary = Path(tempfile.mkdtemp(dir=folder, prefix=f".{name}."))
    writer = Writer(temporary)
    try:
        yield writer
        if writer.told:
            temporary.chmod(0o755)
            _install(temporary, folder / name, writer.told["digest"])
    finally:
        writer.close()
        shutil.rmtree(temporary, ignore_errors=True)


def _clear(name: str, folder: Path) -> None:
    """Remove what a killed process left behind; nothing takes as long as a day to write."""
    for left in folder.glob(f".{name}.*"):
        with suppress(OSError):
            if left.is_dir() and time.time() - left.stat().st_mtime > _STALE_S:
                shutil.rmtree(left, ignore_errors=True)


def _install(made: Path, place: Path, wanted: str) -> None:
    """Rename a folder into its place; what stood there goes first, and stays readable to whoever has it mapped.

    The same corpus is left as it is: ranks that unpack one file at a time must not take it from each other.
    """
    with alone_in(place.parent):
        if _digest_in(place) == wanted:
            return
        aside = None
        if place.exists():
            aside = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}.")) / "old"
            place.rename(aside)
        made.rename(place)
        if aside is not None:
            shutil.rmtree(aside.parent, ignore_errors=True)


def _digest_in(place: Path) -> str:
    """The digest of the tokens that lie there, counted anew; "" unless they and their description are whole."""
    try:
        told = describe(place.name, place.parent)
        train, valid = (np.memmap(place / name, dtype="<u2", mode="r") for name in (TRAIN, VALID))
    except (OSError, ValueError):  # none there, damaged, an empty file
        return ""
    found = digest(train, valid)
    return found if found == told["digest"] else ""
