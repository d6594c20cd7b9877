"""What can hold student code on this machine? Found out by trying it, best first.

>>> [way.level for way in ways("landlock")]
['landlock']
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

from . import bubblewrap, landlock, seccomp
from .launch import ForkServer
from .limits import SandboxUnavailable
from .places import Places, needs_search
from .plan import Plan
from .users import own_users

__all__ = ["LEVELS", "REMEDY", "Way", "open_server", "ways"]

LEVELS = ("bubblewrap", "landlock", "none")
REMEDY = (
    "install bubblewrap (Debian: apt install bubblewrap) and allow user namespaces, or use a kernel of version 5.13 or "
    "newer with Landlock switched on"
)


@dataclass(frozen=True)
class Way:
    """One way to hold guests.

    Attributes:
        level: "bubblewrap", "landlock" or "none".
        inner: with namespaces of each guest's own.
        users: with a user of each guest's own, as only root can give.
    """

    level: str
    inner: bool = False
    users: bool = False

    @property
    def outer(self) -> bool:
        """Whether the fork server runs in bubblewrap."""
        return self.level == "bubblewrap"


def ways(level: str = "auto", *, unsafe: bool = False) -> list[Way]:
    """The ways to try, best first.

    Raises:
        ValueError: no level has this name.
    """
    if level not in ("auto", *LEVELS):
        raise ValueError(f"expected a level of the sandbox, one of auto, {', '.join(LEVELS)}; found {level!r}")
    users = own_users()
    known = [
        Way("bubblewrap", inner=True, users=users),
        # Where AppArmor lets bubblewrap make namespaces, but not what runs in it. Not for root: guests would be root,
        # whose processes the kernel does not count.
        *[Way("bubblewrap")] * (not users),
        Way("landlock", users=users),
        Way("none"),
    ]
    if level == "auto":
        return [way for way in known if way.level != "none" or unsafe]
    return [way for way in known if way.level == level]


def open_server(
    way: Way, plan: Plan, shown: Places, *, folder: Path, variables: Mapping[str, str], starter: Executor
) -> tuple[ForkServer, Plan]:
    """Start a fork server that is to hold its guests in this way; returns the plan for them too.

    Raises:
        SandboxUnavailable, ServerGone: this way does not work here.
    """
    if way.level == "bubblewrap" and not bubblewrap.version():
        raise SandboxUnavailable("bubblewrap (the program bwrap) is not installed.")
    abi = landlock.abi_version()
    if (way.level == "landlock" or (way.outer and not way.inner)) and not abi:
        raise SandboxUnavailable("this kernel has no Landlock, or it is switched off.")
    if way.level != "none" and not seccomp.supported():
        raise SandboxUnavailable(f"the table of system calls does not cover {os.uname().machine}.")
    safe = way.level != "none"
    own = () if way.inner else (str(folder),)
    closed = needs_search((*shown.read, *own), with_parents=not way.outer)
    plan = replace(
        plan, inner=way.inner, outer=way.outer, landlock=safe and abi > 0, seccomp=safe, search=way.users and closed,
        read=shown.read, devices=shown.devices,
    )  # fmt: skip
    wrapper: list[str] = []
    if way.outer:
        bubblewrap.prepare(folder)
        wrapper = bubblewrap.command(shown, folder, user=not way.users, writable=None if way.inner else folder)
    server = ForkServer(plan, wrapper, folder=folder, search=shown.search, variables=variables, starter=starter)
    return server, plan
