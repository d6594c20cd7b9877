"""A digest of results on a device: 64 bits that depend on every word of them, at the speed of the memory.

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

__all__ = ["chain_kernel", "chained", "digest_of", "folded", "hashed", "words_of"]

_LANES, _STEPS, _UNROLLED = 128, 256, 16  # chains side by side, words of each, and of these at a time
_BLOCK = _LANES * _STEPS
_LEFT = 4096  # words, few enough to be read back
_ONES = 0xFFFFFFFF
tl: Any = None  # triton.language, once there is something to hash on a GPU


def digest_of(tensors: Sequence[Any], key: int) -> int:
    """Return 64 bits that depend on every word of tensors, on its place and on the key.

    Words are chained, 256 at a time, until so few are left that a cryptographic hash of them costs nothing. (Of a sum,
    who has answered too early would soon find other results, right enough, that have the digest which was told.)
    It ends when the device has computed all of it, since what is left is read back.
    """
    return folded([hashed(number, tensor, key) for number, tensor in enumerate(tensors)], key)


def hashed(number: int, tensor: Any, key: int) -> Any:
    """Return what is left of one tensor of several, on its device: nobody waits for it yet."""
    words = words_of(tensor)
    while words.numel() > _LEFT:
        words = chained(words, (key + 0x9E3779B9 * number) & 0x7FFFFFFF)
    return words


def folded(hashes: Sequence[Any], key: int) -> int:
    """Return 64 bits of all that is left of tensors; waits for the device."""
    digest = hashlib.blake2b(key.to_bytes(8, "big"), digest_size=8)
    for each in hashes:
        raw = each.cpu().numpy().tobytes()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return int.from_bytes(digest.digest(), "big")


def words_of(tensor: Any) -> Any:
    """Return the bytes of a tensor as words of 32 bits; what is left over is filled with zeros."""
    import torch

    raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    if raw.numel() % 4:
        raw = torch.nn.functional.pad(raw, (0, -raw.numel() % 4))
    return raw.view(torch.int32)


def chained(words: Any, key: int) -> Any:
    """Return two words for each 256 of these, in which all of them are mixed one after another."""
    import torch

    blocks = -(-words.numel() // _BLOCK)
    if words.is_cuda:
        made = torch.empty(2 * blocks * _LANES, dtype=torch.int32, device=words.device)
        chain_kernel()[(blocks,)](words, made, words.numel(), key, _LANES, _STEPS, _UNROLLED)
        return made
    padded = torch.nn.functional.pad(words.to(torch.int64) & _ONES, (0, blocks * _BLOCK - words.numel()))
    rows = padded.reshape(blocks, _STEPS, _LANES)
    place = torch.arange(blocks * _LANES, dtype=torch.int64).reshape(blocks, _LANES)
    one = (place * 0x9E3779B9 + key) & _ONES
    other = one ^ 0x5BD1E995
    for step in range(_STEPS):
        one = one ^ rows[:, step]
        one = ((one ^ (one >> 16)) * 0x7FEB352D) & _ONES
        one = ((one ^ (one >> 15)) * 0x846CA68B) & _ONES
        one = one ^ (one >> 16)
        other = (((other ^ rows[:, step]) + one) * 0x846CA68B) & _ONES
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
    @triton.jit(do_not_specialize=["n", "key"])
    def chain(words, made, n, key, LANES: tl.constexpr, STEPS: tl.constexpr, UNROLLED: tl.constexpr):  # type: ignore[no-untyped-def]
        block = tl.program_id(0).to(tl.int64)
        lane = tl.arange(0, LANES)
        one = (((block * LANES + lane) * 0x9E3779B9 + key) & 0xFFFFFFFF).to(tl.uint32)
        other = one ^ 0x5BD1E995
        for first in range(0, STEPS, UNROLLED):
            for step in tl.static_range(UNROLLED):  # the loads of these are under way together
                place = (block * STEPS + first + step) * LANES + lane
                word = tl.load(words + place, mask=place < n, other=0).to(tl.uint32, bitcast=True)
                one = one ^ word
                one = (one ^ (one >> 16)) * 0x7FEB352D
                one = (one ^ (one >> 15)) * 0x846CA68B
                one = one ^ (one >> 16)
                other = ((other ^ word) + one) * 0x846CA68B
                other = other ^ (other >> 15)
        at = made + 2 * block * LANES + lane
        tl.store(at, one.to(tl.int32, bitcast=True))
        tl.store(at + LANES, other.to(tl.int32, bitcast=True))

    return chain
