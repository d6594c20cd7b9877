"""Which bytes and sectors does a kernel touch, and which of its accesses are faults?

Pointers that a kernel gets are virtual: each tensor's storage has its own stretch of 2^44 addresses, so that an
address says which storage it was meant for, however far out of bounds it is.

>>> memory = Memory("k")
>>> region = memory.add(Region("x", real=4096, nbytes=40, itemsize=4, start=0, numel=10))
>>> lanes = region.virtual + 4 * np.arange(16, dtype=np.uint64)
>>> real, fine = memory.access("read", lanes, np.ones(16, bool), 4)
>>> int(fine.sum()), memory.bytes_read, memory.sectors, str(memory.faults()[0])
(10, 40, 2, 'k: read out of bounds, 6 elements of x (program (0, 0, 0), element 10 of 10)')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .counted import SECTOR_BYTES, Access

__all__ = ["Memory", "Region"]

_FIRST = 1 << 60  # above every real address
_STRETCH_BITS = 44
_MIDDLE = 1 << 43  # a storage begins in the middle of its stretch, so that negative offsets stay inside it

_NOBODY, _SEVERAL = -1, -2


@dataclass
class Region:
    """The storage of one or more tensor arguments; `start` (bytes) and `numel` (elements) are those of the first."""

    name: str
    real: int
    nbytes: int
    itemsize: int
    start: int
    numel: int
    initialised: np.ndarray | None = None  # one bool a byte; None: nothing is known to be uninitialised
    virtual: int = 0
    owners: dict[str, np.ndarray] = field(default_factory=dict)

    def owner(self, way: str) -> np.ndarray:
        """Return for each element the program that accessed it this way: a number, nobody (-1) or several (-2)."""
        if way not in self.owners:
            self.owners[way] = np.full(-(-self.nbytes // self.itemsize), _NOBODY, dtype=np.int32)
        return self.owners[way]


class Memory:
    """Accounts of one launch: bytes, sectors and faults, access by access.

    With `strict`, addresses that a kernel has made from integers are refused: they could be anybody's.
    """

    strict = False

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.regions: list[Region] = []
        self.bytes_read = self.bytes_written = self.sectors = 0
        self.grid = (1, 1, 1)
        self.program = (0, 0, 0)
        self.judges_races = True
        self.unchecked = False
        self.where: Callable[[], str] = str  # says which line of the kernel is running
        self._faults: dict[tuple[str, str], tuple[int, str]] = {}

    def add(self, region: Region) -> Region:
        """Give a storage its stretch of virtual addresses."""
        region.virtual = _FIRST + (len(self.regions) << _STRETCH_BITS) + _MIDDLE
        self.regions.append(region)
        return region

    def faults(self, *kinds: str) -> tuple[Access, ...]:
        """Return the faults of these kinds ("out of bounds", "uninitialised", "race"; all of them by default)."""
        return tuple(
            Access(self.kernel, way, argument, number, example)
            for (way, argument), (number, example) in self._faults.items()
            if not kinds or any(kind in way for kind in kinds)
        )

    def access(self, way: str, lanes: np.ndarray, mask: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Account for one load ("read"), store ("write") or atomic ("atomic") of `width` bytes a lane.

        Returns real addresses and the lanes that may really be accessed: those of the mask that are in bounds.
        """
        real, fine = lanes.astype(np.uint64), mask.astype(bool)
        active = np.flatnonzero(fine)
        if not active.size:
            return real, fine
        addresses = real[active].astype(np.int64)
        if (addresses < _FIRST).all():  # made from integers, as in tables of pointers
            if self.strict:
                raise IndexError("an address that the kernel has made from an integer belongs to no argument")
            self.unchecked = True
        else:
            good = self._check_bounds(way, addresses, width, real, active)
            fine[active[~good]] = False
            addresses = addresses[good]
        self._account(way, addresses, width)
        return real, fine

    def _account(self, way: str, addresses: np.ndarray, width: int) -> None:
        distinct = np.unique(addresses)
        first = distinct // SECTOR_BYTES
        last = (distinct + width - 1) // SECTOR_BYTES
        sectors = np.unique(first if (first == last).all() else np.concatenate([first, last])).size
        used = distinct.size * width
        if way != "write":
            self.bytes_read += used
            self.sectors += sectors
        if way != "read":
            self.bytes_written += used
            self.sectors += sectors

    def _check_bounds(
        self, way: str, addresses: np.ndarray, width: int, real: np.ndarray, active: np.ndarray
    ) -> np.ndarray:
        """Find the lanes within bounds, look for the other faults among them and fill in their real addresses."""
        slots = (addresses - _FIRST) >> _STRETCH_BITS
        good = np.zeros(addresses.size, dtype=bool)
        for slot in np.unique(slots):
            here = np.flatnonzero(slots == slot)
            if not 0 <= slot < len(self.regions):
                self._fault(f"{way} out of bounds", "no argument", here.size, "an address beyond every tensor")
                continue
            region = self.regions[slot]
            offsets = addresses[here] - region.virtual
            inside = (offsets >= 0) & (offsets + width <= region.nbytes)
            good[here] = inside
            if not inside.all():
                self._fault_at(f"{way} out of bounds", region, offsets[~inside])
            offsets = offsets[inside]
            real[active[here[inside]]] = (offsets + region.real).astype(np.uint64)
            self._check_contents(way, region, offsets, width)
        return good

    def _check_contents(self, way: str, region: Region, offsets: np.ndarray, width: int) -> None:
        if region.initialised is not None:
            if way != "write":
                raw = offsets[~region.initialised[offsets]]
                if raw.size:
                    self._fault_at("uninitialised read", region, raw)
            if way != "read":
                for byte in range(width):
                    region.initialised[offsets + byte] = True
        if self.judges_races:
            self._check_races(way, region, offsets, width)

    def _check_races(self, way: str, region: Region, offsets: np.ndarray, width: int) -> None:
        """Two programs race for an element if one writes it and the other uses it, unless both do so atomically."""
        units = offsets // region.itemsize
        for step in range(1, width // region.itemsize):
            units = np.concatenate([units, offsets // region.itemsize + step])
        me = self.program[0] + self.grid[0] * (self.program[1] + self.grid[1] * self.program[2])
        for other in ("write", "atomic", "read"):
            if (way == other != "write") or other not in region.owners:
                continue
            owners = region.owners[other][units]
            clash = (owners != _NOBODY) & (owners != me)
            if clash.any():
                self._fault_at(f"race ({way} after {other})", region, units[clash] * region.itemsize, owners[clash])
        mine = region.owner(way)
        mine[units] = np.where((mine[units] == _NOBODY) | (mine[units] == me), me, _SEVERAL)

    def race_of_lanes(self, region_addresses: np.ndarray, values: np.ndarray, width: int) -> None:
        """Look for lanes of one store that write different values to one address: which one stays is undefined."""
        order = np.argsort(region_addresses, kind="stable")
        addresses, sorted_values = region_addresses[order], values[order]
        same = addresses[1:] == addresses[:-1]
        with np.errstate(invalid="ignore"):
            differ = same & (sorted_values[1:] != sorted_values[:-1])
        if not differ.any():
            return
        for region in self.regions:
            offsets = addresses[1:][differ] - region.virtual
            offsets = offsets[(offsets >= 0) & (offsets < region.nbytes)]
            if offsets.size:
                self._fault_at("race (two lanes of one write)", region, offsets)

    def _fault_at(self, way: str, region: Region, offsets: np.ndarray, owners: np.ndarray | None = None) -> None:
        element = (int(offsets[0]) - region.start) // region.itemsize
        text = f"program {self.program}, element {element} of {region.numel}"
        if owners is not None:
            text += f", {self._spell(int(owners[0]))} before"
        self._fault(way, region.name, offsets.size, text)

    def _fault(self, way: str, argument: str, number: int, example: str) -> None:
        before, first = self._faults.get((way, argument), (0, ""))
        self._faults[way, argument] = (before + int(number), first or ", ".join(filter(None, [example, self.where()])))

    def _spell(self, owner: int) -> str:
        if owner == _SEVERAL:
            return "several programs"
        x, rest = owner % self.grid[0], owner // self.grid[0]
        return f"program {(x, rest % self.grid[1], rest // self.grid[1])}"
