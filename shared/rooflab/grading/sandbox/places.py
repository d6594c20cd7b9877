"""Which files does Python need, and under which names, where nothing else of the machine is to be seen?

The standard library and the installed packages, whatever folders they lie in; never the folder that the grader works
in, nor anything that merely happens to lie beside the package.

>>> found = places()
>>> "/usr" in found.read, "" in found.search
(True, False)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from glob import glob
from pathlib import Path

__all__ = ["DEVICES", "Places", "accelerator_devices", "needs_search", "places"]

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/sys/devices/system")
ETC = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/fonts", "/etc/localtime",
    "/etc/mime.types", "/etc/OpenCL",
)  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_ACCELERATOR = ("/dev/nvidia*", "/dev/dri", "/dev/kfd", "/dev/accel*", "/dev/vfio")
# Of an environment of Python: its own folders, not what else lies in the folder that it was made in.
_PREFIX = ("bin", "lib", "lib64", "libexec", "share", "pyvenv.cfg")
_PACKAGE = Path(__file__).resolve().parents[2]  # rooflab itself


@dataclass(frozen=True)
class Places:
    """What a sandbox shows.

    Attributes:
        read: absolute paths to read and run, none beneath another.
        search: what ``sys.path`` is to be.
        devices: device files to read, write and control.
    """

    read: tuple[str, ...]
    search: tuple[str, ...]
    devices: tuple[str, ...]


def places(
    read_only: Iterable[Path | str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    accelerator: bool = False,
    hidden: Iterable[Path | str] = (),
) -> Places:
    """Collect what a fork server needs to import what this process can import.

    Args:
        read_only: further files and folders to show.
        environment: variables of the guests; the folders of its PYTHONPATH are shown and searched too.
        accelerator: show GPUs as well, and what their libraries read of the system.
        hidden: what is not to be seen, as the course: folders to search for modules that hold it are left out.

    Raises:
        FileNotFoundError: something of ``read_only`` does not exist.
    """
    given = [Path(path).absolute() for path in read_only]
    for path in given:
        if not path.exists():
            raise FileNotFoundError(f"There is no {path} to show to submissions: check the paths given as read_only.")
    more = [path for path in (environment or {}).get("PYTHONPATH", "").split(os.pathsep) if path]
    secret = [Path(path).resolve() for path in hidden]
    search = [os.path.abspath(path) for path in sys.path if _is_shown(path) and not _holds(path, secret)] + more
    wanted: list[Path | str] = [*SYSTEM, *ETC, *given, *more, _PACKAGE, sys.executable]
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}:
        wanted += [Path(prefix, name) for name in _PREFIX]
    # Beside the package may lie anything: its parent is searched, and shows nothing but the package.
    wanted += [path for path in search if Path(path).resolve() != _PACKAGE.parent or _is_installed(path)]
    if accelerator:
        wanted += ["/sys", "/etc/vulkan", "/etc/nvidia", "/run/nvidia-persistenced"]
    devices = (*DEVICES, *(accelerator_devices() if accelerator else ()))
    return Places(read=_outermost(wanted), search=tuple(dict.fromkeys(search)), devices=devices)


def accelerator_devices() -> tuple[str, ...]:
    """The device files of GPUs and TPUs."""
    return tuple(sorted(path for pattern in _ACCELERATOR for path in glob(pattern)))


def _is_installed(path: str) -> bool:
    return bool({"site-packages", "dist-packages"} & set(Path(path).parts))


def _is_shown(path: str) -> bool:
    """Whether a folder of ``sys.path`` holds installed code, and not what the grader is working on."""
    if not path or not Path(path).exists():
        return False
    folder, here = Path(path).resolve(), Path.cwd().resolve()
    if _is_installed(path) or folder == _PACKAGE.parent or folder.is_relative_to(Path(sys.base_prefix).resolve()):
        return True
    return folder != here and folder not in here.parents and here not in folder.parents


def _holds(path: str, secret: list[Path]) -> bool:
    """Whether a folder that would be shown holds what is not to be seen; of the package's parent no more is shown."""
    folder = Path(path).resolve()
    return folder != _PACKAGE.parent and any(each.is_relative_to(folder) for each in secret)


def _names(path: Path) -> list[str]:
    """A path as it was written, and every other spelling of it that its links lead through."""
    names = [str(path)]
    for _ in range(40):  # as many links as the kernel follows
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
        path = Path(os.path.normpath(path))
        names.append(str(path))
    return [*names, str(path.resolve())]


def _outermost(paths: Iterable[Path | str]) -> tuple[str, ...]:
    """Existing paths in all their spellings, without those that lie beneath another."""
    names = {name for path in paths if os.path.exists(path) for name in _names(Path(os.path.normpath(path)))}
    kept: list[str] = []
    for name in sorted(names):  # a folder comes before what it holds
        if not any(name.startswith(other.rstrip("/") + "/") for other in kept):
            kept.append(name)
    return tuple(kept)


def needs_search(read: Iterable[str], *, with_parents: bool) -> bool:
    """Whether other users may not read some of these paths, as in a home folder that is closed to them.

    Args:
        read: the paths, as of `Places`.
        with_parents: look at the folders above too, where the machine's own tree is used.
    """
    for name in read:
        path = Path(name)
        mode = path.stat().st_mode
        if not mode & 0o004 or (path.is_dir() and not mode & 0o001):
            return True
        if with_parents and any(not parent.stat().st_mode & 0o001 for parent in path.resolve().parents):
            return True
    return False
