"""Which operations does a PyTorch function run, and how many bytes and FLOPs does each need?

>>> distinct_bytes(size=(4, 8), stride=(0, 1), itemsize=4)  # a row broadcast over 4 rows is stored once
32
>>> distinct_bytes(size=(3, 4), stride=(1, 1), itemsize=4)  # overlapping windows share elements
24
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rooflab.units import format_name

from .counted import Counted, KernelRow
from .torch_flops import flops_of

__all__ = ["TorchCounter", "count_bytes", "distinct_bytes", "format_of", "storage_key", "tensors_in"]

# In-place operations that overwrite their target without reading it.
_WRITE_ONLY = frozenset({
    "copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_",
    "log_normal_", "cauchy_", "set_data",
})  # fmt: skip
# Operations that read only as many elements of their first operand as they return (plus the indices).
_GATHERS = frozenset({
    "gather", "index", "index_select", "embedding", "take", "take_along_dim", "_unsafe_index", "masked_select",
})  # fmt: skip
# Operations that write only as many elements of their target as they are given.
_SCATTERS = frozenset({
    "scatter_", "scatter_add_", "scatter_reduce_", "index_put_", "_index_put_impl_", "index_add_",
    "index_copy_", "put_", "masked_scatter_",
})  # fmt: skip
_ADDING = frozenset({
    "scatter_add_", "scatter_reduce_", "index_add_",
})  # fmt: skip

COMPILED_SENTENCE = (
    "count sees the operations of eager PyTorch, and this function runs through torch.compile, which replaces them by "
    "fused kernels that cannot be counted from outside: count the function itself, without torch.compile."
)


def distinct_bytes(*, size: Sequence[int], stride: Sequence[int], itemsize: int) -> int:
    """Bytes of the distinct elements of a strided view: broadcast (stride 0) and overlapping elements count once."""
    elements, span = 1, 1
    for length, step in zip(size, stride, strict=True):
        if length == 0:
            return 0
        if step:
            elements *= length
            span += (length - 1) * abs(step)
    return min(elements, span) * itemsize


def count_bytes(tensors: Iterable[Any]) -> int:
    """Bytes of several tensors together; the same tensor twice, or two views that overlap, count once."""
    by_storage: dict[int, list[tuple[int, int, Any]]] = {}
    total = 0
    for tensor in tensors:
        try:
            size, stride, itemsize = tuple(tensor.size()), tuple(tensor.stride()), tensor.element_size()
            total_here = distinct_bytes(size=size, stride=stride, itemsize=itemsize)
            start = tensor.storage_offset() * itemsize
            key = storage_key(tensor)
        except (RuntimeError, NotImplementedError):  # sparse and nested tensors have no strides
            total += tensor.numel() * tensor.element_size()
            continue
        by_storage.setdefault(key, []).append((start, total_here, (start, size, stride, itemsize)))
    return total + sum(_union(views) for views in by_storage.values())


def storage_key(tensor: Any) -> int:
    """Return a number that tells a tensor's storage from every other that is alive."""
    storage = tensor.untyped_storage()
    # data_ptr is 0 for every meta tensor, so the storage object's own identity comes first.
    return getattr(storage, "_cdata", None) or storage.data_ptr() or id(tensor)


def _union(views: list[tuple[int, int, Any]]) -> int:
    """Bytes of views of one storage: exact for dense views, at most their hull for strided ones."""
    unique = {view[2]: view for view in views}.values()
    if len(unique) == 1:
        return next(iter(unique))[1]
    dense, used = [], 0
    hull_start, hull_end = sys.maxsize, 0
    for start, used_bytes, (_, size, stride, itemsize) in unique:
        span = itemsize * (1 + sum((n - 1) * abs(s) for n, s in zip(size, stride, strict=True) if n))
        hull_start, hull_end = min(hull_start, start), max(hull_end, start + span)
        if span == used_bytes:
            dense.append((start, start + span))
        else:
            used += used_bytes
    end = -1
    for first, last in sorted(dense):
        used += max(0, last - max(first, end))
        end = max(end, last)
    return min(used, hull_end - hull_start)


def format_of(dtype: Any) -> str:
    """Return rooflab's name of a dtype; what has none (int32, bool, complex) sets no rate here and counts as fp32."""
    try:
        return format_name(dtype)
    except ValueError:
        return "fp32"


def tensors_in(value: Any) -> Iterator[Any]:
    """Tensors in nested tuples, lists and dicts."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def _bind(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Pair each argument of the operator's schema with the value it got."""
    for position, argument in enumerate(func._schema.arguments):
        if position < len(args):
            yield argument, args[position]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def operands(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[list[Any], ...]:
    """Tensors that an ATen operation reads, that it writes in place, and that it makes (views are none of these)."""
    name = _name(func)
    reads, writes = [], []
    shape_only = name.startswith("new_") or name.endswith("_like")  # the first operand lends its shape and dtype
    for argument, value in _bind(func, args, kwargs):
        tensors = list(tensors_in(value))
        written = argument.alias_info is not None and argument.alias_info.is_write
        if name.startswith("_fused_") and argument.name in ("grads", "state_steps"):
            written = kwargs.get("grad_scale") is not None and argument.name == "grads"  # says the schema: always
        if written:
            writes += tensors
        if not shape_only and not (written and (argument.kwarg_only or name in _WRITE_ONLY)):
            reads += tensors
    known = {_key_or_id(t) for t in tensors_in([*args, *kwargs.values()])}
    return reads, writes, [t for t in tensors_in(out) if _key_or_id(t) not in known]


def traffic(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], reads: list[Any], writes: list[Any], made: list[Any]
) -> tuple[int, int]:
    """Bytes read and written by one ATen operation with these operands."""
    name = _name(func)
    if name in _GATHERS:
        return count_bytes(made) + count_bytes(reads[1:]), count_bytes(made)
    if name in _SCATTERS:
        return _scatter(name, args, kwargs, reads, writes)
    return count_bytes(reads), count_bytes([*writes, *made])


def _name(func: Any) -> str:
    return func._schema.name.split("::")[-1]


def _scatter(name: str, args: Any, kwargs: Any, reads: list[Any], writes: list[Any]) -> tuple[int, int]:
    """Read indices and values; write one element per value, read before when it is added to."""
    target, *given = reads
    values = [t for t in given if t.dtype == target.dtype]
    others = [t for t in given if t.dtype != target.dtype]
    elements = max((t.numel() for t in [*values[-1:], *others]), default=0)
    touched = min(elements * target.element_size(), count_bytes(writes))
    adds = name in _ADDING or kwargs.get("accumulate", len(args) > 3 and args[3] is True)
    return count_bytes(given) + (touched if adds else 0), touched


def _key_or_id(tensor: Any) -> int:
    try:
        return storage_key(tensor)
    except (RuntimeError, NotImplementedError):
        return id(tensor)


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
        self._weights: dict[str, tuple[float, float]] = {}  # format -> FLOPs, bytes

    @contextmanager
    def active(self) -> Iterator[None]:
        """Count every operation of the block, forward and backward."""
        with _mode(self):
            yield

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

        name = _name(func)
        if name.startswith(("empty", "new_empty")):
            if self.on_allocation:
                self.on_allocation(list(tensors_in(out)))
            return
        reads, writes, made = operands(func, args, kwargs, out)
        if torch.Tag.inplace_view in func.tags or not (writes or made or name == "equal"):
            return
        if _is_compiled_frame():
            raise ValueError(COMPILED_SENTENCE)
        if self.on_write:
            self.on_write([*writes, *made])
        moved = traffic(func, args, kwargs, reads, writes, made)
        flops, form = flops_of(func, args, kwargs, out), self._format(func, args, out)
        row = self.rows.setdefault(func._schema.name.replace("::", "."), [0, 0, 0, 0])
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
        )


def _mode(counter: TorchCounter) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if counter.paused:
                return func(*args, **kwargs)
            decompose: Callable[..., Any] | None = getattr(func, "decompose", None)
            if decompose is not None:
                with self:  # inference mode hands over matmul, layer_norm, ... whole: count what they consist of
                    out = decompose(*args, **kwargs)
                if out is not NotImplemented:
                    return out
            out = func(*args, **kwargs)
            if hasattr(func, "_schema"):
                counter.record(func, args, kwargs, out)
            return out

    return Mode()
