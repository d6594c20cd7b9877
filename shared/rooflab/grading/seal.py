"""Few words that come of many such that nobody finds others of which the same would come, on a device.

What :mod:`rooflab.grading.digest` chains is told block by block after the clock has stopped, and one block of each
result is looked at. So those who tell it must be bound to all of it by what they told before. A chain of 64 bits
does not do that: three words of it that nobody looks at make it end as one likes, after 100,000 attempts. Here each
of 128 lanes of a block is a sponge: of 16 words of state, 8 take up words and 8 are never seen, and the permutation
between is that of ChaCha with 8 rounds (Bernstein, "ChaCha, a variant of Salsa20", 2008).

>>> import torch
>>> sealed(torch.arange(2000, dtype=torch.int32), 5).numel()
1024
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

__all__ = ["RATE", "seal_kernel", "sealed"]

_LANES, _STEPS = 128, 256  # sponges side by side, words that each takes up
_DOUBLES = 4  # double rounds
RATE = 8  # words that a sponge takes up at a time, and that come of it
_BEGIN = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
tl: Any = None  # triton.language and parts of the kernel, once there is something to seal on a GPU
quarter: Any = None
taken: Any = None


def sealed(words: Any, key: int) -> Any:
    """Return 8 words for each 256 of these; nobody waits for the device.

    Args:
        words: of 32 bits, on any device.
        key: below 2^31.
    """
    import torch

    size = words.numel()
    blocks = -(-size // (_LANES * _STEPS))
    if words.is_cuda:
        made = torch.empty(RATE * blocks * _LANES, dtype=torch.int32, device=words.device)
        seal_kernel()[(blocks,)](words, made, size, key, _LANES, _STEPS, _DOUBLES)
        return made
    padded = np.zeros((blocks, _STEPS // RATE, RATE, _LANES), np.uint32)
    padded.reshape(-1)[:size] = words.numpy().view(np.uint32)
    state = np.zeros((16, blocks, _LANES), np.uint32)
    state[8:12] = np.array(_BEGIN, np.uint32)[:, None, None]
    state[12] = np.arange(blocks * _LANES, dtype=np.uint32).reshape(blocks, _LANES)
    state[13] = key
    for part in range(_STEPS // RATE):
        state[:RATE] ^= padded[:, part].transpose(1, 0, 2)
        state = _permuted(state)
    return torch.from_numpy(state[:RATE].transpose(1, 0, 2).reshape(-1).view(np.int32).copy())


def _permuted(state: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """ChaCha's permutation of 16 words: columns, then diagonals."""
    a, b, c, d = (state[first : first + 4] for first in (0, 4, 8, 12))
    for _ in range(_DOUBLES):
        for turn in (1, -1):
            for left, right in ((16, 12), (8, 7)):
                a = a + b
                d = _turned(d ^ a, left)
                c = c + d
                b = _turned(b ^ c, right)
            b, c, d = np.roll(b, -turn, 0), np.roll(c, 2, 0), np.roll(d, turn, 0)
    return np.concatenate((a, b, c, d))


def _turned(words: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _load_parts() -> None:
    """Load Triton and the parts of the kernel, which looks their names up in the module."""
    global tl, quarter, taken
    import triton
    import triton.language as tl

    @triton.jit
    def quarter(a, b, c, d):  # type: ignore[no-untyped-def]
        a = a + b
        d = d ^ a
        d = (d << 16) | (d >> 16)
        c = c + d
        b = b ^ c
        b = (b << 12) | (b >> 20)
        a = a + b
        d = d ^ a
        d = (d << 8) | (d >> 24)
        c = c + d
        b = b ^ c
        b = (b << 7) | (b >> 25)
        return a, b, c, d

    @triton.jit
    def taken(state, words, at, n):  # type: ignore[no-untyped-def]
        return state ^ tl.load(words + at, mask=at < n, other=0).to(tl.uint32, bitcast=True)


@functools.cache
def seal_kernel() -> Any:
    """Return what :func:`sealed` does, in Triton, which is loaded only where there is something to time."""
    import triton

    _load_parts()

    # Triton compiles anew for a number that is 1 or that 16 divides: a key would do so in the middle of a timed call.
    @triton.jit(do_not_specialize=["n", "key"])
    def seal(  # type: ignore[no-untyped-def]
        words, made, n, key, LANES: tl.constexpr, STEPS: tl.constexpr, DOUBLES: tl.constexpr,
    ):  # fmt: skip
        program = tl.program_id(0).to(tl.int64)
        lane = tl.arange(0, LANES)
        none = tl.zeros((LANES,), tl.uint32)
        s0, s1, s2, s3, s4, s5, s6, s7 = none, none, none, none, none, none, none, none
        s8, s9, s10, s11 = none + 0x61707865, none + 0x3320646E, none + 0x79622D32, none + 0x6B206574
        s12, s13, s14, s15 = (program * LANES + lane).to(tl.uint32), none + key.to(tl.uint32), none, none
        for first in range(0, STEPS, 8):
            at = (program * STEPS + first) * LANES + lane
            s0, s1 = taken(s0, words, at, n), taken(s1, words, at + LANES, n)
            s2, s3 = taken(s2, words, at + 2 * LANES, n), taken(s3, words, at + 3 * LANES, n)
            s4, s5 = taken(s4, words, at + 4 * LANES, n), taken(s5, words, at + 5 * LANES, n)
            s6, s7 = taken(s6, words, at + 6 * LANES, n), taken(s7, words, at + 7 * LANES, n)
            for _ in range(DOUBLES):
                s0, s4, s8, s12 = quarter(s0, s4, s8, s12)
                s1, s5, s9, s13 = quarter(s1, s5, s9, s13)
                s2, s6, s10, s14 = quarter(s2, s6, s10, s14)
                s3, s7, s11, s15 = quarter(s3, s7, s11, s15)
                s0, s5, s10, s15 = quarter(s0, s5, s10, s15)
                s1, s6, s11, s12 = quarter(s1, s6, s11, s12)
                s2, s7, s8, s13 = quarter(s2, s7, s8, s13)
                s3, s4, s9, s14 = quarter(s3, s4, s9, s14)
        to = made + program * 8 * LANES + lane
        tl.store(to, s0.to(tl.int32, bitcast=True))
        tl.store(to + LANES, s1.to(tl.int32, bitcast=True))
        tl.store(to + 2 * LANES, s2.to(tl.int32, bitcast=True))
        tl.store(to + 3 * LANES, s3.to(tl.int32, bitcast=True))
        tl.store(to + 4 * LANES, s4.to(tl.int32, bitcast=True))
        tl.store(to + 5 * LANES, s5.to(tl.int32, bitcast=True))
        tl.store(to + 6 * LANES, s6.to(tl.int32, bitcast=True))
        tl.store(to + 7 * LANES, s7.to(tl.int32, bitcast=True))

    return seal
