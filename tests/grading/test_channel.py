"""Messages between two processes, one of which lies."""

import json
import socket
import struct
import threading
import time

import numpy as np
import pytest

from rooflab.grading.channel import Channel, Ended, Late
from rooflab.grading.codec import NotPlain, Refused


@pytest.fixture
def pair():
    here, there = socket.socketpair()
    yield Channel(here), there
    here.close()
    there.close()


def soon(seconds=60.0):
    return time.monotonic() + seconds


def raw(head, tree, payload=b"", *, text_size=None, blob_size=None):
    text = json.dumps([head, tree]).encode()
    lengths = struct.pack(
        "!IQ", len(text) if text_size is None else text_size, len(payload) if blob_size is None else blob_size
    )
    return lengths + text + payload


def test_large_messages_go_both_ways(pair):
    mine, other = pair
    theirs, value = Channel(other), np.arange(3_000_000)
    sender = threading.Thread(target=lambda: theirs.send({"kind": "done"}, {"x": value}))
    sender.start()
    head, found = mine.receive(limit=2**26, deadline=soon())
    sender.join()
    assert head == {"kind": "done"}
    assert np.array_equal(found["x"], value)


def test_nothing_is_sent_of_what_cannot_be(pair):
    mine, other = pair
    with pytest.raises(NotPlain):
        mine.send({}, [1, object()])
    mine.send({"kind": "next"}, 2)
    assert Channel(other).receive(limit=100, deadline=soon()) == ({"kind": "next"}, 2)


@pytest.mark.parametrize(
    "told",
    [
        raw({}, None, text_size=2**31),
        raw({}, None, blob_size=2**60),
        struct.pack("!IQ", 4, 0) + b"nope",
        struct.pack("!IQ", 4, 0) + b"\xff\xff\xff\xff",
        struct.pack("!IQ", 4, 0) + b"[{}]",
        raw([], 1),
        raw({}, {"~": "pickle"}),
        struct.pack("!IQ", 20_000, 0) + b"[" * 20_000,
        struct.pack("!IQ", 2, 0) + b"{}",
        struct.pack("!IQ", 6_000, 0) + b"[{}," + b"9" * 5_995 + b"]",
    ],
    ids=["long text", "long bytes", "no JSON", "no ASCII", "half", "head", "kind", "deep", "no list", "long number"],
)
def test_lies_are_refused(pair, told):
    mine, other = pair
    other.sendall(told)
    with pytest.raises(Refused):
        mine.receive(limit=2**20, deadline=soon())


def test_an_end_and_a_silence_are_told_apart(pair):
    mine, other = pair
    other.sendall(raw({}, None)[:-1])
    with pytest.raises(Late):
        mine.receive(limit=100, deadline=soon(0.05))
    other.close()
    with pytest.raises(Ended):
        mine.receive(limit=100, deadline=soon())


def test_who_does_not_read_is_not_waited_for(pair):
    mine, _ = pair
    with pytest.raises(Late):
        mine.send({}, bytes(2**24), deadline=soon(0.05))


def test_a_message_that_memory_does_not_hold_is_refused(monkeypatch):
    def full(*args, **kwargs):
        raise MemoryError

    here, there = map(Channel, socket.socketpair())
    here.send({"kind": "done"}, [1])
    monkeypatch.setattr("rooflab.grading.channel.unpack", full)
    with pytest.raises(Refused, match="more memory than there is"):
        there.receive(limit=2**20)
    here.close()
    there.close()
