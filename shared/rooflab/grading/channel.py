"""How do two processes exchange messages, one of which does not trust the other?

A message is a head (JSON), a value (see :mod:`rooflab.grading.codec`) and the bytes of its arrays, each with its
length in front. The receiver sets a limit and a deadline; the lengths are checked before anything is allocated.

>>> import socket, time
>>> here, there = map(Channel, socket.socketpair())
>>> here.send({"kind": "call"}, (1, 2.5))
>>> there.receive(limit=2**20, deadline=time.monotonic() + 5)
({'kind': 'call'}, (1, 2.5))
>>> here.close(), there.close()
(None, None)
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from .codec import MOST_ITEMS, Refused, pack, unpack

__all__ = ["Channel", "Ended", "Late"]

_LENGTHS = struct.Struct("!IQ")  # of the text, of the bytes behind it
_MOST_TEXT = 64 * 2**20
_PIECE = 2**20

Handle = Callable[[object], "dict[str, Any] | None"]


class Ended(ConnectionError):
    """The other process has closed its end."""


class Late(TimeoutError):
    """The other process has not answered in time."""


class Channel:
    """One end of a connected stream socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.setblocking(False)

    def send(
        self,
        head: dict[str, Any],
        value: object = None,
        *,
        deadline: float | None = None,
        handle: Handle | None = None,
    ) -> None:
        """Send a message.

        Args:
            head: what kind of message it is; small, for JSON.
            value: plain data.
            deadline: of `time.monotonic`; without it, wait as long as it takes.
            handle: what stands for an object that is no plain data (see :func:`pack`).

        Raises:
            NotPlain, ValueError: the value cannot be sent; nothing has been.
            Ended, Late: the other process is gone, or does not read.
        """
        tree, blobs = pack(value, handle)
        text = json.dumps([head, tree], ensure_ascii=True, separators=(",", ":")).encode("ascii")
        if len(text) > _MOST_TEXT:
            raise ValueError(f"the data is too long: {len(text):,} bytes of numbers and text where {_MOST_TEXT:,} fit")
        for part in (_LENGTHS.pack(len(text), sum(map(len, blobs))) + text, *blobs):
            self._write(part, deadline)

    def receive(
        self, *, limit: int, deadline: float | None = None, handle: Callable[[dict[str, Any]], object] | None = None
    ) -> tuple[dict[str, Any], Any]:
        """Return the next message's head and value.

        Args:
            limit: most bytes of a message.
            deadline: of `time.monotonic`.
            handle: called with each handle in the value (see :func:`unpack`).

        Raises:
            Ended, Late: the other process is gone, or has not sent a whole message.
            Refused: what came is no message; the connection is of no use any more.
        """
        try:
            return self._received(limit, deadline, handle)
        except MemoryError:  # whoever receives has kept what came before
            raise Refused("an answer takes more memory than there is") from None

    def _received(
        self, limit: int, deadline: float | None, handle: Callable[[dict[str, Any]], object] | None
    ) -> tuple[dict[str, Any], Any]:
        text_size, blob_size = _LENGTHS.unpack(self._read(_LENGTHS.size, deadline))
        if text_size > min(limit, _MOST_TEXT) or blob_size > limit:
            raise Refused(f"an answer of {text_size + blob_size:,} bytes is too long: at most {limit:,} are taken")
        text, payload = self._read(text_size, deadline), self._read(blob_size, deadline)
        if text.count(b",") + text.count(b"[") > 4 * MOST_ITEMS:  # far quicker than to parse it
            raise Refused("an answer has too many items")
        try:
            message = json.loads(text.decode("ascii"))
        except (ValueError, RecursionError) as error:
            raise Refused(f"what came is no message ({type(error).__name__})") from None
        if type(message) is not list or len(message) != 2 or type(message[0]) is not dict:
            raise Refused("what came is no message")
        return message[0], unpack(message[1], memoryview(payload), handle)

    def close(self) -> None:
        """Close this end."""
        self.sock.close()

    def _write(self, data: bytes, deadline: float | None) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self.sock.send(view[:_PIECE]) :]
            except BlockingIOError:
                self._wait(writing=True, deadline=deadline)
            except OSError as error:
                raise Ended(f"the other process is gone ({error})") from None

    def _read(self, size: int, deadline: float | None) -> bytearray:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.sock.recv(min(size - len(data), _PIECE))
            except BlockingIOError:
                self._wait(writing=False, deadline=deadline)
                continue
            except OSError as error:
                raise Ended(f"the other process is gone ({error})") from None
            if not piece:
                raise Ended("the other process has closed its end")
            data += piece
            if deadline is not None and time.monotonic() > deadline:  # also of one who never lets us wait
                raise Late("the other process has not answered in time")
        return data

    def _wait(self, *, writing: bool, deadline: float | None) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise Late("the other process has not answered in time")
        if not hasattr(select, "poll"):  # Windows
            mine = [self.sock]
            select.select([] if writing else mine, mine if writing else [], [], left)
            return
        poll = select.poll()
        poll.register(self.sock, select.POLLOUT if writing else select.POLLIN)
        poll.poll(None if left is None else 1000 * left)
