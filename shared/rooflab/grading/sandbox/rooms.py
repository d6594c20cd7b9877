"""What is set aside for one guest before it starts, and given back after its end: a user, and a folder to write in?

>>> own = Room(Plan(inner=True), Path("/x"), own_user=False)
>>> own.scratch, own.uid
('/tmp', None)
>>> own.give_back()
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from . import users
from .plan import Plan
from .seal import variables

__all__ = ["Room", "remove", "server_variables"]

# The keeper and the first process of the PID namespace, which are counted with the guest where users are shared.
_BESIDE = 2


def server_variables(folder: Path, given: Mapping[str, str]) -> dict[str, str]:
    """What a fork server outside bubblewrap needs to know of where it may write."""
    home = folder / "server"
    (home / "home").mkdir(parents=True, exist_ok=True)
    return variables(str(home), given)


def remove(folder: Path) -> None:
    """Remove a folder that guests have written in, however deep they have nested it, whatever they have closed."""
    for command in (["rm", "-rf"], ["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
        subprocess.run([*command, "--", str(folder)], stderr=subprocess.DEVNULL, check=False)
        if not folder.exists():
            break


def _open_the_way(folder: Path) -> None:
    """Let other users pass through the temporary folders above a guest's own, which they can neither list nor read.

    The guest itself may search closed folders where it needs to; a compiler that it starts may not.
    """
    top, own = Path(tempfile.gettempdir()).resolve(), os.geteuid()
    for place in (folder, *folder.parents):
        if place == top or not place.is_relative_to(top) or place.stat().st_uid != own:
            break
        if not place.stat().st_mode & 0o001:
            place.chmod(place.stat().st_mode | 0o011)


class Room:
    """What one guest has for itself.

    Attributes:
        uid: the user it becomes; None to stay who it is.
        scratch: the folder that it may write in, as it sees it.
        processes: the limit on its processes and threads that the kernel is told.
    """

    def __init__(self, plan: Plan, folder: Path, *, own_user: bool) -> None:
        self.uid = users.take_user() if own_user else None
        self._folder: Path | None = None
        self.processes = plan.limits.processes
        self._most_files = plan.limits.files
        if not own_user:
            shared = not plan.inner or users.shared_count()
            self.processes += _BESIDE + (users.processes_of_user() if shared else 0)
        if plan.inner:
            self.scratch = "/tmp"
        else:
            self._folder = Path(tempfile.mkdtemp(prefix="guest-", dir=folder))
            self.scratch = str(self._folder)
            if self.uid is not None:
                os.chown(self._folder, self.uid, self.uid)
                _open_the_way(folder)

    def files_bytes(self) -> int:
        """The bytes of its files on disk; beyond any limit where they are too many."""
        total, seen, waiting = 0, 0, [self.scratch]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        seen += 1
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
            except OSError:  # it has just gone, or its path has become too long to be asked for
                continue
            if seen > self._most_files:
                return 2**63
        return total

    @property
    def on_disk(self) -> bool:
        """Whether its files lie on a disk that all share."""
        return self._folder is not None

    def give_back(self) -> None:
        """Remove its files and let another be its user."""
        if self._folder is not None:
            remove(self._folder)
        if self.uid is not None:
            users.give_back(self.uid)
