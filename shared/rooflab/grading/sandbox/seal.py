"""How does a process give up, step by step, all that student code must not have?

The steps are taken in children of the fork server, before any student code; one that fails ends the child.

>>> variables("/tmp", {"LANG": "C"})["HOME"]
'/tmp/home'
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

from . import kernel, landlock, seccomp
from .plan import Errand, Plan

__all__ = ["enter_namespaces", "seal", "variables"]

_NAMESPACES = ("PID", "mount", "IPC", "network", "UTS")
_OPEN_TREE, _CLONE_TREE = 428, 0x80001  # and close on exec
_MOVE_MOUNT, _FROM_DESCRIPTOR = 429, 4
_KEEP_CAPABILITIES = 8
_SEARCH = 2  # CAP_DAC_READ_SEARCH
_OPEN_FILES = 256
_CPU_MARGIN_S = 5


def variables(scratch: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that depend on where a process may write, and those of the caller, who has the last word."""
    home = f"{scratch}/home"
    return {
        "HOME": home,
        "TMPDIR": scratch,
        "XDG_CACHE_HOME": f"{home}/.cache",
        "XDG_CONFIG_HOME": f"{home}/.config",
        "MPLCONFIGDIR": f"{home}/.config/matplotlib",
        "IPYTHONDIR": f"{home}/.ipython",
    } | dict(environment)


def enter_namespaces(plan: Plan, errand: Errand) -> None:
    """Leave the namespaces of the fork server; children are in the new PID namespace, this process stays outside.

    A user without privileges first becomes the one user of a user namespace. What is left of the file system is
    read-only but for an empty folder of limited size at ``/tmp`` and one at ``/dev/shm``.
    """
    user, group = os.geteuid(), os.getegid()
    if errand.uid is None:
        kernel.unshare(("user", *_NAMESPACES))
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    else:
        kernel.unshare(_NAMESPACES)
        user = group = errand.uid
    kernel.write_protect("/")
    hidden = {path: _take(path) for path in plan.read if path.startswith("/tmp/")}
    disk, files = plan.limits.disk_bytes, plan.limits.files
    kernel.tmpfs("/tmp", disk, files=files, owner=user, group=group)
    kernel.tmpfs("/dev/shm", max(disk // 4, 2**20), files=files, owner=user, group=group)
    for path, tree in hidden.items():
        _put(tree, path)


def _take(path: str) -> int:
    """What is mounted at a path, apart from where it is mounted."""
    return kernel.syscall(_OPEN_TREE, -100, path.encode(), _CLONE_TREE | 0x8000)


def _put(tree: int, path: str) -> None:
    """Put what was taken beneath the new ``/tmp``, through folders that all may pass."""
    target = Path(path)
    before = os.umask(0o022)
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.isdir(f"/proc/self/fd/{tree}"):
        target.mkdir()
    else:
        target.touch()
    os.umask(before)
    kernel.syscall(_MOVE_MOUNT, tree, b"", -100, path.encode(), _FROM_DESCRIPTOR)
    os.close(tree)


def seal(plan: Plan, errand: Errand) -> dict[str, Any]:
    """Give up everything; returns what holds this process from now on.

    Raises:
        OSError: a step failed; the process must not go on.
    """
    if plan.inner:
        kernel.mount("proc", "/proc", "proc", flags=2 | 4 | 8)
    _limit(plan, errand)
    _become(plan, errand)
    _settle(plan, errand)
    kernel.no_new_privileges()
    told: dict[str, Any] = {
        "uid": os.getuid(),
        "users": errand.uid is not None,
        "namespaces": plan.inner,
        "landlock": 0,
        "seccomp": False,
    }
    if plan.landlock:
        told["landlock"] = landlock.restrict(_rules(plan, errand))
    if plan.seccomp:
        # Below version 6 Landlock lets a process signal every other of its user.
        signals = plan.inner or told["landlock"] >= 6
        seccomp.install(alone=plan.inner, network=plan.inner, local=plan.accelerator, signals=signals)
        told["seccomp"] = True
    kernel.set_dumpable(True)  # its own /proc/self is otherwise closed to it; others are held off by the above
    return told


def _limit(plan: Plan, errand: Errand) -> None:
    import resource  # absent on Windows, where this package can be imported all the same

    limits = plan.limits
    seconds = ceil(limits.total_s) * (os.cpu_count() or 1) + _CPU_MARGIN_S
    values = {
        resource.RLIMIT_NPROC: errand.processes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_MEMLOCK: 0,
    }
    if not plan.accelerator:
        values[resource.RLIMIT_AS] = kernel.mapped_bytes() + limits.memory_bytes
    else:
        del values[resource.RLIMIT_MEMLOCK]  # buffers that a GPU reads are locked
    for kind, value in values.items():
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def _become(plan: Plan, errand: Errand) -> None:
    keep = (_SEARCH,) if plan.search and errand.uid is not None else ()
    if os.geteuid() == 0 or (plan.inner and errand.uid is None):  # there are capabilities to lose
        with contextlib.suppress(PermissionError):  # it was not among them; none can be gained without it
            kernel.drop_bounds(keep)
    if errand.uid is not None:
        kernel.prctl(_KEEP_CAPABILITIES, 1)
        os.setgroups([])
        os.setresgid(errand.uid, errand.uid, errand.uid)
        os.setresuid(errand.uid, errand.uid, errand.uid)
    if plan.landlock or plan.inner or errand.uid is not None:
        kernel.drop_capabilities(keep)


def _settle(plan: Plan, errand: Errand) -> None:
    """Make the folders, and what this process knows of its surroundings, those of the guest."""
    for name in ("home", "work"):
        Path(errand.scratch, name).mkdir(exist_ok=True)
    os.chdir(f"{errand.scratch}/work")
    os.environ.update(variables(errand.scratch, plan.environment))
    tempfile.tempdir = None
    torch = sys.modules.get("torch")
    threads = plan.environment.get("OMP_NUM_THREADS", "")
    if torch is not None and threads.isdecimal():
        torch.set_num_threads(int(threads))


def _rules(plan: Plan, errand: Errand) -> landlock.Rules:
    # A GPU's driver names its threads, by writing to /proc/self.
    named = ("/proc/self",) if plan.accelerator else ()
    if plan.inner:  # the whole tree was made for guests, and these processes are its own
        return landlock.Rules(
            read=("/",),
            write=("/tmp", "/dev/shm", *named),
            devices=(*plan.devices, "/dev/ptmx", "/dev/pts", "/dev/tty"),
        )
    own = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm/overcommit_memory")
    extra = ("/proc/driver", "/proc/devices", "/proc/modules") if plan.accelerator else ()
    made_up = ("/etc/passwd", "/etc/group") if plan.outer else ()
    return landlock.Rules(
        read=(*plan.read, *own, *extra, *made_up), write=(errand.scratch, *named), devices=plan.devices
    )
