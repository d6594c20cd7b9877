"""How many bytes does one ATen operation read and write?

>>> distinct_bytes(size=(4, 8), stride=(0, 1), itemsize=4)  # a row broadcast over 4 rows is stored once
32
>>> distinct_bytes(size=(3, 4), stride=(1, 1), itemsize=4)  # overlapping windows share elements
24
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

__all__ = [
    "bind",
    "count_bytes",
    "distinct_bytes",
    "op_name",
    "operands",
    "storage_key",
    "tensors_in",
    "touched_elements",
    "traffic",
    "unknown_mask",
    "wholly_read",
]

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
    "index_copy_", "index_fill_", "put_", "masked_scatter_",
})  # fmt: skip
_ADDING = frozenset({
    "scatter_add_", "scatter_reduce_", "index_add_",
})  # fmt: skip


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
            total += _bytes_without_strides(tensor)
            continue
        by_storage.setdefault(key, []).append((start, total_here, (start, size, stride, itemsize)))
    return total + sum(_union(views) for views in by_storage.values())


def _bytes_without_strides(tensor: Any) -> int:
    """Bytes of a sparse tensor's values and indices."""
    import torch

    parts: tuple[str, ...] = ()
    if tensor.layout == torch.sparse_coo:
        parts = ("_values", "_indices")
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = ("values", "crow_indices", "col_indices")
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        parts = ("values", "ccol_indices", "row_indices")
    if not parts:
        return tensor.numel() * tensor.element_size()
    with _unseen():
        return sum(t.numel() * t.element_size() for t in (getattr(tensor, part)() for part in parts))


def _unseen() -> Any:
    """Keep what counting itself asks of tensors from being counted, also by a count around this one."""
    import torch

    return torch._C._DisableTorchDispatch()


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


def bind(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Pair the name of each argument of the operator's schema with the value it got."""
    return ((argument.name, value) for argument, value in _bind(func, args, kwargs))


def _bind(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Pair each argument of the operator's schema with the value it got."""
    for position, argument in enumerate(func._schema.arguments):
        if position < len(args):
            yield argument, args[position]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def operands(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[list[Any], ...]:
    """Tensors that an ATen operation reads, that it writes in place, and that it makes (views are none of these)."""
    name = op_name(func)
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
    name = op_name(func)
    if name in _GATHERS:
        return count_bytes(made) + count_bytes(reads[1:]), count_bytes(made)
    if name in _SCATTERS:
        return _scatter(name, dict(bind(func, args, kwargs)), reads, writes)
    return count_bytes(reads), count_bytes([*writes, *made])


def wholly_read(name: str, reads: list[Any]) -> list[Any]:
    """Return the operands of which an operation reads every element."""
    return reads[1:] if name in _GATHERS or name in _SCATTERS else reads


def op_name(func: Any) -> str:
    """Return the name of an operation without namespace and overload: `add_`."""
    return func._schema.name.split("::")[-1]


def _scatter(name: str, given: dict[str, Any], reads: list[Any], writes: list[Any]) -> tuple[int, int]:
    """Read indices and values; write the elements that are indexed, read before when they are added to."""
    target, *others = reads
    touched = min(touched_elements(name, given) * target.element_size(), count_bytes(writes))
    source = given.get("src") if name.startswith("scatter") else given.get("source")
    partly = source is not None and name.startswith(
        ("scatter", "masked_scatter")
    )  # it may be larger than what is taken
    used = count_bytes(t for t in others if not (partly and t is source))
    used += min(count_bytes([source]), touched) if partly else 0
    adds = name in _ADDING or bool(given.get("accumulate")) or given.get("reduce") in ("add", "multiply")
    return used + (touched if adds else 0), touched


def touched_elements(name: str, given: dict[str, Any]) -> int:
    """Elements that an indexed write in place writes, given its arguments by name."""
    target = given["self"]
    if "index_put" in name:
        return _indexed(target, given["indices"])
    if name.startswith("index_fill"):
        length = target.shape[given["dim"]] if target.dim() else 1
        return given["index"].numel() * (target.numel() // max(length, 1))
    if name.startswith("masked_scatter"):
        return _indexed(target, [given["mask"].expand_as(target)])
    return given["source" if name.startswith(("index_add", "index_copy")) else "index"].numel()


def _indexed(target: Any, indices: Any) -> int:
    """Elements of `target[indices]`: the indices broadcast together, a mask by its true elements."""
    import torch

    shapes: list[tuple[int, ...]] = []
    free, dim = 1, 0
    for index in indices:
        if index is None:
            free *= target.shape[dim]
            dim += 1
        elif index.dtype in (torch.bool, torch.uint8):
            shapes.append((_selected(target, index),))
            dim += index.dim()
        else:
            shapes.append(tuple(index.shape))
            dim += 1
    for length in target.shape[dim:]:
        free *= length
    together = 1
    for length in torch.broadcast_shapes(*shapes):
        together *= length
    return free * together


def _selected(target: Any, mask: Any) -> int:
    if _hides(target, mask):
        return mask.numel()
    with _unseen():
        return int((mask != 0).sum())


def unknown_mask(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether it takes a mask's values to know what an indexed write writes, and these are not there (any more)."""
    import torch

    given = dict(bind(func, args, kwargs))
    if op_name(func) not in _SCATTERS or "self" not in given:
        return False
    masks = [t for t in tensors_in([given.get("indices"), given.get("mask")]) if t.dtype in (torch.bool, torch.uint8)]
    return any(_hides(given["self"], mask) for mask in masks)


def _hides(target: Any, mask: Any) -> bool:
    """Whether a mask has no values (meta and fake tensors), or lies in the target that was written."""
    fake = mask.is_meta or "Fake" in type(mask).__name__
    return fake or _key_or_id(mask) == _key_or_id(target)


def _key_or_id(tensor: Any) -> int:
    try:
        return storage_key(tensor)
    except (RuntimeError, NotImplementedError):
        return id(tensor)
