"""What does the command look like that runs the fork server in a file system of its own?

>>> words = command(Places(read=("/usr",), search=(), devices=()), Path("/x"), user=True)
>>> words[words.index("/usr") - 1 :][:3]
['--ro-bind', '/usr', '/usr']
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from .places import DEVICES, Places

__all__ = ["command", "prepare", "version"]

# What the fork server needs to hold its guests: mounts and namespaces, another user for each, and to end them.
_CAPABILITIES = (
    "CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH",
)  # fmt: skip
_PASSWD = "root:x:0:0::/:/bin/false\nnobody:x:65534:65534::/:/bin/false\n"
_GROUP = "root:x:0:\nnogroup:x:65534:\n"


def version() -> str:
    """The version of bubblewrap, as in "0.8.0"; empty where it is not installed."""
    try:
        told = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.split()[-1] if told.strip() else ""


def prepare(folder: Path) -> None:
    """Write the made-up lists of users and groups that guests see."""
    (folder / "passwd").write_text(_PASSWD, encoding="ascii")
    (folder / "group").write_text(_GROUP, encoding="ascii")


def command(places: Places, folder: Path, *, user: bool, writable: Path | None = None) -> list[str]:
    """The command line up to the program to run.

    Args:
        places: what is to be seen.
        folder: holds what `prepare` wrote.
        user: with a user namespace, as for anybody; without, as root may, so that guests can be given other users.
        writable: a folder for guests that cannot have folders of their own in memory.
    """
    words = ["bwrap", "--die-with-parent", "--new-session", "--hostname", "sandbox", "--chdir", "/"]
    words += [f"--unshare-{name}" for name in ("pid", "ipc", "net", "uts", "cgroup-try")]
    if user:
        words += ["--unshare-user"]
    else:
        words += ["--cap-drop", "ALL", *(word for name in _CAPABILITIES for word in ("--cap-add", name))]
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/tmp/home"]
    # Those that bubblewrap makes by itself are open to one user only.
    parents = {parent for path in places.read for parent in Path(path).parents} - {Path("/"), Path("/tmp")}
    for path in sorted(map(str, parents)):
        words += ["--perms", "0755", "--dir", path]
    for path in places.read:
        words += ["--ro-bind", os.path.realpath(path), path]
    for path in places.devices:
        if path not in DEVICES:
            words += ["--dev-bind-try", path, path]
    for name in ("passwd", "group"):
        words += ["--ro-bind", str(folder / name), f"/etc/{name}"]
    if writable is not None:
        words += ["--bind", str(writable), str(writable)]
    return [*words, "--remount-ro", "/", "--"]
