"""How are the public FineWeb shards read, those of GPT-2's tokens that modded-nanogpt's speedrun trains on?

A shard is 256 integers of 32 bits (20240520, version 1, the number of tokens, zeros) and then its tokens, 16 bits each.
A loss in bits per byte needs the bytes that each token stands for; they follow from GPT-2's list of merges, which is
fetched with the shards.

>>> token_lengths("#version: 0.2\\n" + "a b\\n" * (VOCABULARY - 257))[[0, 256, 50256]].tolist()
[1, 2, 0]
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .corpus import data_folder
from .download import download
from .writing import writing

__all__ = ["ShardError", "make_fineweb", "read_shard", "token_lengths"]

Tell = Callable[[str, int, int], None]
VOCABULARY = 50_257
MAGIC, VERSION, HEADER_INTS = 20240520, 1, 256
# GPT-2's tokens of a 10-billion-token sample of FineWeb, as modded-nanogpt takes them; a shard has 100 million.
ADDRESS = "https://huggingface.co/datasets/kjj0/fineweb10B-gpt2/resolve/main/"
MERGES_ADDRESS = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe"
MERGES_SHA256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
MOST_SHARDS = 103
VALID_TOKENS = 10_485_760  # the first ones of the validation shard: what modded-nanogpt's runs are judged by
_CHUNK = 1 << 24


class ShardError(ValueError):
    """A file is no shard, or is damaged."""


def read_shard(path: Path) -> np.ndarray:
    """The tokens of a shard, uint16, mapped from the file.

    Raises:
        ShardError: the header or the length is wrong.
    """
    size = path.stat().st_size if path.is_file() else 0
    if size < 4 * HEADER_INTS:
        raise ShardError(
            f"{path} is no shard: expected a header of {4 * HEADER_INTS} bytes, found {size} bytes in all."
        )
    magic, version, count = (int(each) for each in np.fromfile(path, dtype="<i4", count=3))
    if magic != MAGIC:
        raise ShardError(f"{path} is no shard: expected the first number {MAGIC}, found {magic}.")
    if version != VERSION:
        raise ShardError(f"{path} is a shard of version {version}; expected version {VERSION}.")
    if count < 1 or size != 4 * HEADER_INTS + 2 * count:
        raise ShardError(
            f"{path} is damaged: its header says {count:,} tokens, which take {4 * HEADER_INTS + 2 * count:,} bytes; "
            f"the file has {size:,}. Remove it and fetch it again."
        )
    return np.memmap(path, dtype="<u2", mode="r", offset=4 * HEADER_INTS, shape=(count,))


def token_lengths(merges: str) -> np.ndarray:
    """Bytes that each of GPT-2's tokens stands for.

    Args:
        merges: text of GPT-2's `vocab.bpe`: a line of version, then two parts a line; token 256 + i is line i. Each of
            their characters stands for one byte.

    Returns:
        Integers of shape (50257,); the end of a text stands for no bytes.

    Raises:
        ValueError: the text has another number of merges.
    """
    lines = [line for line in merges.split("\n")[1:] if line]
    if len(lines) != VOCABULARY - 257:
        raise ValueError(f"expected {VOCABULARY - 257:,} merges of GPT-2's vocabulary; found {len(lines):,}")
    return np.array([1] * 256 + [len(line) - 1 for line in lines] + [0])


def make_fineweb(
    shards: int, *, folder: Path | None = None, address: str = ADDRESS, merges_address: str = MERGES_ADDRESS,
    merges_sha256: str = MERGES_SHA256, valid_tokens: int = VALID_TOKENS,
    tell: Tell = lambda what, done, total: None,
) -> dict[str, Any]:  # fmt: skip
    """Fetch shards and make one corpus of them; shards that are there already are not fetched again.

    Args:
        shards: how many of training, from 1.
        folder: where corpora lie (default: `data` in Rooflab's folder); shards stay in `fineweb-shards` there, so that
            more can be added.
        address: of the folder that holds the shards.
        merges_address: of GPT-2's `vocab.bpe`.
        merges_sha256: its digest.
        valid_tokens: how many tokens of the validation shard are taken.
        tell: is called with what is done, how many bytes of it, and of how many.

    Returns:
        The corpus's description.

    Raises:
        FetchError: a file could not be fetched; what was stays.
        ShardError: a file is no shard, or holds tokens that GPT-2 does not have.
        ValueError: there are not so many shards.
    """
    if not 1 <= shards <= MOST_SHARDS:
        raise ValueError(f"expected 1 to {MOST_SHARDS} shards, found {shards}")
    place = data_folder(folder)
    store = place / "fineweb-shards"
    merges = download(merges_address, store / "vocab.bpe", sha256=merges_sha256, tell=tell)
    lengths = token_lengths(merges.read_text(encoding="utf-8"))
    names = ["fineweb_val_000000.bin", *(f"fineweb_train_{i:06d}.bin" for i in range(1, shards + 1))]
    parts = [_shard(address + name, store / name, tell) for name in names]
    with writing("fineweb", place) as writer:
        valid = parts[0][:valid_tokens]
        writer.valid(valid)
        valid_bytes = sum(int(lengths[piece].sum()) for piece in _pieces(valid, names[0]))
        total = sum(map(len, parts[1:]))
        done = 0
        for name, part in zip(names[1:], parts[1:], strict=True):
            for piece in _pieces(part, name):
                writer.train(piece)
                tell("joining", done := done + len(piece), total)
        return writer.finish(
            vocabulary=VOCABULARY, valid_bytes=valid_bytes, shards=shards,
            source=f"FineWeb: {shards} of the {MOST_SHARDS} shards of a sample of 10 billion tokens of GPT-2's.",
        )  # fmt: skip


def _shard(address: str, path: Path, tell: Tell) -> np.ndarray:
    """Fetch a shard unless a whole one is there."""
    try:
        return read_shard(path)
    except ShardError:
        path.unlink(missing_ok=True)
    return read_shard(download(address, path, tell=tell))


def _pieces(tokens: np.ndarray, name: str) -> list[np.ndarray]:
    """The tokens, some at a time.

    Raises:
        ShardError: one of them is not in the vocabulary.
    """
    pieces = [tokens[start : start + _CHUNK] for start in range(0, len(tokens), _CHUNK)]
    for piece in pieces:
        if (largest := int(piece.max())) >= VOCABULARY:
            raise ShardError(f"{name} holds the token {largest}; GPT-2's vocabulary ends at {VOCABULARY - 1}.")
    return pieces
