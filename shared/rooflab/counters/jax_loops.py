"""How often does each loop of a compiled JAX program turn, and what does a turn cost?

XLA's cost analysis counts the body of a loop once. The optimized program says how often a loop turns where XLA could
find out (`known_trip_count`), and XLA also analyses a loop's body by itself, once that is made the entry of the module.

>>> parts = computations('''%body (p: f32[4]) -> f32[4] {
...   ROOT %add.1 = f32[4]{0} add(%p, %p)
... }
... ENTRY %main (p: f32[4]) -> f32[4] {
...   ROOT %w = f32[4]{0} while(%p), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"10"}}
... }''')
>>> parts["body"].kernels, parts["main"].loops, parts["main"].is_entry
(('add',), (('body', 'c', 10),), True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Computation", "Cost", "Loops", "computations", "cost_of"]

# Instructions that start no kernel.
_FREE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "iota", "after-all", "partition-id",
    "replica-id", "optimization-barrier", "while", "conditional", "call", "copy-start", "copy-done",
})  # fmt: skip
_HEAD = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?(?P<name>[\w.\-]+) = .*? (?P<opcode>[a-z][a-z0-9\-]*)\(")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_BRANCHES = re.compile(r"(?:true_computation|false_computation)=%?([\w.\-]+)|branch_computations=\{([^}]*)\}")

UNKNOWN_LENGTH = "A while loop of unknown length is counted as one turn."
CONDITIONAL = "Of a conditional XLA counts the dearest branch, and its kernels are not among the launches."
UNREACHED = "A loop that XLA runs in the background is counted as one turn."
NO_ANALYSIS = "This version of JAX does not analyse a loop's body by itself: each loop is counted as one turn."


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


@dataclass
class Computation:
    """One computation of an HLO module: its kernels, and the computations that its instructions run."""

    name: str
    is_entry: bool = False
    kernels: tuple[str, ...] = ()
    loops: tuple[tuple[str, str, int | None], ...] = ()  # body, condition, turns
    calls: tuple[str, ...] = ()
    branches: tuple[tuple[str, ...], ...] = ()


@dataclass
class Loops:
    """A compiled module, its text and XLA's own object, whose loops are to be counted with all their turns."""

    text: str
    module: Any  # None where a version of JAX does not hand it out
    client: Any
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = computations(self.text)
        self.entry = next(part for part in self.parts.values() if part.is_entry)
        self._alone: dict[str, Cost] = {}
        self._seen: set[str] = set()

    def total(self, once: Cost) -> Cost:
        """Return the cost of the whole program, given what XLA says of it (each body once)."""
        total = once.plus(self._extra(self.entry.name))
        if any(part.loops and name not in self._seen for name, part in self.parts.items()):
            self.notes.append(UNREACHED)
        return total

    def launches(self) -> dict[str, int]:
        """Return the kernels of the program by name, and how often each is launched."""
        found: dict[str, int] = {}
        for name, times in self._launches(self.entry.name, 1):
            found[name] = found.get(name, 0) + times
        return found

    def _launches(self, name: str, times: int) -> Iterator[tuple[str, int]]:
        part = self.parts[name]
        yield from ((kernel, times) for kernel in part.kernels)
        for body, _, turns in part.loops:
            yield from self._launches(body, times * (1 if turns is None else turns))
        for callee in part.calls:
            yield from self._launches(callee, times)

    def _extra(self, name: str) -> Cost:
        """What XLA's count of a computation leaves out: the other turns of the loops in it and below it."""
        part, extra = self.parts[name], Cost()
        self._seen.add(name)
        for body, condition, turns in part.loops:
            if turns is None:
                self.notes.append(UNKNOWN_LENGTH)
            times = 1 if turns is None else turns
            for inner in (body, condition):
                extra = extra.plus(self._extra(inner), times)
                if times != 1:
                    extra = extra.plus(self._once(inner), times - 1)
        for callee in part.calls:
            extra = extra.plus(self._extra(callee))
        for branches in part.branches:
            self.notes.append(CONDITIONAL)
            extras = [self._extra(branch) for branch in branches]
            if any(each != Cost() for each in extras):
                dearest, plain = Cost(), Cost()
                for branch, each in zip(branches, extras, strict=True):
                    dearest = dearest.dearer(self._once(branch).plus(each))
                    plain = plain.dearer(self._once(branch))
                extra = extra.plus(dearest).plus(plain, -1)
        return extra

    def _once(self, name: str) -> Cost:
        """XLA's analysis of one computation alone."""
        if name not in self._alone:
            self._alone[name] = self._analyse(name)
        return self._alone[name]

    def _analyse(self, name: str) -> Cost:
        try:
            from jaxlib import xla_client

            analyse: Any = xla_client._xla.hlo_module_cost_analysis
            alone = _with_entry(self.module.as_serialized_hlo_module_proto(), name)
            return cost_of(analyse(self.client, type(self.module).from_serialized_hlo_module_proto(alone)))
        except (ImportError, AttributeError, KeyError, ValueError, RuntimeError):  # XlaRuntimeError is the last
            self.notes.append(NO_ANALYSIS)
            return Cost()


def cost_of(analysis: Any) -> Cost:
    """Return FLOPs and bytes of XLA's cost analysis."""
    if isinstance(analysis, list | tuple):  # one dict per computation in older versions of JAX
        analysis = analysis[0] if analysis else {}
    analysis = analysis or {}
    written = max(0.0, analysis.get("bytes accessedout{}", 0.0))
    read = max(0.0, analysis.get("bytes accessed", 0.0) - written)
    # XLA counts exponentials, logarithms, ... apart from FLOPs; rooflab counts each as one FLOP.
    return Cost(max(0.0, analysis.get("flops", 0.0)) + max(0.0, analysis.get("transcendentals", 0.0)), read, written)


def computations(hlo: str) -> dict[str, Computation]:
    """Return the computations of an HLO module's text by name; their kernels without numbers."""
    parts: dict[str, Computation] = {}
    part: Computation | None = None
    for line in hlo.splitlines():
        if part is None:
            if head := _HEAD.match(line):
                part = parts[head["name"]] = Computation(head["name"], bool(head["entry"]))
        elif line.startswith("}"):
            part = None
        elif found := _INSTRUCTION.match(line):
            _add(part, found["name"], found["opcode"], line)
    return parts


def _add(part: Computation, name: str, opcode: str, line: str) -> None:
    if opcode not in _FREE:
        part.kernels += (re.sub(r"(\.\d+)+$", "", name),)
    elif opcode == "while":
        body, condition = (re.search(rf"\b{key}=%?([\w.\-]+)", line) for key in ("body", "condition"))
        if body and condition:
            trips = _TRIPS.search(line)
            part.loops += ((body[1], condition[1], int(trips[1]) if trips else None),)
    elif opcode == "call":
        part.calls += tuple(re.findall(r"to_apply=%?([\w.\-]+)", line))
    elif opcode == "conditional":
        names = [one or many for one, many in _BRANCHES.findall(line)]
        part.branches += (tuple(n.strip(" %") for n in ",".join(names).split(",")),)


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
