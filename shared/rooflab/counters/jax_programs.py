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
from contextlib import suppress
from typing import Any

from rooflab.units import format_name

from .counted import Counted, KernelRow
from .jax_cost import Cost
from .jax_loops import Loops, computations

__all__ = ["count_jax", "kernel_names"]

# Primitives that only wrap another program; they are taken apart so that no constant stays hidden inside.
_WRAPPERS = frozenset({"jit", "pjit", "closed_call", "core_call"})

_PALLAS = "XLA cannot look into a Pallas kernel: its part is what its cost estimate says, if anything."
_ERF = "XLA may compute {} by polynomials: their FLOPs are counted then, tens an element."
_GATHER = "XLA may count the whole array that a gather takes a few elements from as read."
_PARTS = "The program is split over {} devices: the numbers are those of one."
_FOLDED = "XLA may compute with arrays that a {} holds while it compiles: pass them as arguments to have all counted."
_MARKERS = ("Sharding", "SPMD", "AllocateBuffer", "xla.sdy", "annotate", "PinTo", "MoveTo")  # no work


def kernel_names(hlo: str) -> list[str]:
    """Names of the instructions of an optimized HLO module's entry computation that run as kernels, without numbers."""
    return [name for part in computations(hlo).values() if part.is_entry for name in part.kernels]


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
    compiled = _compile(program, constants, arrays)
    module, client = None, None
    with suppress(AttributeError, IndexError, RuntimeError):  # not in every version; then a note is made of loops
        executable = compiled.runtime_executable()
        module, client = executable.hlo_modules()[0], executable.client
    loops = Loops(compiled.as_text(), module, client)
    cost = loops.total(compiled.cost_analysis())
    return _counted(program, cost, compiled, loops)


def _counted(program: Any, cost: Cost, compiled: Any, loops: Loops) -> Counted:
    launches = loops.launches()
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
        notes=tuple(dict.fromkeys([*loops.notes, *_notes(program, loops)])),
    )


def _compile(program: Any, constants: list[Any], arrays: list[Any]) -> Any:
    """Compile a closed jaxpr with its constants as parameters."""
    import jax

    def run(consts: list[Any], *values: Any) -> list[Any]:
        return _evaluate(program, iter(consts), list(values))

    return jax.jit(run).lower(constants, *arrays).compile()


def _notes(program: Any, loops: Loops) -> Iterator[str]:
    """Say what XLA's count leaves out, apart from loops."""
    for eqn in _equations(program):
        if eqn.primitive.name == "pallas_call" and not eqn.params.get("interpret"):
            yield _PALLAS
        elif eqn.primitive.name in ("erf", "erfc", "erf_inv"):
            yield _ERF.format(eqn.primitive.name)
        elif eqn.primitive.name == "gather":
            yield _GATHER
        elif eqn.primitive.name not in _WRAPPERS and any(_held(inner) for inner in _programs(eqn)):
            yield _FOLDED.format(eqn.primitive.name)
    targets = {target for part in loops.parts.values() for target in part.unknown}
    if opaque := sorted(target for target in targets if not target.startswith(_MARKERS)):
        yield f"XLA does not know what {', '.join(opaque)} does: its FLOPs and bytes are missing."
    if parts := re.search(r"num_partitions=(\d+)", loops.text):
        yield _PARTS.format(parts[1])


def _programs(eqn: Any) -> Iterator[Any]:
    """Programs (jaxprs, closed or not) among the parameters of an equation, whatever the parameters are called."""
    pending = list(eqn.params.values())
    while pending:
        value = pending.pop(0)
        if isinstance(value, list | tuple):
            pending[:0] = value
        elif hasattr(value, "eqns"):
            yield value


def _held(program: Any) -> bool:
    """Whether a closed jaxpr has arrays of its own."""
    return any(getattr(constant, "ndim", 0) for constant in getattr(program, "consts", ()))


def _inner(eqn: Any) -> Any:
    return eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))


def _equations(program: Any) -> Iterator[Any]:
    """Equations of a program and of all programs in it."""
    for eqn in program.eqns:
        yield eqn
        for inner in _programs(eqn):
            yield from _equations(inner)


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
