"""FLOPs and bytes that XLA's cost analysis finds in a compiled JAX program, or in one computation of it.

>>> cost_of({"flops": 5.0, "transcendentals": 2.0, "bytes accessed": 12.0, "bytes accessedout{}": 4.0})
Cost(flops=7.0, bytes_read=8.0, bytes_written=4.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Cost", "cost_of", "cost_of_part"]


@dataclass(frozen=True)
class Cost:
    """FLOPs and bytes of (a part of) a program."""

    flops: float = 0
    bytes_read: float = 0
    bytes_written: float = 0

    def plus(self, other: Cost, times: float = 1) -> Cost:
        """Return this and so many times the other."""
        return Cost(
            self.flops + times * other.flops,
            self.bytes_read + times * other.bytes_read,
            self.bytes_written + times * other.bytes_written,
        )

    def dearer(self, other: Cost) -> Cost:
        """Return the larger of each, as XLA does for the branches of a conditional."""
        return Cost(
            max(self.flops, other.flops),
            max(self.bytes_read, other.bytes_read),
            max(self.bytes_written, other.bytes_written),
        )


def cost_of(analysis: Any, unknown: int = 0) -> Cost:
    """Return FLOPs and bytes of XLA's cost analysis.

    Args:
        analysis: what XLA says.
        unknown: how many custom calls are in it, each of which XLA takes for -1 FLOP and -1 byte, read and written.
    """
    if isinstance(analysis, list | tuple):  # one dict per computation in older versions of JAX
        analysis = analysis[0] if analysis else {}
    analysis = analysis or {}
    written = max(0.0, analysis.get("bytes accessedout{}", 0.0) + unknown)
    read = max(0.0, analysis.get("bytes accessed", 0.0) + unknown - written)
    # XLA counts exponentials, logarithms, ... apart from FLOPs; rooflab counts each as one FLOP.
    flops = max(0.0, analysis.get("flops", 0.0) + unknown)
    return Cost(flops + max(0.0, analysis.get("transcendentals", 0.0)), read, written)


def cost_of_part(module: Any, client: Any, name: str, unknown: int = 0) -> Cost:
    """Return XLA's cost analysis of one computation of a module, as if it were the whole.

    The plugin of a GPU does not hand out its analysis, and a CPU's is the same: it looks at the program alone.

    Raises:
        ImportError, AttributeError, KeyError, ValueError, RuntimeError: this version of JAX cannot do it.
    """
    import jax
    from jaxlib import xla_client

    analyse: Any = xla_client._xla.hlo_module_cost_analysis
    alone = type(module).from_serialized_hlo_module_proto(_with_entry(module.as_serialized_hlo_module_proto(), name))
    try:
        return cost_of(analyse(client, alone), unknown)
    except RuntimeError:  # XlaRuntimeError, UNIMPLEMENTED
        return cost_of(analyse(jax.devices("cpu")[0].client, alone), unknown)


# Numbers of the fields in XLA's protocol buffers (xla/service/hlo.proto), which never change their meaning.
_MODULE = {"name": 1, "entry_name": 2, "computations": 3, "shape": 4, "entry_id": 6, "stack_frames": 17}
_PART = {"name": 1, "shape": 4, "id": 5}


def _with_entry(proto: bytes, name: str) -> bytes:
    """Return a serialized HLO module in which another computation is the entry."""
    fields = list(_fields(proto))
    for number, value, _ in fields:
        if number == _MODULE["computations"]:
            own = {n: (value_, raw) for n, value_, raw in _fields(value) if n in _PART.values()}
            if own[_PART["name"]][0] == name.encode():
                break
    else:
        raise KeyError(name)
    same = (_MODULE["name"], _MODULE["computations"], _MODULE["stack_frames"])
    kept = [raw for number, _, raw in fields if number in same]
    shape, identity = own[_PART["shape"]][0], own[_PART["id"]][1]
    kept += [_delimited(_MODULE["entry_name"], name.encode()), _delimited(_MODULE["shape"], shape)]
    return b"".join([*kept, bytes([_MODULE["entry_id"] << 3]) + identity[1:]])


def _delimited(number: int, value: bytes) -> bytes:
    size, length = b"", len(value)
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + value


def _fields(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Number, value and raw bytes of each field of a protocol buffer."""
    place = 0
    while place < len(data):
        start = place
        key, place = _varint(data, place)
        kind = key & 7
        if kind == 2:
            length, place = _varint(data, place)
        elif kind == 0:
            length = _varint(data, place)[1] - place
        else:
            length = {1: 8, 5: 4}[kind]
        yield key >> 3, data[place : place + length], data[start : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
