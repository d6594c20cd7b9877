"""Which files may a process still reach, whatever its user could? (Landlock, a system call of Linux 5.13 and newer)

>>> Rules(read=("/usr",), write=()).read
('/usr',)
>>> 0 <= abi_version() < 1000
True
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from dataclasses import dataclass

from . import kernel

__all__ = ["Rules", "abi_version", "restrict"]

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV = 1 << 6, 1 << 11, 1 << 14, 1 << 15
# ABI -> number of rights to files that it knows; 6 also knows of signals and abstract sockets, 4 of TCP.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_TCP = 3  # bind, connect
_SCOPED = 3  # abstract Unix sockets, signals
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV


@dataclass(frozen=True)
class Rules:
    """What stays open: paths to read and run, folders to write in, devices to read, write and control.

    Paths that do not exist are passed over. Everything else is refused.
    """

    read: tuple[str, ...]
    write: tuple[str, ...]
    devices: tuple[str, ...] = ()


def abi_version() -> int:
    """The version of Landlock that this kernel speaks; 0 where there is none."""
    try:
        return kernel.syscall(_CREATE, 0, 0, 1)
    except OSError:
        return 0


def restrict(rules: Rules) -> int:
    """Restrict this thread and all that it starts, for ever; returns the version of Landlock that does it.

    Raises:
        OSError: this kernel has no Landlock, or it is switched off.
    """
    abi = kernel.syscall(_CREATE, 0, 0, 1)
    rights = (1 << _FILE_RIGHTS[min(abi, 5)]) - 1
    words = [rights, *[_TCP] * (abi >= 4), *[_SCOPED] * (abi >= 6)]
    handled = (ctypes.c_uint64 * len(words))(*words)
    ruleset = kernel.syscall(_CREATE, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    try:
        for path in rules.read:
            _allow(ruleset, path, rights & (_EXECUTE | _READ_FILE | _READ_DIR))
        for path in rules.write:
            _allow(ruleset, path, rights & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV))
        for path in rules.devices:
            _allow(ruleset, path, rights & (_READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV))
        kernel.syscall(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)
    return abi


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= _FOR_FILES
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, handle))
        kernel.syscall(_ADD, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(handle)
