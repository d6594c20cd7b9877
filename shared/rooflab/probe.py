"""What is in this machine? One look, written down as plain facts.

``Facts`` is all that the rest of the package knows about the hardware, so a test (or a curious reader) can pretend to
be anywhere:

>>> from rooflab.probe import Facts
>>> Facts(cpu_name="AMD EPYC", cpu_cores=2, memory_bytes=4e9).torch_backend
''
"""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["Facts", "look", "main_memory_bytes", "own_cores"]

_PACKAGES = ("torch", "jax", "jaxlib", "triton", "numpy", "ipywidgets", "rooflab")


@dataclass(frozen=True)
class Facts:
    """One look at a machine. Empty strings and zeros mean "not there"; sizes are in bytes."""

    cpu_name: str = ""
    cpu_cores: int = 1
    cpu_flags: frozenset[str] = frozenset()
    memory_bytes: float = 0.0
    last_cache_bytes: float = 0.0
    torch_backend: str = ""  # "cuda", "rocm", "mps", "cpu", or "" without torch
    torch_name: str = ""
    torch_count: int = 0
    torch_memory_bytes: float = 0.0
    torch_cache_bytes: float = 0.0
    torch_capability: tuple[int, int] = (0, 0)  # NVIDIA compute capability
    jax_backend: str = ""  # "gpu", "tpu", "cpu", or "" without JAX
    jax_name: str = ""
    jax_count: int = 0
    jax_memory_bytes: float = 0.0
    jax_capability: tuple[int, int] = (0, 0)  # NVIDIA compute capability
    versions: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()  # one sentence each: what failed to load, and why


def look(*, accelerators: bool = True) -> Facts:
    """Look at this machine.

    Args:
        accelerators: whether to look beyond the CPU; false under ``ROOFLAB_DEVICE=cpu``.
    """
    memory, cache = main_memory_bytes(), _last_cache_bytes()
    facts = Facts(
        cpu_name=_cpu_name(),
        cpu_cores=own_cores(),
        cpu_flags=_cpu_flags(),
        memory_bytes=memory,
        # A part of a machine may be told of a cache of hundreds of MiB, which is all of the machine's; and who goes
        # beyond the cache, several times over, has to stay within the memory.
        last_cache_bytes=min(cache, memory / 16) if memory else cache,
        versions=_versions(),
    )
    return _add_jax(_add_torch(facts, accelerators), accelerators)


def _add_torch(facts: Facts, accelerators: bool) -> Facts:
    try:
        import torch
    except Exception as error:  # a broken install raises whatever it likes
        return _without(facts, "torch", error)
    if accelerators and torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        return replace(
            facts,
            torch_backend="rocm" if torch.version.hip else "cuda",
            torch_name=torch.cuda.get_device_name(0),
            torch_count=torch.cuda.device_count(),
            torch_memory_bytes=float(properties.total_memory),
            torch_cache_bytes=float(getattr(properties, "L2_cache_size", 0)),
            torch_capability=(0, 0) if torch.version.hip else torch.cuda.get_device_capability(0),
        )
    if accelerators and torch.backends.mps.is_available():
        return replace(facts, torch_backend="mps", torch_name=facts.cpu_name, torch_count=1,
                       torch_memory_bytes=facts.memory_bytes)  # fmt: skip
    return replace(facts, torch_backend="cpu")


def _add_jax(facts: Facts, accelerators: bool) -> Facts:
    # Without this JAX takes three quarters of the device's memory at its first use, and torch finds none.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        import jax

        devices = jax.local_devices() if accelerators else _only_cpu(jax)
    except Exception as error:  # no backend, versions of jax and jaxlib that do not fit, ...
        return _without(facts, "jax", error)
    try:
        stats = devices[0].memory_stats() if devices[0].platform != "cpu" else None
    except RuntimeError:  # not every backend counts its memory
        stats = None
    return replace(
        facts,
        jax_backend=devices[0].platform.lower(),
        jax_name=devices[0].device_kind,
        jax_count=len(devices),
        jax_memory_bytes=float((stats or {}).get("bytes_limit", 0)),
        jax_capability=_capability(getattr(devices[0], "compute_capability", "")),
    )


def _only_cpu(jax: Any) -> list[Any]:
    """Keep JAX on the CPU, here and in the processes that this one starts, even if it has started elsewhere."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    jax.config.update("jax_platforms", "cpu")
    devices = jax.local_devices(backend="cpu")
    if jax.local_devices()[0].platform != "cpu":
        jax.config.update("jax_default_device", devices[0])
    return devices


def _capability(text: object) -> tuple[int, int]:
    """``"9.0"`` as JAX writes it; (0, 0) for anything else, such as AMD's "gfx942"."""
    major, _, minor = str(text).partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


def _without(facts: Facts, package: str, error: Exception) -> Facts:
    """The facts without a framework; a package that is there and does not load is a problem worth a sentence."""
    if isinstance(error, ModuleNotFoundError) and error.name == package:
        return facts
    why = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return replace(facts, problems=(*facts.problems, f"{package} is installed but does not start: {why}."))


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _sysctl(name: str) -> str:
    try:
        return subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _cpu_line(label: str) -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith(label):
            return line.partition(":")[2].strip()
    return ""


def _cpu_name() -> str:
    if sys.platform == "darwin":
        return _sysctl("machdep.cpu.brand_string") or "Apple CPU"
    return _cpu_line("model name") or platform.processor() or platform.machine()


def _cpu_flags() -> frozenset[str]:
    return frozenset((_cpu_line("flags") or _cpu_line("Features")).split())


def own_cores() -> int:
    """How many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def main_memory_bytes() -> float:
    """The main memory that this process may use, in bytes; 0 where it cannot be known.

    ``ROOFLAB_MEMORY``, in bytes, asks for no more than that: to see what is done where there is less.

    Raises:
        ValueError: it is no number above zero.
    """
    asked = os.environ.get("ROOFLAB_MEMORY", "")
    try:
        most = float(asked or math.inf)
    except ValueError:
        most = 0.0
    if not most > 0:
        raise ValueError(f"ROOFLAB_MEMORY is {asked!r}; expected a number of bytes above zero, such as 2e9.")
    found = _main_memory()
    return min(found, most) if found else (0.0 if math.isinf(most) else most)


def _main_memory() -> float:
    if sys.platform == "darwin":
        return float(_sysctl("hw.memsize") or 0)
    total = 0.0
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemTotal"):
            total = float(line.split()[1]) * 1024
    # A container (Binder gives 2 GB) may hold less than the machine.
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = _read(path)
        if limit.isdigit():
            total = min(total, float(limit)) if total else float(limit)
    return total


def _last_cache_bytes() -> float:
    if sys.platform == "darwin":
        return float(_sysctl("hw.perflevel0.l2cachesize") or _sysctl("hw.l2cachesize") or 0)
    sizes = [0.0]
    for index in range(5):
        text = _read(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size")
        if text[:-1].isdigit():
            sizes.append(float(text[:-1]) * {"K": 1024, "M": 1024**2}.get(text[-1], 1))
    return max(sizes)
