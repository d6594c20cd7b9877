"""Which operations does a PyTorch function run, and how many bytes and FLOPs does each need?

>>> counter = TorchCounter()
>>> counter.counted() is None
True
>>> format_of("torch.bfloat16"), format_of("torch.int64")
('bf16', 'fp32')
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rooflab.units import format_name

from .counted import Counted, KernelRow
from .threads import OTHER_THREADS, noticing
from .torch_bytes import op_name, operands, tensors_in, traffic, unknown_mask, wholly_read
from .torch_flops import flops_of

__all__ = ["COMPILED_SENTENCE", "TorchCounter", "format_of"]

COMPILED_SENTENCE = (
    "count sees the operations of eager PyTorch, and this function runs through torch.compile, which replaces them by "
    "fused kernels that cannot be counted from outside: count the function itself, without torch.compile."
)

UNKNOWN_MASK = "What a mask selects is not known here: an indexed write counts as if it selected everything."


def format_of(dtype: Any) -> str:
    """Return rooflab's name of a dtype; what has none (int32, bool, complex) sets no rate here and counts as fp32."""
    try:
        return format_name(dtype)
    except ValueError:
        return "fp32"


def _is_compiled_frame() -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "compile_wrapper" and frame.f_code.co_filename.endswith("eval_frame.py"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


class TorchCounter:
    """Collects the operations of a block: `with counter.active(): ...; counter.counted()`."""

    def __init__(self) -> None:
        self.rows: dict[str, list[float]] = {}
        self.paused = False
        self.on_allocation: Callable[[list[Any]], None] | None = None
        self.on_write: Callable[[list[Any]], None] | None = None
        self.on_read: Callable[[str, list[Any]], None] | None = None
        self._weights: dict[str, tuple[float, float]] = {}  # format -> FLOPs, bytes
        self._uncounted: dict[str, None] = {}  # operations whose arithmetic nobody knows
        self._notes: dict[str, None] = {}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Count every operation of the block, forward and backward."""
        with noticing() as handed, _function_mode(), _mode(self):
            try:
                yield
            finally:
                if handed:
                    self._notes[OTHER_THREADS] = None

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave out what runs inside, such as the copies of a kernel interpreter."""
        before, self.paused = self.paused, True
        try:
            yield
        finally:
            self.paused = before

    def record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Add one operation that has run; views, metadata and allocation are free."""
        import torch

        name = op_name(func)
        if name.startswith(("empty", "new_empty")):
            if self.on_allocation:
                self.on_allocation(list(tensors_in(out)))
            return
        reads, writes, made = operands(func, args, kwargs, out)
        label = func._schema.name.replace("::", ".")
        if self.on_read and (writes or made or name in ("equal", "_local_scalar_dense")):
            self.on_read(label, wholly_read(name, reads))
        if torch.Tag.inplace_view in func.tags or not (writes or made or name == "equal"):
            return
        if _is_compiled_frame():
            raise ValueError(COMPILED_SENTENCE)
        if self.on_write:
            self.on_write([*writes, *made])
        moved = traffic(func, args, kwargs, reads, writes, made)
        known, form = flops_of(func, args, kwargs, out), self._format(func, args, out)
        flops = known or 0
        if known is None:
            self._uncounted[label] = None
        if unknown_mask(func, args, kwargs):
            self._notes[UNKNOWN_MASK] = None
        row = self.rows.setdefault(label, [0, 0, 0, 0])
        for position, value in enumerate((1, flops, *moved)):
            row[position] += value
        old = self._weights.get(form, (0, 0))
        self._weights[form] = (old[0] + flops, old[1] + sum(moved))

    def _format(self, func: Any, args: tuple[Any, ...], out: Any) -> str:
        import torch

        tensors = [t for t in [*tensors_in(args), *tensors_in(out)] if t.is_floating_point() or t.is_complex()]
        form = format_of(tensors[0].dtype) if tensors else "fp32"
        if not tensors and any(t.dtype == torch.int8 for t in tensors_in(args)):
            form = "int8"
        tensor_cores = form == "fp32" and tensors and tensors[0].is_cuda and "mm" in str(func)
        return "tf32" if tensor_cores and torch.get_float32_matmul_precision() != "highest" else form

    def counted(self) -> Counted | None:
        """Return what was counted, None when no operation did any work."""
        if not self.rows:
            return None
        kernels = tuple(KernelRow(name, int(n), f, r, w) for name, (n, f, r, w) in self.rows.items())
        return Counted(
            launches=sum(k.launches for k in kernels),
            flops=sum(row[1] for row in self.rows.values()),
            bytes_read=sum(row[2] for row in self.rows.values()),
            bytes_written=sum(row[3] for row in self.rows.values()),
            dtype=max(self._weights, key=lambda form: self._weights[form]),
            world="torch",
            kernels=kernels,
            notes=self.notes,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What the count leaves out, in sentences."""
        uncounted = f"The arithmetic of {', '.join(self._uncounted)} is not counted." if self._uncounted else ""
        return (*([uncounted] if uncounted else []), *self._notes)


def _mode(counter: TorchCounter) -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if counter.paused or getattr(func, "namespace", "") == "prim":  # questions such as a fake tensor's device
                return func(*args, **kwargs)
            if op_name(func) == "allclose":  # torch does this inside, and returns no tensor
                with self:
                    return bool(torch.isclose(*args, **kwargs).all())
            decompose: Callable[..., Any] | None = getattr(func, "decompose", None)
            if decompose is not None and not _has_kernel(func, args):
                with self:  # inference mode hands over matmul, layer_norm, ... whole: count what they consist of
                    out = decompose(*args, **kwargs)
                if out is not NotImplemented:
                    return out
            out = func(*args, **kwargs)
            if hasattr(func, "_schema"):
                counter.record(func, args, kwargs, out)
            return out

    return Mode()


def _has_kernel(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether an operation that can be decomposed has a kernel of its own on the device of its first tensor."""
    import torch

    first = next(tensors_in(args), None)
    key = None if first is None else {"cpu": "CPU", "cuda": "CUDA", "mps": "MPS"}.get(first.device.type)
    asks = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", None)
    return bool(key and asks and asks(func.name(), key))


def _function_mode() -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    fused = getattr(torch.ops.aten, "_fused_rms_norm", None)

    class FunctionMode(TorchFunctionMode):
        """Keep RMS norm the one kernel that it is on a GPU: under any dispatch mode torch takes it apart."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if fused and func in (torch.nn.functional.rms_norm, torch.rms_norm):
                given = dict(zip(("input", "normalized_shape", "weight", "eps"), args, strict=False)) | (kwargs or {})
                x, weight = given["input"], given.get("weight")
                if x.is_cuda and (weight is None or weight.dtype == x.dtype):
                    return fused(x, list(given["normalized_shape"]), weight, given.get("eps"))[0]
            return func(*args, **(kwargs or {}))

    return FunctionMode()
