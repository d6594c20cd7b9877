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

from .jax_cost import Cost, cost_of, cost_of_part
from .jax_library import work_of_call

__all__ = ["Computation", "Loops", "computations"]

# Instructions that start no kernel.
_FREE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "iota", "after-all", "partition-id",
    "replica-id", "optimization-barrier", "while", "conditional", "call", "copy-start", "copy-done",
})  # fmt: skip
_HEAD = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<shape>.*?) (?P<opcode>[a-z][a-z0-9\-]*)\(")
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_BRANCHES = re.compile(r"(?:true_computation|false_computation)=%?([\w.\-]+)|branch_computations=\{([^}]*)\}")

UNKNOWN_LENGTH = "A while loop of unknown length is counted as one turn."
CONDITIONAL = "Of a conditional XLA counts the dearest branch, and its kernels are not among the launches."
UNREACHED = "A loop that XLA runs in the background is counted as one turn."
NO_ANALYSIS = "This version of JAX does not analyse a loop's body by itself: each loop is counted as one turn."


@dataclass
class Computation:
    """One computation of an HLO module: its kernels, and the computations that its instructions run."""

    name: str
    is_entry: bool = False
    kernels: tuple[str, ...] = ()
    fused: tuple[str, ...] = ()  # what its fusions compute, each in one kernel
    libraries: tuple[Cost, ...] = ()  # the work of library calls that are understood
    unknown: tuple[str, ...] = ()  # targets of the other custom calls
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

    def total(self, analysis: Any) -> Cost:
        """Return the cost of the whole program, given XLA's analysis of it (each body once)."""
        calls, work = self._libraries(self.entry.name)
        total = cost_of(analysis, calls).plus(work).plus(self._extra(self.entry.name))
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

    def _libraries(self, name: str) -> tuple[int, Cost]:
        """The custom calls in a computation and below it, each loop turned once: their number, and their known work."""
        part = self.parts[name]
        calls, work = len(part.libraries) + len(part.unknown), Cost()
        for each in part.libraries:
            work = work.plus(each)
        bodies = [inner for body, condition, _ in part.loops for inner in (body, condition)]
        for inner in [*bodies, *part.calls, *part.fused]:
            more, below = self._libraries(inner)
            calls, work = calls + more, work.plus(below)
        for branches in part.branches:
            found = [self._libraries(branch) for branch in branches]
            calls, dearest = calls + max(more for more, _ in found), Cost()
            for _, below in found:
                dearest = dearest.dearer(below)
            work = work.plus(dearest)
        return calls, work

    def _once(self, name: str) -> Cost:
        """XLA's analysis of one computation alone, and its library calls."""
        if name not in self._alone:
            self._alone[name] = self._analyse(name)
        return self._alone[name]

    def _analyse(self, name: str) -> Cost:
        calls, work = self._libraries(name)
        try:
            return cost_of_part(self.module, self.client, name, calls).plus(work)
        except (ImportError, AttributeError, KeyError, ValueError, RuntimeError):
            self.notes.append(NO_ANALYSIS)
            return Cost()


def computations(hlo: str) -> dict[str, Computation]:
    """Return the computations of an HLO module's text by name; their kernels without numbers."""
    parts: dict[str, Computation] = {}
    part: Computation | None = None
    shapes: dict[str, str] = {}
    for line in hlo.splitlines():
        if part is None:
            if head := _HEAD.match(line):
                part, shapes = Computation(head["name"], bool(head["entry"])), {}
                parts[part.name] = part
        elif line.startswith("}"):
            part = None
        elif found := _INSTRUCTION.match(line):
            _add(part, found["name"], found["opcode"], line, shapes)
            shapes[found["name"]] = found["shape"]
    return parts


def _add(part: Computation, name: str, opcode: str, line: str, shapes: dict[str, str]) -> None:
    if opcode not in _FREE:
        part.kernels += (re.sub(r"(\.\d+)+$", "", name),)
    if opcode == "custom-call":
        work, target = work_of_call(line, shapes), _TARGET.search(line)
        if work is None:
            part.unknown += (target[1] if target else name,)
        else:
            part.libraries += (work,)
    elif opcode == "fusion":
        part.fused += tuple(re.findall(r"\bcalls=%?([\w.\-]+)", line))
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
