"""Which device do we measure on, and what can it do?

One probe, one frozen answer. It is printed first in every notebook, and it never changes an experiment silently:

>>> from rooflab.device import describe
>>> from rooflab.probe import Facts
>>> describe(Facts(cpu_name="AMD EPYC", cpu_cores=2, memory_bytes=4e9)).kind
'cpu'
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from .probe import Facts, look
from .specs import Chip, find_chip
from .units import format_si

if TYPE_CHECKING:
    from .clocks import Clock

__all__ = ["Device", "describe", "find_device", "size"]

T = TypeVar("T")

# First NVIDIA compute capability whose matrix units take the format (CUDA C++ programming guide, "Arithmetic
# instructions"). fp16 came with Volta, int8 with Turing, bf16 and TF32 with Ampere, fp8 with Ada, fp4 with Blackwell.
_SINCE_CAPABILITY = {
    "fp64": (1, 3), "fp32": (1, 0), "fp16": (7, 0), "int8": (7, 5), "bf16": (8, 0), "tf32": (8, 0), "fp8": (8, 9),
    "fp6": (10, 0), "fp4": (10, 0),
}  # fmt: skip


@dataclass(frozen=True)
class Device:
    """The device that measurements run on.

    Attributes:
        kind: "cpu", "cuda", "rocm", "mps" or "tpu".
        name: as the driver or the operating system reports it.
        spec: its row in the chip table; None when the table has none, and then never another chip's.
        torch: torch's device string ("cuda", "mps", "cpu"), None without torch.
        jax: JAX's platform ("gpu", "tpu", "cpu"), None without JAX.
        count: how many such devices there are.
        memory_bytes: device memory (main memory for a CPU).
        cache_bytes: the last-level cache, 0 when unknown.
        notes: sentences for the reader, such as one framework seeing less than the other.
    """

    kind: str
    name: str
    spec: Chip | None = None
    torch: str | None = None
    jax: str | None = None
    count: int = 1
    memory_bytes: float = 0.0
    cache_bytes: float = 0.0
    capability: tuple[int, int] = (0, 0)
    cpu_flags: frozenset[str] = field(default=frozenset(), repr=False)
    versions: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def is_accelerator(self) -> bool:
        """Whether it is anything but the host's own processor."""
        return self.kind != "cpu"

    @property
    def tier(self) -> str:
        """Which edition of an experiment runs: "cpu", "accelerator", "hopper" (or newer), or "several"."""
        if not self.is_accelerator:
            return "cpu"
        if self.count > 1:
            return "several"
        return "hopper" if self.kind == "cuda" and self.capability >= (9, 0) else "accelerator"

    @property
    def slug(self) -> str:
        """Its name as a folder: "nvidia-h200"."""
        plain = re.sub(r"\((r|tm)\)|\bcpu\b|@.*$", " ", self.name.lower())
        return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") + ("-cpu" if self.kind == "cpu" else "")

    def supports(self, fmt: str) -> bool:
        """Whether the hardware multiplies matrices in this format (and not only emulates it)."""
        if self.kind == "cuda":
            return self.capability >= _SINCE_CAPABILITY.get(fmt, (99, 0))
        if self.kind == "cpu":
            # An x86 or Arm core without these instructions converts bf16 to fp32 first. fp16 on a CPU has no kernel.
            native_bf16 = bool(self.cpu_flags & {"amx_bf16", "avx512_bf16", "bf16"})
            return fmt in ("fp32", "fp64") or (fmt == "bf16" and native_bf16)
        if self.kind == "mps":
            return fmt in ("fp32", "fp16", "bf16")
        if self.spec is not None:
            return fmt in self.spec.flops_per_s
        return fmt in ("fp32", "bf16")

    def sync(self) -> None:
        """Wait until the device has finished all work that torch has queued on it."""
        if self.torch == "cuda":
            import torch

            torch.cuda.synchronize()
        elif self.torch == "mps":
            import torch

            torch.mps.synchronize()

    def timer(self) -> Clock:
        """The finest clock for device work here: device events where they exist, else the host's clock."""
        from .clocks import EventClock, HostClock

        return EventClock() if self.torch == "cuda" else HostClock()

    def rows(self) -> dict[str, str]:
        """The device card as label and text, for tables and reports."""
        memory = f"{self.memory_bytes / 2**30:.3g} GiB" if self.memory_bytes else "unknown"
        cache = f", last-level cache {self.cache_bytes / 2**20:.3g} MiB" if self.cache_bytes else ""
        frameworks = [f"{name} {self.versions.get(name, '?')} on {where}"
                      for name, where in (("torch", self.torch), ("jax", self.jax)) if where]  # fmt: skip
        return {
            "device": f"{self.name}" + (f" (x{self.count})" if self.count > 1 else ""),
            "kind": self.kind,
            "memory": memory + cache,
            "datasheet": _datasheet(self.spec) if self.spec else "not in the chip table: ceilings are measured",
            "frameworks": ", ".join(frameworks) or "neither torch nor jax is installed",
        } | {f"note {i}" if i > 1 else "note": text for i, text in enumerate(self.notes, 1)}


def _datasheet(chip: Chip) -> str:
    rates = ", ".join(f"{fmt} {format_si(rate, 'FLOP/s')}" for fmt, rate in chip.flops_per_s.items())
    return f"{chip.name}: {format_si(chip.bytes_per_s, 'B/s')}, {rates}"


def describe(facts: Facts) -> Device:
    """The device that these facts describe: the accelerator if any framework sees one, else the CPU."""
    notes = list(facts.problems)
    torch_there, jax_there = "torch" in facts.versions, bool(facts.jax_backend)
    jax_accelerator = facts.jax_backend not in ("", "cpu")
    if facts.torch_backend and jax_there and not jax_accelerator:
        notes.append(f"torch sees {facts.torch_name}, JAX only the CPU: JAX cells run on the CPU and say so. "
                     "JAX's installation guide names the package for your accelerator.")  # fmt: skip
    if jax_accelerator and torch_there and not facts.torch_backend:
        notes.append(f"JAX sees {facts.jax_name}, torch only the CPU: torch cells run on the CPU and say so.")
    if not torch_there:
        notes.append('torch is not installed: cells that need it say so. To have it: pip install "rooflab[torch]".')
    if not jax_there and not any("JAX" in note for note in notes):
        notes.append('JAX is not installed: cells that need it say so. To have it: pip install "rooflab[jax]".')
    torch_on = ("cuda" if facts.torch_backend == "rocm" else facts.torch_backend) or "cpu"
    common: dict[str, Any] = {
        "torch": torch_on if torch_there else None,
        "jax": facts.jax_backend or None,
        "versions": dict(facts.versions),
        "notes": tuple(notes),
        "cpu_flags": facts.cpu_flags,
    }
    if facts.torch_backend:
        return Device(facts.torch_backend, facts.torch_name, find_chip(facts.torch_name), count=facts.torch_count,
                      memory_bytes=facts.torch_memory_bytes, cache_bytes=facts.torch_cache_bytes,
                      capability=facts.torch_capability, **common)  # fmt: skip
    if jax_accelerator:
        kind = "tpu" if facts.jax_backend == "tpu" else "cuda"
        return Device(kind, facts.jax_name, find_chip(facts.jax_name), count=facts.jax_count,
                      memory_bytes=facts.jax_memory_bytes, **common)  # fmt: skip
    return Device("cpu", facts.cpu_name, find_chip(facts.cpu_name), memory_bytes=facts.memory_bytes,
                  cache_bytes=facts.last_cache_bytes, **common)  # fmt: skip


@lru_cache(maxsize=1)
def _found() -> Device:
    forced = os.environ.get("ROOFLAB_DEVICE", "")
    if forced not in ("", "cpu"):
        raise ValueError(f"ROOFLAB_DEVICE is {forced!r}; the only value it takes is 'cpu' (leave it unset otherwise).")
    device = describe(look(accelerators=not forced))
    if not device.is_accelerator and "triton" not in sys.modules:
        # Without a GPU Triton kernels run in its interpreter, which has to be asked for before triton is imported.
        os.environ.setdefault("TRITON_INTERPRET", "1")
    return device


def find_device(probe: Callable[[], Facts] | None = None) -> Device:
    """Find the device to measure on; the answer is kept for the process.

    Args:
        probe: returns the facts to go by; for tests. Default: look at this machine.
    """
    return describe(probe()) if probe is not None else _found()


def size(*, cpu: T, gpu: T) -> T:
    """The size of an experiment for this device: ``cpu`` on a host processor, ``gpu`` on any accelerator."""
    return gpu if find_device().is_accelerator else cpu
