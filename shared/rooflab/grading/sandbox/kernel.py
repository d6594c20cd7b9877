"""Which system calls does the sandbox need that Python has no function for?

Every one raises OSError with the kernel's reason, so that a step of the sealing that fails is never passed over.

>>> mapped_bytes() > 2**20
True
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

__all__ = [
    "become_subreaper", "drop_bounds", "drop_capabilities", "mapped_bytes", "mount", "no_new_privileges", "prctl",
    "set_dumpable", "syscall", "tmpfs", "unshare", "write_protect",
]  # fmt: skip

# name -> flag of clone(2) and unshare(2)
NAMESPACES = {
    "user": 0x10000000,
    "PID": 0x20000000,
    "mount": 0x00020000,
    "IPC": 0x08000000,
    "network": 0x40000000,
    "UTS": 0x04000000,
}
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_SUBREAPER, _PR_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 4, 24, 36, 38, 47
_AMBIENT_RAISE, _AMBIENT_CLEAR = 2, 4
_MOUNT_SETATTR, _AT_RECURSIVE = 442, 0x8000
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522


@cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def syscall(number: int, *arguments: object) -> int:
    """Make a system call; integers are passed as 64 bits.

    Raises:
        OSError: what the kernel answered.
    """
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _checked(_libc().syscall(ctypes.c_long(number), *wide), f"system call {number}")


def _checked(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def prctl(option: int, *arguments: object) -> int:
    """Make a prctl(2) call; arguments that are not given are 0."""
    wide = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(_libc().prctl(ctypes.c_int(option), *wide), f"prctl({option})")


def set_dumpable(on: bool) -> None:
    """Whether the memory and the files of ``/proc`` of this process are open to others of the same user."""
    prctl(_PR_SET_DUMPABLE, int(on))


def become_subreaper() -> None:
    """Become the parent of all descendants whose own parents end, so that none gets away."""
    prctl(_PR_SET_SUBREAPER, 1)


def no_new_privileges() -> None:
    """Let no program that is started from here on gain anything: setuid bits count for nothing."""
    prctl(_PR_NO_NEW_PRIVS, 1)


def unshare(names: tuple[str, ...]) -> None:
    """Move into new namespaces; the new PID namespace is entered by the next child."""
    flags = sum(NAMESPACES[name] for name in names)
    _checked(_libc().unshare(ctypes.c_int(flags)), f"unshare({', '.join(names)})")


def mount(source: str, target: str, kind: str = "", *, flags: int = 0, options: str = "") -> None:
    """Mount one thing; see mount(2)."""
    words = [word.encode() or None for word in (source, target, kind)]
    done = _libc().mount(*words, ctypes.c_ulong(flags), options.encode() or None)
    _checked(done, f"mount of {kind or source} on {target}")


def tmpfs(target: str, size_bytes: int, *, files: int, owner: int, group: int) -> None:
    """Put an empty folder of limited size, which only its owner may enter, in place of ``target``."""
    options = f"size={size_bytes},nr_inodes={files},mode=700,uid={owner},gid={group}"
    mount("tmpfs", target, "tmpfs", flags=MS_NOSUID | MS_NODEV, options=options)


def write_protect(target: str) -> None:
    """Make everything that is mounted at or beneath ``target`` read-only, here and in no other mount namespace."""

    wanted = (ctypes.c_uint64 * 4)(MS_RDONLY, 0, MS_PRIVATE, 0)  # to set, to clear, propagation, user namespace
    syscall(_MOUNT_SETATTR, -100, target.encode(), _AT_RECURSIVE, ctypes.byref(wanted), ctypes.sizeof(wanted))


def drop_capabilities(keep: tuple[int, ...] = ()) -> None:
    """Give up every capability but ``keep``, for this process and what it starts; call it after the last setuid.

    Args:
        keep: numbers of capabilities that are held now; programs that are started keep them too.
    """
    bits = sum(1 << number for number in keep)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # effective, permitted, inheritable: low words, then high words
    data = (ctypes.c_uint32 * 6)(bits, bits, bits, 0, 0, 0)
    syscall(_CAPSET[os.uname().machine], ctypes.byref(header), ctypes.byref(data))
    prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR)
    for number in keep:
        prctl(_PR_CAP_AMBIENT, _AMBIENT_RAISE, number)


def drop_bounds(keep: tuple[int, ...] = ()) -> None:
    """Let no program gain a capability that is not in ``keep``; without the right to do so there is none to gain."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text(encoding="ascii"))
    for number in range(last + 1):
        if number not in keep:
            prctl(_PR_CAPBSET_DROP, number)


def mapped_bytes() -> int:
    """The address space that this process has mapped."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")
