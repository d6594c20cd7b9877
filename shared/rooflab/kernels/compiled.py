"""What does a Triton kernel become on a chip: which instructions, how many registers, how much is spilled?

No GPU is needed: Triton brings the compilers of both vendors. This process must not interpret kernels.

>>> count_instructions({"ptx": "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {...};"}, ("wgmma.mma_async",))
{'wgmma.mma_async': 1}
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .launching import FUSED
from .targets import TARGETS, target

__all__ = ["MATRIX", "Build", "Compiled", "compile_for", "count_instructions", "types_of"]

# What a product of tiles is called in PTX, and in AMD's assembly.
MATRIX = ("mma.sync", "wgmma.mma_async", "tcgen05.mma", "v_mfma")


@dataclass(frozen=True)
class Build:
    """One way to compile a kernel.

    Attributes:
        kernel: made by `triton.jit`.
        types: of each argument that is no constant, such as `*bf16` or `i32`.
        constants: the `tl.constexpr` arguments.
        warps: in a program.
        stages: of the software pipeline.
        unaligned: the arguments that 16 does not divide; all other pointers and whole numbers are taken to be
            divisible, as they are in a typical call.
        chips: targets that this way is for (default: every one).
        gluon: the kernel is made by `gluon.jit`, which says how blocks lie in threads and in memory.
    """

    kernel: Any
    types: Mapping[str, str]
    constants: Mapping[str, Any] = field(default_factory=dict)
    warps: int = 4
    stages: int = 3
    unaligned: tuple[str, ...] = ()
    chips: tuple[str, ...] = tuple(TARGETS)
    gluon: bool = False


@dataclass(frozen=True)
class Compiled:
    """A kernel for a chip.

    Attributes:
        kernel: its name.
        target: the chip's instruction set.
        registers: of 32 bits, of each thread.
        spill_bytes: of each thread, stored to memory because registers ran out, and loaded again.
        shared_bytes: of each program.
        warps: in a program.
        matrix: instructions that multiply tiles, by name: how often they stand in the code.
        text: every stage of the compilation, by name: "ttir", "ttgir", "llir", "ptx" and "sass", or "amdgcn".
    """

    kernel: str
    target: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    warps: int
    matrix: Mapping[str, int]
    text: Mapping[str, str] = field(repr=False)

    def resident(self) -> int:
        """How many programs the registers and the shared memory of one multiprocessor hold at a time."""
        chip = target(self.target)
        threads = self.warps * chip.warp_size
        if chip.vendor == "nvidia":
            # They are given out eight at a time (CUDA C++ Programming Guide 13.0, compute capabilities).
            by_registers = 65536 // (-(-max(1, self.registers) // 8) * 8 * threads)
        else:  # four SIMDs, each of which holds up to 8 wavefronts
            by_registers = 4 * min(8, chip.registers // max(1, self.registers)) // self.warps
        by_shared = (chip.shared_bytes + 1024) // (self.shared_bytes + 1024)
        return max(1, min(by_registers, by_shared, 2048 // threads))

    def longest_loop(self) -> int:
        """How many instructions stand in the longest loop of NVIDIA's machine code; 0 if there is none."""
        return max((last - first + 1 for first, last in _loops(self.text.get("sass", ""))), default=0)


def types_of(arrays: str, numbers: str, exact: str = "") -> dict[str, str]:
    """Return Triton's types of arguments, by name.

    Args:
        arrays: names of arrays in bf16, with a space between.
        numbers: names of whole numbers.
        exact: names of arrays in fp32.
    """
    kinds = {"*bf16": arrays, "i32": numbers, "*fp32": exact}
    return {name: kind for kind, names in kinds.items() for name in names.split()}


def compile_for(build: Build, name: str) -> Compiled:
    """Compile a kernel for a chip that need not be there.

    Args:
        build: the kernel with its types and constants.
        name: of the target (see :func:`rooflab.kernels.targets.target`).

    Raises:
        ValueError: there is no such target.
        RuntimeError: Triton interprets kernels in this process, or cannot compile this one.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.interpreter import InterpretedFunction

    chip = target(name)
    if isinstance(build.kernel, InterpretedFunction):
        raise RuntimeError("Triton interprets kernels in this process: compile in one without TRITON_INTERPRET=1.")
    names = list(build.kernel.arg_names)
    known = [each for each, kind in build.types.items() if kind.startswith("*") or kind in ("i32", "i64")]
    places = {(names.index(each),): [["tt.divisibility", 16]] for each in known if each not in build.unaligned}
    constants = {(names.index(key),): value for key, value in build.constants.items()}
    types = {each: "constexpr" if each in build.constants else build.types[each] for each in names}
    if build.gluon:
        from triton.experimental.gluon._runtime import GluonASTSource as Source
    else:
        Source = ASTSource
    source = Source(build.kernel, types, constants, places)
    made_for = GPUTarget("cuda" if chip.vendor == "nvidia" else "hip", chip.arch, chip.warp_size)
    try:
        options = {"num_warps": build.warps, "num_stages": build.stages, **FUSED}
        made = triton.compile(source, target=made_for, options=options)
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise RuntimeError(f"{build.kernel.__name__} cannot be compiled for {name}: {lines[-1]}") from error
    text = {stage: told for stage, told in made.asm.items() if isinstance(told, str)}
    registers, spilled = _nvidia(made, text) if chip.vendor == "nvidia" else _amd(text["amdgcn"])
    return Compiled(
        build.kernel.__name__, name, registers, spilled, int(made.metadata.shared), build.warps,
        count_instructions(text, MATRIX), text,
    )  # fmt: skip


def count_instructions(text: Mapping[str, str], wanted: Iterable[str]) -> dict[str, int]:
    """Return how often instructions stand in PTX or in AMD's assembly, without those that do not."""
    code = text.get("ptx") or text.get("amdgcn") or ""
    found = Counter(re.findall("|".join(re.escape(name) for name in wanted), code))
    return {name: found[name] for name in wanted if found[name]}


def _loops(sass: str) -> list[tuple[int, int]]:
    """The numbers of the first and of the last instruction of each loop: a branch back to a label.

    What stands behind the last exit is no loop: there those go who wait for a barrier, and from there back.
    """
    labels: dict[str, int] = {}
    found, number = [], -1
    for line in sass.rpartition(" EXIT")[0].splitlines():
        if label := re.match(r"(\.L_\w+):", line):
            labels[label[1]] = number + 1
        elif re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+\S", line):
            number += 1
            branch = re.search(r"\bBRA\b.*`\((\.L_\w+)\)", line)
            if branch and branch[1] in labels and labels[branch[1]] < number:  # one to itself ends the code
                found.append((labels[branch[1]], number))
    return found


def _nvidia(made: Any, text: dict[str, str]) -> tuple[int, int]:
    """Registers and spills, from the machine code; its text is added to the stages."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "kernel.cubin")
        cubin.write_bytes(made.asm["cubin"])
        text["sass"] = _tool("nvdisasm", "-c", str(cubin))
        used = _tool("cuobjdump", "-res-usage", str(cubin))
    found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", used)
    if found is None:
        raise RuntimeError(f"cuobjdump does not say what the kernel uses: {used.strip().splitlines()[-1:]}")
    registers, stack, local = map(int, found.groups())
    return registers, stack + local


def _amd(code: str) -> tuple[int, int]:
    told = {
        name: int(number) for name, number in re.findall(r"\.(\w+_count|private_segment_fixed_size):\s+(\d+)", code)
    }
    return told.get("vgpr_count", 0) + told.get("agpr_count", 0), told.get("private_segment_fixed_size", 0)


def _tool(name: str, *arguments: str) -> str:
    """Run one of NVIDIA's tools that come with Triton."""
    import triton.backends.nvidia

    path = Path(triton.backends.nvidia.__path__[0], "bin", name)
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return done.stdout
