"""What does a Triton kernel do when it is interpreted: programs, bytes, sectors, FLOPs, faults?

>>> Launch("k").row()
KernelRow(name='k', launches=1, flops=0, bytes_read=0, bytes_written=0)
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from rooflab.units import format_name

from .counted import Access, Counted, KernelRow
from .interpreter import TOO_LATE, interpreting
from .triton_memory import Memory, Region

__all__ = ["KernelTracer", "Launch"]

AUTOTUNE_NOTE = "An autotuned kernel is counted with the first of its configurations."
ATOMICS_NOTE = "A kernel that waits for others (atomic_cas) is not searched for races."
UNCHECKED_NOTE = "Addresses that a kernel made from integers are not checked."

_LOCK = threading.Lock()  # guards the two below
_HOOKS = ExitStack()  # what takes the hooks out of the interpreter again when the last count ends


class Launch:
    """One launch of one kernel, while it runs and after."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.memory = Memory(name)
        self.flops: dict[str, int] = {}  # by format
        self.programs = 0
        self.regions: dict[int, Region] = {}  # by the real address of the storage

    def add_flops(self, number: int, dtype: Any) -> None:
        """Add FLOPs in the format of a Triton dtype."""
        form = dtype if isinstance(dtype, str) else _format(dtype)
        self.flops[form] = self.flops.get(form, 0) + number

    def add_tensor(self, name: str, tensor: Any, initialised: np.ndarray | None) -> None:
        """Give a tensor argument its virtual addresses; arguments that share a storage share them."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address in self.regions:
            self.regions[address].name += f"/{name}"
            return
        itemsize = tensor.element_size()
        start = tensor.storage_offset() * itemsize
        region = Region(name, address, storage.nbytes(), itemsize, start, tensor.numel(), initialised)
        self.regions[address] = self.memory.add(region)

    def shift(self, tensor: Any) -> int:
        """How far a tensor's virtual address is from its real one."""
        region = self.regions.get(tensor.untyped_storage().data_ptr())
        return 0 if region is None else region.virtual - region.real

    def row(self) -> KernelRow:
        """Return the launch as a row of the table of kernels."""
        read, written = self.memory.bytes_read, self.memory.bytes_written
        return KernelRow(self.name, 1, sum(self.flops.values()), read, written)


class KernelTracer:
    """Collects the Triton kernels of a block: `with tracer.active(): ...; tracer.counted(result)`."""

    stack: tuple[KernelTracer, ...] = ()  # all that are active: a count may run inside a count
    shadows: dict[int, tuple[Any, np.ndarray]]  # storage -> its tensor (kept alive), which of its bytes are written

    def __init__(self, torch_counter: Any) -> None:
        self.torch_counter = torch_counter
        self.launches: list[Launch] = []
        self.notes: list[str] = []
        self.raw_reads: list[Access] = []  # by operations of torch
        outer = KernelTracer.stack[0] if KernelTracer.stack else None
        self.shadows = outer.shadows if outer else {}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Trace the kernels of the block; everything is put back afterwards, whatever happens inside."""
        from .triton_patches import install

        interpreted = interpreting()
        with _LOCK:
            if not KernelTracer.stack:
                with ExitStack() as hooks:
                    install(hooks, interpreted=interpreted)
                    _HOOKS.push(hooks.pop_all())
            KernelTracer.stack = (*KernelTracer.stack, self)
        if interpreted:
            self.torch_counter.on_allocation, self.torch_counter.on_write = self._allocated, self._written
            self.torch_counter.on_read = self._read
        try:
            yield
        finally:
            with _LOCK:
                KernelTracer.stack = tuple(tracer for tracer in KernelTracer.stack if tracer is not self)
                if not KernelTracer.stack:
                    _HOOKS.close()

    @staticmethod
    @contextmanager
    def launch(name: str) -> Iterator[Launch]:
        """Record one launch with every active tracer; the interpreter's own copies are not counted as operations."""
        launch = Launch(name)
        with ExitStack() as stack:
            for tracer in KernelTracer.stack:
                stack.enter_context(tracer.torch_counter.pause())
                tracer.launches.append(launch)
            yield launch

    @staticmethod
    def note(text: str) -> None:
        """Say in every active tracer what the count leaves out."""
        for tracer in KernelTracer.stack:
            tracer.notes.append(text)

    def shadow(self, tensor: Any) -> np.ndarray | None:
        """Which bytes of a tensor's storage are written, None if nothing is known to be unwritten."""
        if not self.shadows:
            return None
        try:
            found = self.shadows.get(_key(tensor))
            size = tensor.untyped_storage().nbytes()
        except (RuntimeError, NotImplementedError):  # sparse and nested tensors have no one storage
            return None
        if found is None or found[1].size != size:  # another size: it was resized since
            return None
        return found[1]

    def _allocated(self, tensors: list[Any]) -> None:
        for tensor in tensors:
            if tensor.untyped_storage().device.type != "meta" and _key(tensor) not in self.shadows:
                self.shadows[_key(tensor)] = (tensor, np.zeros(tensor.untyped_storage().nbytes(), dtype=bool))

    def _written(self, tensors: list[Any]) -> None:
        for tensor in tensors:
            if (shadow := self.shadow(tensor)) is not None:
                _bytes_of(tensor, shadow)[...] = True

    def _read(self, operation: str, tensors: list[Any]) -> None:
        """Look for gaps in what a kernel should have written where torch goes on with it."""
        for number, tensor in enumerate(tensors):
            if (shadow := self.shadow(tensor)) is None:
                continue
            address = tensor.untyped_storage().data_ptr()
            if any(address in launch.regions for launch in self.launches):
                self.raw_reads += _gap(operation, "uninitialised read", f"operand {number}", tensor, shadow)

    def counted(self, result: Any = None) -> Counted | None:
        """Return what was counted, None without a launch; `result` of the function is searched for gaps."""
        if not self.launches:
            return None
        weights: dict[str, int] = {}
        for launch in self.launches:
            for form, number in launch.flops.items():
                weights[form] = weights.get(form, 0) + number
        memories = [launch.memory for launch in self.launches]
        notes = [*self.notes, *[UNCHECKED_NOTE for memory in memories if memory.unchecked]]
        gaps = tuple(self._gaps(result))
        return Counted(
            flops=sum(weights.values()),
            bytes_read=sum(memory.bytes_read for memory in memories),
            bytes_written=sum(memory.bytes_written for memory in memories),
            launches=len(self.launches),
            dtype=max(weights, key=weights.__getitem__) if weights else "fp32",
            world="triton",
            sectors=sum(memory.sectors for memory in memories),
            programs=sum(launch.programs for launch in self.launches),
            out_of_bounds=_merge(memories, "out of bounds"),
            uninitialised=_merge(memories, "uninitialised") + tuple(self.raw_reads) + gaps,
            races=_merge(memories, "race"),
            kernels=tuple(_rows(self.launches)),
            notes=tuple(dict.fromkeys(notes)),
        )

    def _gaps(self, result: Any) -> Iterator[Access]:
        """Elements of returned tensors that come from torch.empty and that nothing has written."""
        from .torch_bytes import tensors_in

        for number, tensor in enumerate(tensors_in(result)):
            if (shadow := self.shadow(tensor)) is not None:
                yield from _gap(self.launches[-1].name, "uninitialised", f"result {number}", tensor, shadow)


def _gap(name: str, way: str, argument: str, tensor: Any, shadow: np.ndarray) -> Iterator[Access]:
    """Elements of a tensor that nothing has written, if there are any."""
    written = _bytes_of(tensor, shadow)[..., 0].reshape(-1)
    if written.size and not written.all():
        example = f"element {int(np.flatnonzero(~written)[0])} of {tensor.numel()}"
        yield Access(name, way, argument, int((~written).sum()), example)


def _rows(launches: list[Launch]) -> Iterator[KernelRow]:
    by_name: dict[str, list[KernelRow]] = {}
    for launch in launches:
        by_name.setdefault(launch.name, []).append(launch.row())
    for name, rows in by_name.items():
        sums = [sum(getattr(row, key) or 0 for row in rows) for key in ("flops", "bytes_read", "bytes_written")]
        yield KernelRow(name, len(rows), *sums)


def _merge(memories: list[Memory], kind: str) -> tuple[Access, ...]:
    """Faults of one kind over all launches, those of one kernel, way and argument together."""
    merged: dict[tuple[str, str, str], Access] = {}
    for access in (fault for memory in memories for fault in memory.faults(kind)):
        key = (access.kernel, access.way, access.argument)
        before = merged.get(key)
        elements = access.elements + (before.elements if before else 0)
        merged[key] = Access(*key, elements, (before or access).example)
    return tuple(merged.values())


def _key(tensor: Any) -> int:
    from .torch_bytes import storage_key

    return storage_key(tensor)


def _bytes_of(tensor: Any, shadow: np.ndarray) -> np.ndarray:
    """View of a storage's shadow in a tensor's shape, with one more axis for the bytes of an element."""
    itemsize = tensor.element_size()
    strides = [step * itemsize for step in tensor.stride()]
    start = shadow[tensor.storage_offset() * itemsize :]
    return np.lib.stride_tricks.as_strided(start, (*tensor.shape, itemsize), (*strides, 1))


def _format(dtype: Any) -> str:
    name = str(dtype.scalar)
    try:
        return "fp8" if name.startswith("fp8") else format_name(name)
    except ValueError:
        return "fp32"


def kernel_line() -> str:
    """Return "line N" of the kernel that is running, from the first frame outside Triton, NumPy and rooflab."""
    frame = sys._getframe(1)
    while frame is not None:
        home = str(frame.f_globals.get("__name__", ""))
        if home.split(".")[0] not in ("triton", "numpy") and not home.startswith("rooflab.counters"):
            return f"line {frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def compiled_kernel(*args: Any, warmup: bool = False, **kwargs: Any) -> None:
    """Stand in for the launch of a compiled kernel, which cannot be counted."""
    raise RuntimeError(TOO_LATE)
