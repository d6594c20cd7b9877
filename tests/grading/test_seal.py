"""Who tells a digest first and works later finds no parts of results that belong to it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from rooflab.grading import seal  # noqa: E402
from rooflab.grading.ballast import lead  # noqa: E402
from rooflab.grading.digest import chained, joined, key_of  # noqa: E402
from rooflab.grading.timed import call_key  # noqa: E402

SHARED = Path(__file__).resolve().parents[2] / "shared"
U = np.uint32
FIRST, SECOND = 0x7FEB352D, 0x846CA68B


def undone(x, bits):
    y = x
    for _ in range(32 // bits):
        y = x ^ (y >> U(bits))
    return y


def mixed(x):
    x = (x ^ (x >> U(16))) * U(FIRST)
    x = (x ^ (x >> U(15))) * U(SECOND)
    return x ^ (x >> U(16))


def unmixed(x):
    return undone(undone(undone(x, 16) * U(pow(SECOND, -1, 2**32)), 15) * U(pow(FIRST, -1, 2**32)), 16)


def stepped(state, word):
    one = mixed(state[0] ^ word)
    other = ((state[1] ^ word) + one) * U(SECOND)
    return one, other ^ (other >> U(15))


def steered(words, begin, end):
    """Other last three words, with which a chain ends as one likes."""
    before = begin
    for word in words[:-3]:
        before = stepped(before, word)
    tries = np.arange(2**18, dtype=U)
    one, other = stepped(tuple(np.full(tries.size, part) for part in before), tries)
    before_mix, before_product = unmixed(end[0]), undone(end[1], 15) * U(pow(SECOND, -1, 2**32)) - end[0]
    tried = tries * U(0x9E3779B1)
    wanted = undone(before_mix ^ before_product ^ mixed(tried), 15) * U(pow(SECOND, -1, 2**32)) - mixed(tried)
    _, mine, theirs = np.intersect1d(one ^ other, wanted ^ tried, return_indices=True)
    middle = one[mine[0]] ^ tried[theirs[0]]
    return [*words[:-3], tries[mine[0]], middle, before_mix ^ mixed(tried[theirs[0]])]


def test_a_chain_ends_as_one_likes_and_a_seal_does_not():
    words = torch.randint(-(2**31), 2**31, (256, 128), dtype=torch.int32)
    other, key, wanted = words.clone(), 77, U(12345)
    with np.errstate(over="ignore"):
        column = steered(words[:, 0].numpy().view(U), (U(key), U(key) ^ U(0x5BD1E995)), (wanted, wanted))
    other[:, 0] = torch.from_numpy(np.array(column, U).view(np.int32))
    made = chained(other.reshape(-1), key)
    assert made[0] == made[128] == int(wanted)
    last = other.clone()
    last[:253, 0] ^= 1
    with np.errstate(over="ignore"):
        column = steered(last[:, 0].numpy().view(U), (U(key), U(key) ^ U(0x5BD1E995)), (wanted, wanted))
    last[:, 0] = torch.from_numpy(np.array(column, U).view(np.int32))
    assert torch.equal(chained(last.reshape(-1), key), made), "other words of the same chain"
    told, later = (joined([one.reshape(-1)], key).reshape(8, 128) for one in (other, last))
    assert torch.equal(told[:, 1:], later[:, 1:])
    assert (told[:, 0] != later[:, 0]).all()


def test_the_permutation_is_that_of_chacha(monkeypatch):
    monkeypatch.setattr(seal, "_DOUBLES", 10)
    key = np.arange(32, dtype=np.uint8).view("<u4")
    state = np.array([*seal._BEGIN, *key, 1, 0x09000000, 0x4A000000, 0], U).reshape(16, 1, 1)
    with np.errstate(over="ignore"):
        found = seal._permuted(state) + state
    assert [int(word) for word in found[:4, 0, 0]] == [0xE4E7F110, 0x15593BD1, 0x1FDD0F50, 0xC47120A3]  # RFC 8439


def test_the_kernel_seals_the_same():
    pytest.importorskip("triton", reason="needs Triton")
    code = (
        "import torch; from rooflab.grading import seal\n"
        "for n in (1, 40_001):\n"
        "    words = torch.randint(-2**31, 2**31, (n,), dtype=torch.int32); blocks = -(-n // 32_768)\n"
        "    made = torch.zeros(1024 * blocks, dtype=torch.int32)\n"
        "    seal.seal_kernel()[(blocks,)](words, made, n, 77, 128, 256, 4)\n"
        "    assert torch.equal(made, seal.sealed(words, 77)), n\n"
        "print('same')"
    )
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(SHARED)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout == "same\n", done.stderr[-2000:]


def test_every_word_its_place_and_the_key_count():
    words = torch.arange(40_000, dtype=torch.int32)
    made = seal.sealed(words, 5)
    assert made.numel() == 2048
    changed = words.clone()
    changed[39_999] ^= 1
    assert not torch.equal(made, seal.sealed(changed, 5))
    assert not torch.equal(made, seal.sealed(words.roll(1), 5))
    assert not torch.equal(made, seal.sealed(words, 6))


def test_what_is_read_has_a_key_of_its_own_in_each_call():
    keys = [key_of(call_key(77, call), number) for call in range(256) for number in range(16)]
    assert len({*keys, key_of(77, -1)}) == len(keys) + 1


def test_nothing_that_is_read_in_one_call_is_that_of_another():
    words, calls = torch.arange(5000, dtype=torch.int32), range(4)
    made = [chained(words, key_of(call_key(77, call), number)) for call in calls for number in range(2)]
    made += [lead(words, 77, 0), chained(words, key_of(77, -1))]
    assert len({tuple(one.tolist()) for one in made}) == len(made)
