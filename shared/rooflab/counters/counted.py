"""What did one call do, counted and not timed?

>>> row = KernelRow("copy", launches=2, flops=0, bytes_read=64, bytes_written=64)
>>> Counted(bytes_read=64, bytes_written=64, launches=2, world="torch", kernels=(row,)).rows()[0]["bytes"]
128
"""

from __future__ import annotations

from dataclasses import dataclass

from rooflab.costs import Work
from rooflab.units import format_si

__all__ = ["SECTOR_BYTES", "Access", "Counted", "KernelRow", "combine"]

# The unit in which a GPU moves data between DRAM and its caches (CUDA C++ programming guide, device memory accesses).
SECTOR_BYTES = 32


@dataclass(frozen=True)
class KernelRow:
    """All launches of one operation or kernel; bytes as used; None where only the whole program is known (JAX)."""

    name: str
    launches: int = 1
    flops: float | None = 0
    bytes_read: float | None = 0
    bytes_written: float | None = 0

    @property
    def bytes(self) -> float | None:
        """Bytes read and written."""
        if self.bytes_read is None or self.bytes_written is None:
            return None
        return self.bytes_read + self.bytes_written


@dataclass(frozen=True)
class Access:
    """Faulty accesses of one sort: by which kernel, to which argument, how many, and where the first one happened."""

    kernel: str
    way: str  # "read out of bounds", "uninitialised read", "race (write after read)", ...
    argument: str
    elements: int
    example: str

    def __str__(self) -> str:
        return f"{self.kernel}: {self.way}, {_count(self.elements, 'element')} of {self.argument} ({self.example})"


@dataclass(frozen=True)
class Counted(Work):
    """`Work` that was counted: what a call did, from its own operations.

    Legend: `bytes` (read + written) are the bytes that instructions asked for; `bytes_moved` are whole 32-byte sectors,
    which only the Triton route knows (None elsewhere). Faults (`out_of_bounds`, `uninitialised`, `races`) are tuples of
    `Access` on the Triton route and None where nothing looked for them. `notes` say in words what a count leaves out.
    """

    world: str = ""  # "torch", "jax", "triton", or several joined by " + "
    sectors: int | None = None
    programs: int | None = None
    out_of_bounds: tuple[Access, ...] | None = None
    uninitialised: tuple[Access, ...] | None = None
    races: tuple[Access, ...] | None = None
    peak_bytes: float | None = None  # arguments, results and temporaries of the compiled program (JAX)
    kernels: tuple[KernelRow, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def bytes_moved(self) -> int | None:
        """Bytes moved in whole 32-byte sectors, None where no backend counts sectors."""
        return None if self.sectors is None else self.sectors * SECTOR_BYTES

    @property
    def moved_per_used(self) -> float | None:
        """Bytes moved per byte used: 1 when each sector is used whole, 8 when 4 bytes of each are used."""
        if self.bytes_moved is None or self.bytes == 0:
            return None
        return self.bytes_moved / self.bytes

    @property
    def faults(self) -> tuple[Access, ...]:
        """Every fault that was found: out of bounds, uninitialised, races."""
        return (self.out_of_bounds or ()) + (self.uninitialised or ()) + (self.races or ())

    def rows(self) -> list[dict[str, object]]:
        """One dict per operation or kernel, most bytes first; keys as in `KernelRow`, and bytes."""
        order = sorted(self.kernels, key=lambda k: (-(k.bytes or 0), -(k.flops or 0), k.name))
        return [
            {
                "name": k.name,
                "launches": k.launches,
                "flops": k.flops,
                "bytes_read": k.bytes_read,
                "bytes_written": k.bytes_written,
                "bytes": k.bytes,
            }
            for k in order
        ]

    def describe(self) -> str:
        """Return the count in one paragraph."""
        text = [
            f"Counted ({self.world}): {_count(self.launches, 'launch', 'launches')}, {format_si(self.flops, 'FLOP')}, "
            f"{format_si(self.bytes_read, 'B')} read, {format_si(self.bytes_written, 'B')} written"
            + (f", {self.intensity:.3g} FLOP/B." if self.bytes else ".")
        ]
        if self.sectors is not None and self.moved_per_used is not None:
            text.append(
                f"{format_si(self.sectors * SECTOR_BYTES, 'B')} moved in {_count(self.sectors, 'sector')}, "
                f"{self.moved_per_used:.3g} bytes moved per byte used, by {_count(self.programs or 0, 'program')}."
            )
        if self.out_of_bounds is not None:
            text += [self._fault_sentence()]
        return " ".join([*text, *self.notes])

    def _fault_sentence(self) -> str:
        return "Faults: " + "; ".join(map(str, self.faults)) + "." if self.faults else "No faults found."


def combine(parts: list[Counted]) -> Counted:
    """Sum counts of one call that several backends made (torch operations beside Triton kernels)."""
    heaviest = max(parts, key=lambda p: (p.flops, p.bytes))
    if len(parts) == 1:
        return parts[0]
    sectors = None
    notes = tuple(note for p in parts for note in p.notes)
    if any(p.sectors is not None for p in parts):
        sectors = sum(int(-(-p.bytes // SECTOR_BYTES)) if p.sectors is None else p.sectors for p in parts)
        notes += ("Operations outside the Triton kernels are taken to use whole sectors.",)
    return Counted(
        flops=sum(p.flops for p in parts),
        bytes_read=sum(p.bytes_read for p in parts),
        bytes_written=sum(p.bytes_written for p in parts),
        launches=sum(p.launches for p in parts),
        dtype=heaviest.dtype,
        name=heaviest.name,
        world=" + ".join(p.world for p in parts),
        sectors=sectors,
        programs=_sum_known([p.programs for p in parts]),
        out_of_bounds=_join_known([p.out_of_bounds for p in parts]),
        uninitialised=_join_known([p.uninitialised for p in parts]),
        races=_join_known([p.races for p in parts]),
        kernels=tuple(row for p in parts for row in p.kernels),
        notes=notes,
    )


def _sum_known(values: list[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _join_known(values: list[tuple[Access, ...] | None]) -> tuple[Access, ...] | None:
    known = [v for v in values if v is not None]
    return tuple(access for v in known for access in v) if known else None


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
