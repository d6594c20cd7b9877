"""Which processes has a process started, and are they all gone?"""

import os
import time
from pathlib import Path

from rooflab.footprint import children


def started(pid):
    """When a process was started, by which its number is told from a later process's; None when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def descendants(pid):
    """A process and all that descend from it, as {number: start}."""
    found, waiting = {}, [pid]
    while waiting:
        one = waiting.pop()
        begun = started(one)
        if begun is not None and one not in found:
            found[one] = begun
            waiting += children(one)
    return found


def left(processes):
    """Those of them that still live, with their commands."""
    return {pid: command(pid) for pid, begun in processes.items() if started(pid) == begun}


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return ""


def all_gone(processes, seconds=30):
    """Wait until they are gone; returns what is left then."""
    deadline = time.monotonic() + seconds
    while (there := left(processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return there


def group_of(pid):
    return os.getpgid(pid)
