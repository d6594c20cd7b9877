"""Where does student code run so that it can harm neither the machine, nor the grader, nor another student?

A `Sandbox` is a process that has imported what submissions need. Each `Guest` is forked from it, seals itself off,
and only then calls the entry point that the grader named, with one end of a socket whose other end the grader holds.

Two layers hold a guest. Outside, bubblewrap gives the fork server a file system that shows Python and nothing else.
Inside, each guest has namespaces, a user (where the grader is root), Landlock, a system call filter and limits of its
own; where bubblewrap or namespaces are refused, Landlock and the filter are all there is, as `Sandbox.describe` says.

Not held: faults of the kernel and of a GPU's driver; buffers of pipes and sockets, which the kernel holds for a process
without counting them as its memory (bounded by the numbers of descriptors and processes); files in the folder in
memory, which are bounded by ``disk_bytes`` and come on top of ``memory_bytes``; the share of the processor, which
many guests, or many threads of one, take from each other.

>>> Limits(memory_bytes=2**28).memory_bytes // 2**20
256
"""

from .box import Sandbox, probe_level
from .guest import Guest
from .limits import Limits, SandboxUnavailable

__all__ = ["Guest", "Limits", "Sandbox", "SandboxUnavailable", "probe_level"]
