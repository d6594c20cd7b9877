"""What is a corpus, and where does it lie?

Two files of tokens and a description in a folder of its own, under `data` in Rooflab's folder; the tokens are mapped
into memory, not read.

>>> import numpy as np
>>> text = np.frombuffer(b"to be or not to be", dtype=np.uint8)
>>> Corpus("toy", text, text[:6], 257, 6, digest(text, text[:6]), "a line").bits_per_byte(math.log(2) * 3)
3.0
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...state import home

__all__ = ["NAMES", "Corpus", "CorpusMissing", "corpus", "data_folder", "describe", "digest", "load"]

NAMES = ("stdlib", "code", "fineweb")
DESCRIPTION, TRAIN, VALID = "corpus.json", "train.bin", "valid.bin"
_MAKE = "rooflab speedrun data make"


class CorpusMissing(ValueError):
    """The corpus is not on this machine, or not whole; the message names the command that makes it."""


@dataclass(frozen=True)
class Corpus:
    """Text as tokens, in two parts that share no file.

    Attributes:
        name: "stdlib", "code" or "fineweb".
        train: tokens, one dimension, uint16; may be mapped from a file. Texts follow one another, an end-of-text token
            between two (of `fineweb` before each).
        valid: the same for validation.
        vocabulary: number of tokens, the end of a text among them.
        valid_bytes: bytes of the text that `valid` stands for; ends of texts stand for none.
        digest: SHA-256 of the tokens.
        source: one sentence for the reader.
    """

    name: str
    train: np.ndarray = field(repr=False)
    valid: np.ndarray = field(repr=False)
    vocabulary: int
    valid_bytes: int
    digest: str
    source: str

    def bits_per_byte(self, nats_per_token: float, judged: np.ndarray | None = None) -> float:
        """The mean loss of a token as bits for each byte of text, so that vocabularies can be compared.

        Args:
            nats_per_token: the loss.
            judged: the tokens whose mean it is, of any shape; by default all of `valid`. Of `fineweb`, whose vocabulary
                is not here, they are taken to be as long as those are on average.
        """
        many, size = len(self.valid), self.valid_bytes
        if judged is not None and (lengths := self.token_bytes()) is not None:
            many, size = judged.size, int(lengths[judged].sum())
        return nats_per_token * many / size / math.log(2)

    def token_bytes(self) -> np.ndarray | None:
        """How many bytes of text each token stands for; None where the vocabulary is not here."""
        from .bytepairs import code_vocabulary

        if self.name not in ("stdlib", "code"):
            return None
        # Both begin with the bytes, and end with the end of a text.
        return np.array([*map(len, code_vocabulary().bytes_of[: self.vocabulary - 1]), 0])


def digest(train: np.ndarray, valid: np.ndarray) -> str:
    """SHA-256 of the two lengths and the tokens, as little-endian integers."""
    seen = hashlib.sha256(f"{len(train)} {len(valid)} {train.dtype.itemsize}\n".encode())
    for part in (train, valid):
        for start in range(0, len(part), 1 << 24):  # a few tens of MB at a time: the part may be larger than memory
            seen.update(np.ascontiguousarray(part[start : start + (1 << 24)], dtype=part.dtype.newbyteorder("<")).data)
    return seen.hexdigest()


def data_folder(folder: Path | None = None) -> Path:
    """Where corpora lie: the given folder, or `data` in Rooflab's own."""
    return Path(folder) if folder is not None else home() / "data"


def corpus(name: str | None = None, *, folder: Path | None = None) -> Corpus:
    """The corpus of that name; nothing is downloaded.

    Args:
        name: "stdlib", "code" or "fineweb". None: `code` where it is there and an accelerator is, else `stdlib`.
        folder: where corpora lie (default: `data` in Rooflab's folder).

    Raises:
        CorpusMissing: it is not there, is damaged, or is of another edition; the message says which command makes it.
        ValueError: no corpus has that name.
    """
    from .packing import unpack_waiting
    from .stdlib import stdlib

    if name is None:
        name = "code" if _code_is_due(data_folder(folder)) else "stdlib"
    if name not in NAMES:
        raise ValueError(f"expected a corpus of {', '.join(NAMES)}; found {name!r}")
    if name == "stdlib":
        return stdlib()
    unpack_waiting(name, data_folder(folder))
    return load(name, data_folder(folder))


def _code_is_due(folder: Path) -> bool:
    if not any((folder / name).exists() for name in ("code", "code.pack")):
        return False
    from ...device import find_device

    return find_device().kind != "cpu"


def describe(name: str, folder: Path) -> dict[str, Any]:
    """What the folder says about a corpus in it.

    Raises:
        CorpusMissing: it is not there, or its description cannot be read.
    """
    try:
        told = json.loads((folder / name / DESCRIPTION).read_text(encoding="utf-8"))
        wanted = {"train_tokens": int, "valid_tokens": int, "vocabulary": int, "valid_bytes": int, "digest": str}
        if all(isinstance(told[key], kind) for key, kind in wanted.items()) and told["valid_bytes"] > 0:
            return told
    except FileNotFoundError:
        raise CorpusMissing(
            f"The corpus {name} is not on this machine: make it with `{_MAKE} {name}` (which downloads), or unpack one "
            f"that was made elsewhere with `rooflab speedrun data unpack FILE`."
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise _damaged(name, folder, f"{DESCRIPTION} cannot be read")


def load(name: str, folder: Path) -> Corpus:
    """Map a corpus that lies in the folder; the first time in a process its tokens are read through and checked.

    Raises:
        CorpusMissing: it is not there, its files do not have the length or its tokens not the digest that they should
            have, or (of `code`) it is not of the edition that this version of Rooflab pins.
    """
    told = describe(name, folder)
    if name == "code":
        from .code import pinned

        if told["digest"] != pinned().digest:
            raise CorpusMissing(
                f"The corpus code in {folder} is of another edition: expected the digest {pinned().digest[:12]}, found "
                f"{told['digest'][:12]}. Make it again with `{_MAKE} code`, or unpack a newer file."
            )
    stamps = []
    for file, count in ((TRAIN, told["train_tokens"]), (VALID, told["valid_tokens"])):
        path = folder / name / file
        found = path.stat().st_size if path.is_file() else 0
        if found != 2 * count or not count:
            raise _damaged(name, folder, f"{file} has {found:,} bytes, expected {2 * count:,}")
        about = path.stat()
        stamps.append((about.st_ino, about.st_size, about.st_mtime_ns))
    if (read := _read_through(folder / name, tuple(stamps))) != told["digest"]:
        raise _damaged(name, folder, f"its tokens have the digest {read[:12]}, expected {told['digest'][:12]}")
    train, valid = _mapped(folder / name)
    return Corpus(
        name, train, valid, told["vocabulary"], told["valid_bytes"], told["digest"], str(told.get("source", name))
    )


def _mapped(place: Path) -> tuple[np.ndarray, np.ndarray]:
    train, valid = (np.memmap(place / file, dtype="<u2", mode="r") for file in (TRAIN, VALID))
    return train, valid


@lru_cache(maxsize=8)
def _read_through(place: Path, stamps: tuple[tuple[int, ...], ...]) -> str:
    """The digest of the tokens that lie there, some 0.15 s for `code`; files with other stamps are read again."""
    return digest(*_mapped(place))


def _damaged(name: str, folder: Path, why: str) -> CorpusMissing:
    return CorpusMissing(f"The corpus {name} in {folder} is damaged ({why}): make it again with `{_MAKE} {name}`.")
