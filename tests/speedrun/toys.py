"""A text that is learned in seconds, a shape that learns it, and a disk that is full."""

import errno
import hashlib
import io
import os

import numpy as np

from rooflab.speedrun.config import preset
from rooflab.speedrun.data import Corpus

WORDS = 50


def corpus(tokens=40_000, seed=0):
    """Each word is followed by one of two others, so there is much to learn, and one bit that is not."""
    draw = np.random.default_rng(seed)
    coins = draw.integers(0, 2, tokens)
    text = np.zeros(tokens, dtype=np.uint16)
    for place in range(1, tokens):
        text[place] = (3 * text[place - 1] + 7 + coins[place]) % WORDS
    train, valid = text[: tokens * 9 // 10], text[tokens * 9 // 10 :]
    return Corpus("toy", train, valid, WORDS, len(valid), hashlib.sha256(text.tobytes()).hexdigest(), "A toy.")


def config(**changes):
    """Two layers, sixteen tokens."""
    toy = {
        "layers": 2, "width": 32, "heads": 2, "length": 16, "batch": 4, "steps": 30, "eval_tokens": 512, "log_every": 5,
        "lr": 1e-2, "vocabulary": WORDS,
    }  # fmt: skip
    return preset("tiny").change(**(toy | changes))


class Full(io.RawIOBase):
    """A file on a disk that has room for so many bytes more."""

    def __init__(self, handle, room):
        self.file, self.room = io.FileIO(handle, "wb"), room

    def writable(self):
        return True

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= (count := self.file.write(data[: self.room]))
        return count

    def close(self):
        self.file.close()
        super().close()


def full(handle, mode, room=12_000):
    """What `os.fdopen` gives on it."""
    return io.BufferedWriter(Full(handle, room))
