"""What does a call do: how many FLOPs, bytes, kernels, sectors, faults? Counted, never timed.

>>> from rooflab.counters import Counted
>>> Counted(flops=6, bytes_read=8, bytes_written=4, launches=1, world="torch").intensity
0.5
"""

from .counted import SECTOR_BYTES, Access, Counted, KernelRow
from .counting import count
from .interpreter import use_interpreter

__all__ = ["SECTOR_BYTES", "Access", "Counted", "KernelRow", "count", "use_interpreter"]
