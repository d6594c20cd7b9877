"""A digest of results on a device: 64 bits that depend on every word of them, at the speed of the memory.

It is a tree: 256 words at a time are chained to two, in 128 chains side by side, which make a block; what comes of all
blocks of all tensors is sealed (:mod:`rooflab.grading.seal`), until so little is left that a hash of it costs nothing.
(Of a sum, who has answered too early would soon find other results, right enough, that have the digest which was told;
and what has come of the blocks may be anything where nobody looks, so that chains are not enough there.) So whoever
knows what has come of each block can look at any one of them alone.

>>> import torch
>>> x = torch.arange(3.0)
>>> digest_of([x], 1) == digest_of([x.clone()], 1) != digest_of([x], 2)
True
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any

from .seal import sealed

__all__ = [
    "BLOCK",
    "FEW",
    "chain_kernel",
    "chained",
    "digest_of",
    "hashed",
    "joined",
    "key_of",
    "level_of",
    "words_of",
]

_LANES, _STEPS, _UNROLLED = 128, 256, 16  # chains side by side, words of each, and of these at a time
BLOCK = _LANES * _STEPS  # words
FEW = 1024  # words, which are not chained
_ONES = 0xFFFFFFFF
tl: Any = None  # triton.language, once there is something to hash on a GPU


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
        left = sealed(left, key)
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
    """Return two words for each 256 of these, in which all of them are mixed one after another.

    Args:
        words: of 32 bits, on any device.
        key: below 2^31.
        first: the number of the block that the words begin with.
        keep: where to copy the words to on the way, if anywhere: words are read once for both.
        passes: over all words; in each, a chain goes on with the next block, so that it is memory that it waits for.
    """
    import torch

    blocks, size = -(-words.numel() // BLOCK), words.numel()
    if words.is_cuda:
        made = torch.empty(2 * blocks * _LANES, dtype=torch.int32, device=words.device)
        copy, sizes = (words if keep is None else keep), (_LANES, _STEPS, _UNROLLED)
        chain_kernel()[(blocks,)](words, copy, made, size, key, first, blocks, passes, keep is not None, *sizes)
        return made
    if keep is not None:
        keep.copy_(words)
    padded = torch.nn.functional.pad(words.to(torch.int64) & _ONES, (0, blocks * BLOCK - size))
    rows = padded.reshape(blocks, _STEPS, _LANES)
    place = (first * _LANES + torch.arange(blocks * _LANES, dtype=torch.int64)).reshape(blocks, _LANES)
    one = (place * 0x9E3779B9 + key) & _ONES
    other = one ^ 0x5BD1E995
    for turn in range(passes):
        for step in range(_STEPS):
            word = rows[:, step].roll(-turn, 0)
            one = one ^ word
            one = ((one ^ (one >> 16)) * 0x7FEB352D) & _ONES
            one = ((one ^ (one >> 15)) * 0x846CA68B) & _ONES
            one = one ^ (one >> 16)
            other = (((other ^ word) + one) * 0x846CA68B) & _ONES
            other = other ^ (other >> 15)
    made = torch.stack((one, other), 1).reshape(-1)
    return torch.where(made > 0x7FFFFFFF, made - 2**32, made).to(torch.int32)


@functools.cache
def chain_kernel() -> Any:
    """Return what :func:`chained` does, as one pass over the words, in Triton."""
    # A kernel looks its names up in the module; Triton is loaded only where there is something to time.
    global tl
    import triton
    import triton.language as tl

    # Triton compiles anew for a number that is 1 or that 16 divides: a key would do so in the middle of a timed call.
    @triton.jit(do_not_specialize=["n", "key", "start", "blocks", "passes"])
    def chain(  # type: ignore[no-untyped-def]
        words, copy, made, n, key, start, blocks, passes, KEEP: tl.constexpr,
        LANES: tl.constexpr, STEPS: tl.constexpr, UNROLLED: tl.constexpr,
    ):  # fmt: skip
        program = tl.program_id(0).to(tl.int64)
        lane = tl.arange(0, LANES)
        one = ((((start + program) * LANES + lane) * 0x9E3779B9 + key) & 0xFFFFFFFF).to(tl.uint32)
        other = one ^ 0x5BD1E995
        for turn in range(passes):
            block = (program + turn) % blocks
            for first in range(0, STEPS, UNROLLED):
                for step in tl.static_range(UNROLLED):  # the loads of these are under way together
                    place = (block * STEPS + first + step) * LANES + lane
                    raw = tl.load(words + place, mask=place < n, other=0)
                    if KEEP:
                        tl.store(copy + place, raw, mask=place < n)
                    word = raw.to(tl.uint32, bitcast=True)
                    one = one ^ word
                    one = (one ^ (one >> 16)) * 0x7FEB352D
                    one = (one ^ (one >> 15)) * 0x846CA68B
                    one = one ^ (one >> 16)
                    other = ((other ^ word) + one) * 0x846CA68B
                    other = other ^ (other >> 15)
        at = made + 2 * program * LANES + lane
        tl.store(at, one.to(tl.int32, bitcast=True))
        tl.store(at + LANES, other.to(tl.int32, bitcast=True))

    return chain
