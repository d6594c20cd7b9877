"""Which system calls does a process lose for ever? (A seccomp filter, put together by hand for two architectures)

Refused calls answer EPERM. Those of other word sizes end the process: their numbers mean other calls.

>>> len(program(alone=True, network=True)) % 8
0
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from . import kernel
from .callnumbers import ARCHITECTURES, CONDITIONAL, NEWEST, REFUSED

__all__ = ["install", "program", "supported"]

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ABOVE, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x25, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000

# All CLONE_NEW* but CLONE_NEWTIME, whose bit means a signal's number in clone(2).
_NEW_NAMESPACES = 0x7E020000
_TTY_INPUT = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX type into the terminal
_OWNERS = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP: whom the kernel signals when there is input
_SET_OWNER = (8, 15, 10)  # F_SETOWN, F_SETOWN_EX, F_SETSIG
_UNIX, _INET, _INET6 = 1, 2, 10
_DATAGRAM = 2  # a bit that neither streams (1) nor sequences of packets (5) have
_CURRENT_PERSONALITY = 0xFFFFFFFF

# Calls whose first argument names a process, 0 being the caller itself.
_NAMES_PROCESS = ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr")
# Those whose first argument says what the second names, and the value that says "a process".
_NAMES_KIND = {"setpriority": 0, "ioprio_set": 1}
_SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")

Filter = list[bytes]


def supported() -> bool:
    """Whether the tables know this machine's system calls."""
    return os.uname().machine in ARCHITECTURES


def install(*, alone: bool, network: bool, local: bool = False, signals: bool = True) -> None:
    """Put the filter on this process and all that it starts; it needs `kernel.no_new_privileges` before.

    Args:
        alone: the process has a PID namespace of its own, so that it can name no other process anyway.
        network: it has a network namespace of its own, so that sockets lead nowhere.
        local: it may open Unix sockets all the same, as the driver of a GPU does when it starts.
        signals: it may send signals to more than itself.

    Raises:
        OSError: the kernel takes no filter.
    """
    words = program(alone=alone, network=network, local=local, signals=signals)
    code = ctypes.create_string_buffer(words, len(words))
    # struct sock_fprog: the number of instructions, and where they are
    header = ctypes.create_string_buffer(struct.pack("@HP", len(words) // 8, ctypes.addressof(code)))
    kernel.prctl(22, 2, header)


def program(*, alone: bool, network: bool, local: bool = False, signals: bool = True) -> bytes:
    """The filter as the kernel takes it: instructions of 8 bytes (linux/filter.h)."""
    column, architecture = ARCHITECTURES.get(os.uname().machine, ARCHITECTURES["x86_64"])
    code = [_load(_ARCHITECTURE), _step(_JUMP_EQUAL, architecture, 1, 0), _step(_RETURN, _KILL), _load(_NUMBER)]
    code += _if(_JUMP_AT_LEAST, _X32, _refuse(errno.ENOSYS)) + _if(_JUMP_ABOVE, NEWEST, _refuse(errno.ENOSYS))
    for numbers in REFUSED.values():
        number = numbers[column]
        if number is not None:
            code += _if(_JUMP_EQUAL, number, _refuse())
    for name, body in _conditions(alone=alone, network=network, local=local, signals=signals).items():
        code += _if(_JUMP_EQUAL, CONDITIONAL[name][column], [*body, _step(_RETURN, _ALLOW)])
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def _conditions(*, alone: bool, network: bool, local: bool, signals: bool) -> dict[str, Filter]:
    """What is asked of the arguments of a call before it is allowed."""
    families = (_UNIX, _INET, _INET6) if network else (_UNIX,) if local else ()
    conditions = {
        "clone": [_argument(0), *_if(_JUMP_ANY_BIT, _NEW_NAMESPACES, _refuse())],
        "clone3": _refuse(errno.ENOSYS),  # its flags lie in memory, out of sight; libraries then call clone
        "ioctl": [_argument(1), *_refuse_equal(*_TTY_INPUT)],
        # Answered as if it were done: a submission keeps to the processors that it was given.
        "sched_setaffinity": _refuse(0),
        "personality": [_argument(0), *_allow_equal(0, _CURRENT_PERSONALITY), *_refuse()],
        "socket": [_argument(0), *_allow_equal(*families), *_refuse()],
    }
    if not families:  # one end of a pair of these can send to any socket that has a path, as the system's log has
        conditions["socketpair"] = [_argument(1), *_if(_JUMP_ANY_BIT, _DATAGRAM, _refuse())]
    if not alone:
        conditions["ioctl"] += _refuse_equal(*_OWNERS)
        conditions["fcntl"] = [_argument(1), *_refuse_equal(*_SET_OWNER)]
        for name in _NAMES_PROCESS:
            conditions[name] = [_argument(0), *_allow_equal(0), *_refuse()]
        for name, process in _NAMES_KIND.items():
            own = [_argument(1), *_allow_equal(0)]
            conditions[name] = [_argument(0), *_if(_JUMP_EQUAL, process, own), *_refuse()]
    if not signals:
        conditions["pidfd_send_signal"] = _refuse()
        for name in _SIGNALS:
            conditions[name] = [_argument(0), *_allow_equal(os.getpid()), *_refuse()]
    return conditions


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _load(offset: int) -> bytes:
    return _step(_LOAD, offset)


def _argument(index: int) -> bytes:
    """Load an argument's lower 32 bits (both architectures are little-endian), all that the kernel reads of an int."""
    return _load(_ARGUMENTS + 8 * index)


def _refuse(error: int = errno.EPERM) -> Filter:
    return [_step(_RETURN, _ERRNO | error)]


def _if(jump: int, value: int, body: Filter) -> Filter:
    return [_step(jump, value, 0, len(body)), *body]


def _refuse_equal(*values: int) -> Filter:
    return [step for value in values for step in _if(_JUMP_EQUAL, value, _refuse())]


def _allow_equal(*values: int) -> Filter:
    return [step for value in values for step in _if(_JUMP_EQUAL, value, [_step(_RETURN, _ALLOW)])]
