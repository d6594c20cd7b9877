"""Which chips can a Triton kernel be compiled for, whether they are there or not?

>>> target("sm90").warp_size, target("gfx942").vendor
(32, 'amd')
>>> target("sm75")
Traceback (most recent call last):
ValueError: There is no target 'sm75'; expected one of sm80, sm90, sm100, gfx942.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TARGETS", "Target", "target"]


@dataclass(frozen=True)
class Target:
    """An instruction set.

    Attributes:
        name: as `rooflab compile --for` calls it.
        vendor: "nvidia" or "amd".
        arch: as Triton calls it: 90, or "gfx942".
        warp_size: threads that run in step.
        registers: of 32 bits, that one thread can have.
        shared_bytes: that one block can have.
        chips: what has it.
    """

    name: str
    vendor: str
    arch: int | str
    warp_size: int
    registers: int
    shared_bytes: int
    chips: str


# CUDA C++ Programming Guide 13.0, table "Technical Specifications per Compute Capability"; AMD Instinct MI300 CDNA3 ISA
# reference guide, 2024, sections 3.6 and 11.
TARGETS = {
    one.name: one
    for one in (
        Target("sm80", "nvidia", 80, 32, 255, 163 * 1024, "A100"),
        Target("sm90", "nvidia", 90, 32, 255, 227 * 1024, "H100, H200"),
        Target("sm100", "nvidia", 100, 32, 255, 227 * 1024, "B200"),
        Target("gfx942", "amd", "gfx942", 64, 512, 64 * 1024, "MI300X, MI325X"),
    )
}


def target(name: str) -> Target:
    """Return a target by its name; raises ValueError, which names those that there are."""
    if name not in TARGETS:
        raise ValueError(f"There is no target {name!r}; expected one of {', '.join(TARGETS)}.")
    return TARGETS[name]
