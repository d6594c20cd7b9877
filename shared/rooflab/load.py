"""Who else computes on this machine while we measure?

Kernels that run on all cores wait for the slowest of them. Where others have a core too, such a kernel lasts a turn of
the scheduler, again and again: a long time with a narrow spread. So the load of others is looked at apart.

>>> Load(elapsed_s=2.0, others_s=3.4, cores=2, needed=2).sentence("use")
'others use 1.7 of 2 cores'
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .probe import own_cores

__all__ = ["Load", "Watch", "busy_ticks", "loads_together"]

SHORTEST_S = 0.1  # the system counts in hundredths of a second: over less than ten of them nothing is known
LEAST_CORES, LEAST_SHARE = 0.5, 0.05  # of others, to be told: half a core, on a large machine a twentieth of all


@dataclass(frozen=True)
class Load:
    """What others computed during an interval.

    Attributes:
        elapsed_s: how long it was.
        others_s: seconds of cores that others used meanwhile.
        cores: that this process may run on.
        needed: of them by what was measured: all on a CPU, one beside an accelerator.
    """

    elapsed_s: float
    others_s: float
    cores: int
    needed: int

    @property
    def others(self) -> float:
        """How many cores others used, on average."""
        return self.others_s / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def is_known(self) -> bool:
        """Whether the interval was long enough for what the system counts."""
        return self.elapsed_s >= SHORTEST_S

    @property
    def is_heavy(self) -> bool:
        """Whether others used cores that were needed; False where that is not known."""
        taken = self.others - (self.cores - self.needed)
        return self.is_known and taken > max(LEAST_CORES, LEAST_SHARE * self.needed)

    @property
    def is_light(self) -> bool:
        """Whether others are known to have left alone what was measured; an accelerator may be shared all the same."""
        return self.is_known and not self.is_heavy and self.needed == self.cores

    def sentence(self, verb: str = "used") -> str:
        """How many cores others used, as part of a sentence."""
        return f"others {verb} {self.others:.1f} of {self.cores} cores"


def loads_together(loads: Iterable[Load | None]) -> Load | None:
    """The load over several intervals, each counted once; None where nothing is known of any."""
    known = list(dict.fromkeys(load for load in loads if load is not None))
    if not known:
        return None
    elapsed_s, others_s = sum(load.elapsed_s for load in known), sum(load.others_s for load in known)
    return Load(elapsed_s, others_s, known[0].cores, known[0].needed)


class Watch:
    """Watches what others compute, from now on.

    On Linux by what the system counts for each core; elsewhere only the load average of the last minute is known, which
    says nothing of an interval.
    """

    def __init__(self) -> None:
        self._start = _reading()

    def load(self, *, accelerator: bool = False) -> Load | None:
        """The load of others since then; None where the system does not say.

        Args:
            accelerator: what is measured runs on an accelerator, which needs one core beside it.
        """
        if self._start is None or (now := _reading()) is None:
            return None
        elapsed_s, busy_s, own_s = (after - before for before, after in zip(self._start, now, strict=True))
        cores = own_cores()
        others_s = min(max(busy_s - own_s, 0.0), elapsed_s * cores)  # both are counted in steps
        return Load(elapsed_s, others_s, cores, 1 if accelerator else cores)

    def load_now(self, *, accelerator: bool = False, sleep: Callable[[float], object] = time.sleep) -> Load | None:
        """The load of others since then or a little longer, or over the last minute where that is all there is."""
        if self._start is None:
            return _minute(accelerator)
        sleep(max(0.0, 2 * SHORTEST_S - (time.perf_counter() - self._start[0])))
        return self.load(accelerator=accelerator)


def _reading() -> tuple[float, float, float] | None:
    """The time, and until then the seconds that these cores were busy and those that this process computed."""
    try:
        text = Path("/proc/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    ticks = busy_ticks(text, os.sched_getaffinity(0))
    return (time.perf_counter(), ticks / os.sysconf("SC_CLK_TCK"), time.process_time()) if ticks else None


def busy_ticks(text: str, cores: Iterable[int]) -> int:
    """How long these cores were busy, of what /proc/stat says (proc_stat(5)).

    >>> busy_ticks("cpu  3 3 3 9\\ncpu0 100 50 25 900 7 0 5 20 3 0\\ncpu1 2 1 0 8", [0])
    200
    """
    wanted, ticks = {f"cpu{core}" for core in cores}, 0
    for name, *counts in map(str.split, text.splitlines()):
        if name in wanted:
            user, nice, system, _, _, *more = [int(count) for count in counts[:8]] + [0] * 8
            ticks += user + nice + system + sum(more[:3])  # interrupts, and what another virtual machine took
    return ticks


def _minute(accelerator: bool) -> Load | None:
    """The load average of the last minute without what this process computed; None where there is none."""
    try:
        others_s = 60 * os.getloadavg()[0] - time.process_time()
    except (AttributeError, OSError):
        return None
    cores = own_cores()
    return Load(60.0, min(max(others_s, 0.0), 60.0 * cores), cores, 1 if accelerator else cores)
