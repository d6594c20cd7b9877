"""Who tells a digest first and works later finds no parts of results that belong to it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from rooflab.grading import sponge  # noqa: E402
from rooflab.grading.ballast import lead  # noqa: E402
from rooflab.grading.digest import chained, key_of  # noqa: E402
from rooflab.grading.timed import call_key  # noqa: E402

SHARED = Path(__file__).resolve().parents[2] / "shared"


def test_the_permutation_is_that_of_chacha():
    key = np.arange(32, dtype=np.uint8).view("<u4")
    state = np.array([*sponge._BEGIN, *key, 1, 0x09000000, 0x4A000000, 0], np.uint32).reshape(16, 1, 1)
    found = sponge._permuted(state, 10) + state
    assert [int(word) for word in found[:4, 0, 0]] == [0xE4E7F110, 0x15593BD1, 0x1FDD0F50, 0xC47120A3]  # RFC 8439


def test_the_kernel_gives_the_same():
    pytest.importorskip("triton", reason="needs Triton")
    code = (
        "import torch; from rooflab.grading import sponge\n"
        "for n, doubles, out, keep, passes in ((1, 4, 8, 0, 1), (40_001, 1, 2, 0, 3), (40_001, 1, 2, 1, 1)):\n"
        "    words = torch.randint(-2**31, 2**31, (n,), dtype=torch.int32); blocks = -(-n // 32_768)\n"
        "    made, copy = torch.zeros(out * 128 * blocks, dtype=torch.int32), torch.zeros_like(words)\n"
        "    shape = (bool(keep), 128, 256, doubles, 3, out)\n"
        "    sponge.sponge_kernel()[(blocks,)](words, copy, made, n, 77, 3, blocks, passes, *shape)\n"
        "    assert torch.equal(made, sponge.sponged(words, 77, 3, doubles=doubles, out=out, passes=passes)), n\n"
        "    assert torch.equal(copy, words if keep else torch.zeros_like(words)), n\n"
        "print('same')"
    )
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(SHARED)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300)
    assert done.stdout == "same\n", done.stderr[-2000:]


def test_every_word_its_place_the_block_and_the_key_count():
    words = torch.arange(40_000, dtype=torch.int32)
    made = chained(words, 5)
    assert made.numel() == 512
    changed = words.clone()
    changed[39_999] ^= 1
    others = [chained(changed, 5), chained(words.roll(1), 5), chained(words, 6), chained(words, 5, 1)]
    assert not any(torch.equal(made, other) for other in [*others, chained(words, 5, passes=2)])
    assert torch.equal(made[256:], chained(words[32_768:], 5, 1))


def test_free_words_do_not_steer_a_sponge():
    """Each word that changes leaves no word of the state as it was, seen or not."""
    state = np.random.default_rng(0).integers(0, 2**32, (16, 1, 1000), dtype=np.uint32)
    for word in range(8):
        other = state.copy()
        other[word] ^= 1
        changed = sponge._permuted(state, 1) ^ sponge._permuted(other, 1)
        assert (changed != 0).mean() > 0.99


def test_what_is_read_has_a_key_of_its_own_in_each_call():
    keys = [key_of(call_key(77, call), number) for call in range(256) for number in range(16)]
    assert len({*keys, key_of(77, -1)}) == len(keys) + 1


def test_nothing_that_is_read_in_one_call_is_that_of_another():
    words, calls = torch.arange(5000, dtype=torch.int32), range(4)
    made = [chained(words, key_of(call_key(77, call), number)) for call in calls for number in range(2)]
    made += [lead(words, 77, 1), chained(words, key_of(77, -1))]
    assert len({tuple(one.tolist()) for one in made}) == len(made)
