"""What is to be done to every guest of one sandbox? The grader decides; the fork server and its children obey.

>>> Plan.from_dict(Plan(inner=True, read=("/usr",)).to_dict()).read
('/usr',)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .limits import Limits

__all__ = ["Errand", "Plan"]


@dataclass(frozen=True)
class Plan:
    """How guests are held.

    Attributes:
        inner: each guest gets PID, mount, IPC, network and UTS namespaces of its own.
        outer: the fork server runs in bubblewrap.
        landlock: files, TCP, signals and abstract sockets are restricted by Landlock.
        seccomp: system calls are filtered.
        search: guests keep the capability to read beneath folders that are closed to their user: an interpreter in
            root's home. What they may read is then up to Landlock.
        read: paths to read and run.
        devices: device files to read, write and control.
        accelerator: the address space is not limited, because a GPU's driver maps all of its memory.
        entry: ``module:function`` that is called with the channel's descriptor and the argument.
        environment: variables beside those that the sandbox sets.
        limits: of each guest.
    """

    inner: bool = False
    outer: bool = False
    landlock: bool = False
    seccomp: bool = False
    search: bool = False
    read: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    accelerator: bool = False
    entry: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """The plan that `to_dict` was made of, through JSON or not."""
        words = dict(data, limits=Limits(**data["limits"]), read=tuple(data["read"]), devices=tuple(data["devices"]))
        return cls(**words)


@dataclass(frozen=True)
class Errand:
    """What is particular to one guest.

    Attributes:
        scratch: the folder that it may write in.
        uid: the user and group it becomes; None to stay who it is.
        processes: the limit on processes and threads that the kernel is told.
        trial: seal, report, and end, without calling the entry point.
    """

    scratch: str
    uid: int | None
    processes: int
    trial: bool = False
