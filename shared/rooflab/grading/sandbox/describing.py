"""What holds the guests of a sandbox, and what does not, in one sentence for the instructor?

>>> sentence(Plan(), {"uid": 1000}, threads=1)
'nothing but limits of resources (unsafe): submissions can read, change and send away whatever this user can'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import bubblewrap
from .plan import Plan

__all__ = ["sentence"]


def sentence(plan: Plan, held: Mapping[str, Any], *, threads: int) -> str:
    """Describe how guests are held.

    Args:
        plan: what was wanted.
        held: what a guest that sealed itself has reported.
        threads: of the fork server.
    """
    if not (plan.landlock or plan.seccomp):
        return (
            "nothing but limits of resources (unsafe): submissions can read, change and send away whatever this user "
            "can"
        )
    parts, missing = [], []
    if plan.outer:
        parts.append(f"bubblewrap {bubblewrap.version()}")
    if plan.inner:
        parts[-1] += " with " + ("" if held["users"] else "user, ") + "PID, mount, IPC, network and UTS namespaces"
    else:
        missing.append("namespaces for each submission" if plan.outer else "namespaces")
    abi = held.get("landlock", 0)
    if abi:
        parts.append(f"Landlock ABI {abi}")
        if abi < 4 and not plan.outer:
            missing.append("Landlock's rules for TCP (seccomp refuses sockets)")
        if abi < 6 and not plan.inner:
            missing.append("Landlock's rules for signals (seccomp refuses them)")
    else:
        missing.append("Landlock")
    parts.append("seccomp")
    parts.append(f"uid {held['uid']}" if held["users"] else "the grader's own user")
    if plan.search:
        parts.append("reading beneath closed folders allowed")
    if threads > 1:
        missing.append(f"a single-threaded fork server (it has {threads} threads after its imports)")
    if plan.accelerator:
        missing.append("a limit on the address space")
    return "; ".join(parts) + (f"; missing: {', '.join(missing)}" if missing else "")
