"""What does a JAX function do once XLA has compiled it: FLOPs, bytes, kernels, memory?

>>> kernel_names('''ENTRY %main (p: f32[4]) -> f32[4] {
...   %p = f32[4]{0} parameter(0)
...   ROOT %add_fusion.1 = f32[4]{0} fusion(%p), kind=kLoop, calls=%fused
... }''')
['add_fusion']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rooflab.units import format_name

from .counted import Counted, KernelRow

__all__ = ["count_jax", "kernel_names"]

# Instructions of the entry computation that start no kernel.
_FREE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "iota", "after-all", "partition-id",
    "replica-id", "optimization-barrier", "while", "conditional", "call", "copy-start", "copy-done",
})  # fmt: skip
# Primitives that only wrap another program; they are taken apart so that no constant stays hidden inside.
_WRAPPERS = frozenset({"jit", "pjit", "closed_call", "core_call"})

_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?(?P<name>[\w.\-]+) = .*? (?P<opcode>[a-z][a-z0-9\-]*)\(")

_NOTES = {
    "while": "A while loop of unknown length is counted as one turn.",
    "cond": "Of a conditional XLA counts the dearest branch, and its kernels are not among the launches.",
    "pallas_call": "XLA cannot look into a Pallas kernel: its part is what its cost estimate says, if anything.",
}
# Library kernels that XLA calls and whose work it does not know (it does know cuBLAS products).
_OPAQUE = re.compile(r'custom_call_target="(__cudnn\$(?!conv)[\w$]+|__flash_attn\w*)"')


@dataclass(frozen=True)
class _Cost:
    flops: float = 0
    bytes_read: float = 0
    bytes_written: float = 0
    kernels: tuple[tuple[str, int], ...] = ()  # names and launches

    def plus(self, other: _Cost, times: int) -> _Cost:
        return _Cost(
            self.flops + times * other.flops,
            self.bytes_read + times * other.bytes_read,
            self.bytes_written + times * other.bytes_written,
            self.kernels + tuple((name, times * launches) for name, launches in other.kernels),
        )


def kernel_names(hlo: str) -> list[str]:
    """Names of the instructions of an optimized HLO module's entry computation that run as kernels, without numbers."""
    names, inside = [], False
    for line in hlo.splitlines():
        if line.startswith("ENTRY"):
            inside = True
        elif inside and line.startswith("}"):
            break
        elif inside and (found := _INSTRUCTION.match(line)) and found["opcode"] not in _FREE:
            names.append(re.sub(r"(\.\d+)+$", "", found["name"]))
    return names


def count_jax(fn: Callable[..., Any], args: tuple[Any, ...]) -> Counted:
    """Compile `fn(*args)` without running it and return what XLA's cost and memory analysis say.

    Arrays among the arguments, and arrays that `fn` closes over, become parameters of the program, so that XLA cannot
    compute at compile time what should be counted; every other argument is static.
    """
    import jax

    leaves, tree = jax.tree_util.tree_flatten(args)
    places = [i for i, leaf in enumerate(leaves) if _is_array(leaf)]

    def of_arrays(*arrays: Any) -> Any:
        filled = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        return fn(*jax.tree_util.tree_unflatten(tree, filled))

    program = jax.make_jaxpr(of_arrays)(*(leaves[i] for i in places))
    constants = list(_constants(program))
    arrays = [leaves[i] for i in places]
    notes: list[str] = []
    once, compiled = _compile(program, constants, arrays)
    return _counted(program, _with_loops(program, once, compiled, notes), compiled, notes)


def _counted(program: Any, cost: _Cost, compiled: Any, notes: list[str]) -> Counted:
    launches: dict[str, int] = {}
    for name, times in cost.kernels:
        launches[name] = launches.get(name, 0) + times
    memory = compiled.memory_analysis()
    peak = None
    if memory is not None:
        sizes = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")
        peak = float(sum(getattr(memory, size) for size in sizes) - memory.alias_size_in_bytes)
    return Counted(
        flops=cost.flops,
        bytes_read=cost.bytes_read,
        bytes_written=cost.bytes_written,
        launches=sum(launches.values()),
        dtype=_format(program),
        world="jax",
        peak_bytes=peak,
        kernels=tuple(KernelRow(name, times, None, None, None) for name, times in launches.items()),
        notes=tuple(dict.fromkeys(notes)),
    )


def _compile(program: Any, constants: list[Any], arrays: list[Any]) -> tuple[_Cost, Any]:
    """Compile a closed jaxpr with its constants as parameters; XLA counts the body of every loop once."""
    import jax

    def run(consts: list[Any], *values: Any) -> list[Any]:
        return _evaluate(program, iter(consts), list(values))

    compiled = jax.jit(run).lower(constants, *arrays).compile()
    analysis = compiled.cost_analysis()
    if isinstance(analysis, list | tuple):  # one dict per computation in older versions of JAX
        analysis = analysis[0] if analysis else {}
    analysis = analysis or {}
    written = max(0.0, analysis.get("bytes accessedout{}", 0.0))
    read = max(0.0, analysis.get("bytes accessed", 0.0) - written)
    # XLA counts exponentials, logarithms, ... apart from FLOPs; rooflab counts each as one FLOP.
    flops = max(0.0, analysis.get("flops", 0.0)) + max(0.0, analysis.get("transcendentals", 0.0))
    return _Cost(flops, read, written, tuple((name, 1) for name in kernel_names(compiled.as_text()))), compiled


def _with_loops(program: Any, once: _Cost, compiled: Any, notes: list[str]) -> _Cost:
    """Put in place of one turn of each scan as many as it makes; a turn costs what its body costs compiled alone."""
    total, looping = once, " while(" in compiled.as_text()  # a short scan may have been unrolled
    for eqn in _equations(program):
        kind = eqn.primitive.name
        if kind == "scan" and looping:
            body = eqn.params["jaxpr"]
            turn, alone = _compile(body, list(_constants(body)), _placeholders(body))
            total = total.plus(replace(turn, kernels=()), -1)  # the entry computation does not list the body's kernels
            total = total.plus(_with_loops(body, turn, alone, notes), eqn.params["length"])
        elif kind in _NOTES:
            notes.append(_NOTES[kind])
    if opaque := sorted(set(_OPAQUE.findall(compiled.as_text()))):
        notes.append(f"XLA does not know what {', '.join(opaque)} does: its FLOPs and bytes are missing.")
    return total


def _placeholders(program: Any) -> list[Any]:
    import jax

    return [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in program.jaxpr.invars]


def _inner(eqn: Any) -> Any:
    return eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))


def _equations(program: Any) -> Iterator[Any]:
    """Equations of a program, those of wrapped programs (jit in jit) included, bodies of loops not."""
    for eqn in program.jaxpr.eqns:
        if eqn.primitive.name in _WRAPPERS:
            yield from _equations(_inner(eqn))
        else:
            yield eqn


def _constants(program: Any) -> Iterator[Any]:
    """Constants of a program and of the programs wrapped in it, in the order in which `_evaluate` takes them."""
    yield from program.consts
    for eqn in program.jaxpr.eqns:
        if eqn.primitive.name in _WRAPPERS:
            yield from _constants(_inner(eqn))


def _evaluate(program: Any, constants: Iterator[Any], values: list[Any]) -> list[Any]:
    """Run a closed jaxpr with other values in the place of its constants."""
    from jax.extend.core import Literal

    own = [next(constants) for _ in program.consts]
    known = dict(zip([*program.jaxpr.constvars, *program.jaxpr.invars], [*own, *values], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for eqn in program.jaxpr.eqns:
        inputs = [read(atom) for atom in eqn.invars]
        if eqn.primitive.name in _WRAPPERS:
            results = _evaluate(_inner(eqn), constants, inputs)
        else:
            params = eqn.primitive.get_bind_params(eqn.params)
            functions, params = params if isinstance(params, tuple) else ((), params)  # a pair in older versions of JAX
            results = eqn.primitive.bind(*functions, *inputs, **params)
            results = results if eqn.primitive.multiple_results else [results]
        known.update(zip(eqn.outvars, results, strict=True))
    return [read(atom) for atom in program.jaxpr.outvars]


def _is_array(leaf: Any) -> bool:
    import jax
    import numpy as np

    return isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)


def _format(program: Any) -> str:
    """Format of the contractions' operands, else of the inputs, else fp32."""
    equations = list(_equations(program))
    atoms = [eqn.invars[0] for eqn in equations if eqn.primitive.name in ("dot_general", "conv_general_dilated")]
    for atom in [*atoms, *program.jaxpr.invars, *program.jaxpr.constvars, *program.jaxpr.outvars]:
        try:
            return format_name(str(atom.aval.dtype))
        except (ValueError, AttributeError):
            continue
    return "fp32"
