"""How do the grader and its fork server tell each other something, with descriptors?

>>> import socket
>>> ours, theirs = socket.socketpair()
>>> send(ours, {"a": 1})
>>> receive(theirs)
({'a': 1}, [])
>>> ours.close(), theirs.close()
(None, None)
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterable
from typing import Any

__all__ = ["receive", "send", "sender"]

_HEADER = struct.Struct("=Q")
_MOST_DESCRIPTORS = 8
_CREDENTIALS = struct.Struct("@iII")


def send(connection: socket.socket, message: object, descriptors: Iterable[int] = ()) -> None:
    """Send one message that JSON can hold, and descriptors with it."""
    body = json.dumps(message).encode()
    socket.send_fds(connection, [_HEADER.pack(len(body))], list(descriptors))
    connection.sendall(body)


def receive(connection: socket.socket) -> tuple[Any, list[int]]:
    """The next message and its descriptors, which programs started from here do not inherit.

    Raises:
        EOFError: the other side is gone.
    """
    flags = socket.MSG_WAITALL | socket.MSG_CMSG_CLOEXEC
    head, descriptors, _, _ = socket.recv_fds(connection, _HEADER.size, _MOST_DESCRIPTORS, flags)
    try:
        if len(head) < _HEADER.size:
            raise EOFError("the other side is gone")
        body = bytearray()
        (length,) = _HEADER.unpack(head)
        while len(body) < length:
            part = connection.recv(min(length - len(body), 2**20))
            if not part:
                raise EOFError("the other side is gone")
            body += part
        return json.loads(body), descriptors
    except BaseException:
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        raise


def sender(connection: socket.socket, most: int = 65536) -> tuple[bytes, int]:
    """One datagram and the process that sent it, as this PID namespace numbers it; (b"", 0) at the end.

    The number comes from the kernel; ``connection`` needs SO_PASSCRED.
    """
    data, extra, _, _ = connection.recvmsg(most, socket.CMSG_SPACE(_CREDENTIALS.size), socket.MSG_DONTWAIT)
    for level, kind, content in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return data, _CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0]
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):  # nobody has a reason to send any
            for descriptor in array.array("i", content[: len(content) // 4 * 4]):
                os.close(descriptor)
    return data, 0
