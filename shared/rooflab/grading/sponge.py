"""Few words that come of many such that nobody finds others of which the same would come, at the speed of the memory.

Who is timed tells a digest when the clock stops, and parts of the results later: of all blocks what has come of them,
and the words of some blocks. So what was told has to bind the rest. Chains of 64 bits that mix word by word do not:
three words that may be anything (what has come of a block that nobody looks at, or numbers that are right if they are
next to 0) make such a chain end as one likes, after 100,000 attempts. Here each of 128 lanes of a block is a sponge:
of 16 words of state 8 take up words and 8 are never seen, and the permutation between is that of ChaCha (Bernstein,
"ChaCha, a variant of Salsa20", 2008): 2 rounds between, for what is as large as the results, or 8, and 8 at the end.

>>> import torch
>>> sponged(torch.arange(2000, dtype=torch.int32), 5, doubles=4, out=8).numel()
1024
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

__all__ = ["BLOCK", "sponge_kernel", "sponged"]

_LANES, _STEPS = 128, 256  # sponges side by side, words that each takes up
BLOCK = _LANES * _STEPS  # words
_RATE = 8  # words that a sponge takes up at a time
_LAST = 3  # double rounds more at the end
_BEGIN = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
tl: Any = None  # triton.language and parts of the kernel, once there is something to hash on a GPU
quarter: Any = None
doubled: Any = None
taken: Any = None


def sponged(words: Any, key: int, first: int = 0, *, doubles: int, out: int, keep: Any = None, passes: int = 1) -> Any:
    """Return a few words for each 256 of these; nobody waits for the device.

    Args:
        words: of 32 bits, on any device.
        key: below 2^31.
        first: the number of the block that the words begin with.
        doubles: double rounds between 8 words and the next.
        out: how many words come of each sponge, 2 or 8.
        keep: where to copy the words to on the way, if anywhere: words are read once for both.
        passes: over all words; in each, a sponge goes on with the next block, so that it is memory that it waits for.
    """
    import torch

    blocks, size = -(-words.numel() // BLOCK), words.numel()
    if words.is_cuda:
        made = torch.empty(out * blocks * _LANES, dtype=torch.int32, device=words.device)
        copy, shape = (words if keep is None else keep), (_LANES, _STEPS, doubles, _LAST, out)
        sponge_kernel()[(blocks,)](words, copy, made, size, key, first, blocks, passes, keep is not None, *shape)
        return made
    if keep is not None:
        keep.copy_(words)
    padded = np.zeros((blocks, _STEPS // _RATE, _RATE, _LANES), np.uint32)
    padded.reshape(-1)[:size] = words.numpy().view(np.uint32)
    state = np.zeros((16, blocks, _LANES), np.uint32)
    state[8:12] = np.array(_BEGIN, np.uint32)[:, None, None]
    state[12] = first * _LANES + np.arange(blocks * _LANES, dtype=np.uint32).reshape(blocks, _LANES)
    state[13] = key
    for turn in range(passes):
        turned = np.roll(padded, -turn, 0) if turn else padded
        for part in range(_STEPS // _RATE):
            state[:_RATE] ^= turned[:, part].transpose(1, 0, 2)
            state = _permuted(state, doubles)
    made = np.ascontiguousarray(_permuted(state, _LAST)[:out].transpose(1, 0, 2)).reshape(-1)
    return torch.from_numpy(made.view(np.int32))


def _permuted(state: np.ndarray[Any, Any], doubles: int) -> np.ndarray[Any, Any]:
    """ChaCha's permutation of 16 words: columns, then diagonals."""
    a, b, c, d = (state[first : first + 4] for first in (0, 4, 8, 12))
    for _ in range(doubles):
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
    global tl, quarter, doubled, taken
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
    def doubled(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15):  # type: ignore[no-untyped-def]
        s0, s4, s8, s12 = quarter(s0, s4, s8, s12)
        s1, s5, s9, s13 = quarter(s1, s5, s9, s13)
        s2, s6, s10, s14 = quarter(s2, s6, s10, s14)
        s3, s7, s11, s15 = quarter(s3, s7, s11, s15)
        s0, s5, s10, s15 = quarter(s0, s5, s10, s15)
        s1, s6, s11, s12 = quarter(s1, s6, s11, s12)
        s2, s7, s8, s13 = quarter(s2, s7, s8, s13)
        s3, s4, s9, s14 = quarter(s3, s4, s9, s14)
        return s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15

    @triton.jit
    def taken(state, words, copy, at, n, KEEP: tl.constexpr):  # type: ignore[no-untyped-def]
        raw = tl.load(words + at, mask=at < n, other=0)
        if KEEP:
            tl.store(copy + at, raw, mask=at < n)
        return state ^ raw.to(tl.uint32, bitcast=True)


@functools.cache
def sponge_kernel() -> Any:
    """Return what :func:`sponged` does, in Triton, which is loaded only where there is something to time."""
    import triton

    _load_parts()

    # Triton compiles anew for a number that is 1 or that 16 divides: a key would do so in the middle of a timed call.
    @triton.jit(do_not_specialize=["n", "key", "start", "blocks", "passes"])
    def sponge(  # type: ignore[no-untyped-def]
        words, copy, made, n, key, start, blocks, passes, KEEP: tl.constexpr, LANES: tl.constexpr, STEPS: tl.constexpr,
        DOUBLES: tl.constexpr, LAST: tl.constexpr, OUT: tl.constexpr,
    ):  # fmt: skip
        program = tl.program_id(0).to(tl.int64)
        lane = tl.arange(0, LANES)
        none = tl.zeros((LANES,), tl.uint32)
        s0, s1, s2, s3, s4, s5, s6, s7 = none, none, none, none, none, none, none, none
        s8, s9, s10, s11 = none + 0x61707865, none + 0x3320646E, none + 0x79622D32, none + 0x6B206574
        s12, s13, s14, s15 = ((start + program) * LANES + lane).to(tl.uint32), none + key.to(tl.uint32), none, none
        for turn in range(passes):
            block = (program + turn) % blocks
            for first in range(0, STEPS, 16):
                for half in tl.static_range(2):  # the loads of both are under way together
                    at = (block * STEPS + first + 8 * half) * LANES + lane
                    s0 = taken(s0, words, copy, at, n, KEEP)
                    s1 = taken(s1, words, copy, at + LANES, n, KEEP)
                    s2 = taken(s2, words, copy, at + 2 * LANES, n, KEEP)
                    s3 = taken(s3, words, copy, at + 3 * LANES, n, KEEP)
                    s4 = taken(s4, words, copy, at + 4 * LANES, n, KEEP)
                    s5 = taken(s5, words, copy, at + 5 * LANES, n, KEEP)
                    s6 = taken(s6, words, copy, at + 6 * LANES, n, KEEP)
                    s7 = taken(s7, words, copy, at + 7 * LANES, n, KEEP)
                    for _ in range(DOUBLES):
                        s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15 = doubled(
                            s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15
                        )
        for _ in range(LAST):
            s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15 = doubled(
                s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15
            )
        to = made + program * OUT * LANES + lane
        tl.store(to, s0.to(tl.int32, bitcast=True))
        tl.store(to + LANES, s1.to(tl.int32, bitcast=True))
        if OUT > 2:
            tl.store(to + 2 * LANES, s2.to(tl.int32, bitcast=True))
            tl.store(to + 3 * LANES, s3.to(tl.int32, bitcast=True))
            tl.store(to + 4 * LANES, s4.to(tl.int32, bitcast=True))
            tl.store(to + 5 * LANES, s5.to(tl.int32, bitcast=True))
            tl.store(to + 6 * LANES, s6.to(tl.int32, bitcast=True))
            tl.store(to + 7 * LANES, s7.to(tl.int32, bitcast=True))

    return sponge
