"""Where does student code run so that it can harm neither the machine, nor the grader, nor another student?

A `Sandbox` is a process that has imported what submissions need. Each `Guest` is forked from it, seals itself off,
and only then calls the entry point that the grader named, with one end of a socket whose other end the grader holds.

>>> Limits(memory_bytes=2**28).memory_bytes // 2**20
256
"""

from .box import Sandbox, probe_level
from .guest import Guest
from .limits import Limits, SandboxUnavailable

__all__ = ["Guest", "Limits", "Sandbox", "SandboxUnavailable", "probe_level"]
