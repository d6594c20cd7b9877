"""Which device do we measure on, and what can it do?

One probe, one frozen answer. It is printed first in every notebook, and it never changes an experiment silently:

>>> from rooflab.device import describe
>>> from rooflab.probe import Facts
>>> describe(Facts(cpu_name="AMD EPYC", cpu_cores=2, memory_bytes=4e9)).kind
'cpu'
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from .probe import Facts, look
from .specs import Chip, find_chip
from .units import format_name, format_si

if TYPE_CHECKING:
    from .clocks import Clock

__all__ = ["Device", "choose_interpreter", "describe", "find_device", "size"]

T = TypeVar("T")

# First NVIDIA compute capability whose matrix units take the format (CUDA C++ programming guide, "Arithmetic
# instructions"). fp16 came with Volta, int8 with Turing, bf16 and TF32 with Ampere, fp8 with Ada, fp4 with Blackwell.
_SINCE_CAPABILITY = {
    "fp64": (1, 3), "fp32": (1, 0), "fp16": (7, 0), "int8": (7, 5), "bf16": (8, 0), "tf32": (8, 0), "fp8": (8, 9),
    "fp6": (10, 0), "fp4": (10, 0), "int4": (7, 5),
}  # fmt: skip
_UNTIL_CAPABILITY = {"int4": (9, 0)}  # Hopper dropped it


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
    versions: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "versions", MappingProxyType(dict(self.versions)))

    def __reduce__(self) -> tuple[Any, ...]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _restore, (values | {"versions": dict(self.versions)},)  # a mapping proxy cannot be pickled

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
        parts = (re.sub(r"[^a-z0-9]+", "-", plain).strip("-"), "cpu" if self.kind == "cpu" else "")
        return "-".join(part for part in parts if part) or self.kind

    def supports(self, fmt: str) -> bool:
        """Whether the hardware multiplies matrices in this format (and not only emulates it).

        Raises:
            ValueError: no such format.
        """
        fmt = format_name(fmt)
        if self.kind == "cuda" and self.capability > (0, 0):
            return _SINCE_CAPABILITY[fmt] <= self.capability < _UNTIL_CAPABILITY.get(fmt, (math.inf, 0))
        if self.kind == "cpu":
            # An x86 or Arm core without these instructions converts bf16 to fp32 first. fp16 on a CPU has no kernel.
            native_bf16 = bool(self.cpu_flags & {"amx_bf16", "avx512_bf16", "bf16"})
            return fmt in ("fp32", "fp64") or (fmt == "bf16" and native_bf16)
        if self.kind == "mps":
            return fmt in ("fp32", "fp16", "bf16")
        if self.spec is not None:
            return fmt in self.spec.flops_per_s
        return fmt in (("fp64", "fp32", "fp16", "bf16") if self.kind == "rocm" else ("fp32", "bf16"))

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


def _restore(values: dict[str, Any]) -> Device:
    return Device(**values)


def describe(facts: Facts) -> Device:
    """The device that these facts describe: the accelerator if any framework sees one, else the CPU."""
    common: dict[str, Any] = {
        "torch": {"rocm": "cuda"}.get(facts.torch_backend, facts.torch_backend) or None,  # torch calls HIP "cuda"
        "jax": facts.jax_backend or None,
        "versions": facts.versions,
        "notes": _notes(facts),
        "cpu_flags": facts.cpu_flags,
    }
    if _is_accelerator(facts.torch_backend):
        return Device(facts.torch_backend, facts.torch_name, find_chip(facts.torch_name), count=facts.torch_count,
                      memory_bytes=facts.torch_memory_bytes, cache_bytes=facts.torch_cache_bytes,
                      capability=facts.torch_capability, **common)  # fmt: skip
    if _is_accelerator(facts.jax_backend):
        return Device(_kind_in_jax(facts), facts.jax_name, find_chip(facts.jax_name), count=facts.jax_count,
                      memory_bytes=facts.jax_memory_bytes, capability=facts.jax_capability, **common)  # fmt: skip
    return Device("cpu", facts.cpu_name, find_chip(facts.cpu_name), memory_bytes=facts.memory_bytes,
                  cache_bytes=facts.last_cache_bytes, **common)  # fmt: skip


def _is_accelerator(backend: str) -> bool:
    return backend not in ("", "cpu")


def _kind_in_jax(facts: Facts) -> str:
    """JAX calls NVIDIA's and AMD's devices alike: "gpu"."""
    if facts.jax_backend in ("tpu", "metal"):
        return {"tpu": "tpu", "metal": "mps"}[facts.jax_backend]
    amd = facts.jax_backend == "rocm" or re.search(r"\bamd\b|instinct|radeon|\bgfx\d", facts.jax_name.lower())
    return "rocm" if amd else "cuda"


def _notes(facts: Facts) -> tuple[str, ...]:
    """What the reader should know of the frameworks, one sentence each."""
    notes = list(facts.problems)
    if _is_accelerator(facts.torch_backend) and facts.jax_backend == "cpu":
        notes.append(f"torch sees {facts.torch_name}, JAX only the CPU: what is JAX's is the CPU's, "
                     "and the experiments are as small as on a CPU. "
                     "JAX's installation guide names the package for your accelerator, if there is one.")  # fmt: skip
    if _is_accelerator(facts.jax_backend) and facts.torch_backend == "cpu":
        notes.append(f"JAX sees {facts.jax_name}, torch only the CPU: what is torch's is the CPU's, and "
                     "the experiments are as small as on a CPU.")  # fmt: skip
    for package, backend in {"torch": facts.torch_backend, "jax": facts.jax_backend}.items():
        if not backend and not any(problem.startswith(f"{package} is installed") for problem in facts.problems):
            notes.append(f"{package} is not installed: cells that need it say so. "
                         f'To have it: pip install "rooflab[{package}]".')  # fmt: skip
    return tuple(notes)


@lru_cache(maxsize=1)
def _found() -> Device:
    forced = os.environ.get("ROOFLAB_DEVICE", "")
    if forced not in ("", "cpu"):
        raise ValueError(f"ROOFLAB_DEVICE is {forced!r}; the only value it takes is 'cpu' (leave it unset otherwise).")
    device = describe(look(accelerators=not forced))
    choose_interpreter(gpu=device.is_accelerator)
    if not device.is_accelerator:
        # torch.compile would start a pool of processes; on a small machine they cost memory and save no time.
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    return device


def choose_interpreter(*, gpu: bool) -> None:
    """Have Triton interpret its kernels where there is no GPU, unless the environment says otherwise.

    Triton decides when it is imported: in a process that has done so, this does nothing.
    """
    if not gpu and "triton" not in sys.modules:
        os.environ.setdefault("TRITON_INTERPRET", "1")


def find_device(probe: Callable[[], Facts] | None = None) -> Device:
    """Find the device to measure on; the answer is kept for the process.

    Args:
        probe: returns the facts to go by; for tests. Default: look at this machine.
    """
    return describe(probe()) if probe is not None else _found()


def size(*, cpu: T, gpu: T) -> T:
    """The size of an experiment for this device: ``gpu`` on any accelerator that all installed frameworks compute on.

    ``cpu`` on a host processor, and where one framework sees the accelerator and the other does not.
    """
    device = find_device()
    everywhere = "cpu" not in (device.torch, device.jax)
    return gpu if device.is_accelerator and everywhere else cpu
