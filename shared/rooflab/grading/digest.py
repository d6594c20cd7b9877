"""A digest of results on a device: 64 bits that depend on every word of them, at the speed of the memory.

It is a tree: 256 words at a time become two, in 128 sponges side by side, which make a block; what comes of all blocks
of all tensors becomes less in the same way, until so little is left that a hash of it costs nothing. (Of a sum, or of
chains without a part that is never seen, who has answered too early would soon find other results, right enough, that
have the digest which was told.) So whoever knows what has come of each block can look at any one of them alone.

>>> import torch
>>> x = torch.arange(3.0)
>>> digest_of([x], 1) == digest_of([x.clone()], 1) != digest_of([x], 2)
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from .sponge import BLOCK, sponged

__all__ = [
    "BLOCK",
    "FEW",
    "chained",
    "digest_of",
    "hashed",
    "joined",
    "key_of",
    "level_of",
    "words_of",
]

FEW = 1024  # words, which are not chained


def digest_of(tensors: Sequence[Any], key: int) -> int:
    """Return 64 bits that depend on every word of tensors, on its place and on the key; waits for the device."""
    levels = [level_of(words_of(one), key_of(key, number)) for number, one in enumerate(tensors)]
    return hashed(joined(levels, key), levels, key)


def key_of(key: int, number: int) -> int:
    """Return the key of one of several, so that they cannot change places."""
    return (key + 0x9E3779B9 * number) & 0x7FFFFFFF


def level_of(words: Any, key: int, keep: Any = None) -> Any:
    """Return what has come of each block of words, or the words where they are few; nobody waits for the device.

    Args:
        words: of 32 bits, on any device.
        key: below 2^31.
        keep: where to copy the words to on the way, if anywhere.
    """
    if words.numel() > FEW:
        return chained(words, key, keep=keep)
    return words.clone() if keep is None else keep.copy_(words)


def joined(levels: Sequence[Any], key: int) -> Any:
    """Return the few words that come of all levels that :func:`level_of` has given; nobody waits for the device."""
    import torch

    left = torch.cat(list(levels))
    while left.numel() > FEW:
        left = sponged(left, key, doubles=4, out=8)
    return left


def hashed(left: Any, levels: Sequence[Any], key: int) -> int:
    """Return 64 bits of what :func:`joined` has given for these levels; waits for it."""
    digest = hashlib.blake2b(key.to_bytes(8, "big"), digest_size=8)
    for level in levels:
        digest.update(level.numel().to_bytes(8, "big"))
    digest.update(left.cpu().numpy().tobytes())
    return int.from_bytes(digest.digest(), "big")


def words_of(tensor: Any) -> Any:
    """Return the bytes of a tensor as words of 32 bits; what is left over is filled with zeros."""
    import torch

    raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    if raw.numel() % 4:
        raw = torch.nn.functional.pad(raw, (0, -raw.numel() % 4))
    return raw.view(torch.int32)


def chained(words: Any, key: int, first: int = 0, *, keep: Any = None, passes: int = 1) -> Any:
    """Return two words for each 256 of these, on which all of them have a bearing; for the rest see `sponged`."""
    return sponged(words, key, first, doubles=1, out=2, keep=keep, passes=passes)
