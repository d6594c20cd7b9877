"""Run Metal kernels on a CPU: their source is compiled as C++ with a stand-in for metal_stdlib."""

import ctypes
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import torch

SHIM = Path(__file__).with_name("metal_shim")
COMPILER = shutil.which("g++")
_SIGNATURE = re.compile(r"KERNEL (\w+)\(([^)]*?),\s*POSITION\)", re.DOTALL)
_OURS = re.compile(r"\bthreadgroup float parts")


class Library:
    """What `torch.mps.compile_shader` returns: an object with a function for each kernel."""

    def __init__(self, source, folder, *, backwards=False):
        self.signatures = {
            name: [each.strip().rpartition(" ")[0] for each in arguments.split(",")]
            for name, arguments in _SIGNATURE.findall(source)
        }
        text = _OURS.sub("static float parts", source)  # one for all threads of a threadgroup
        text = re.sub(r"\bthreadgroup float\*", "float*", text) + "".join(map(self._call, self.signatures))
        built = folder / f"{hashlib.sha256(text.encode()).hexdigest()}.so"
        if not built.exists():
            built.with_suffix(".cpp").write_text(text)
            command = [COMPILER, "-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-I", SHIM, "-o", built]
            done = subprocess.run([*command, built.with_suffix(".cpp")], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[:3000]
        self.code, self.backwards = ctypes.CDLL(str(built)), backwards

    def _call(self, name):
        """The kernel for a whole grid, as a function of C."""
        given = []  # the arguments
        for number, kind in enumerate(self.signatures[name]):
            pointer = f"({kind.replace('&', '*')})p[{number}]"
            given.append(f"*{pointer}" if kind.endswith("&") else pointer)
        arguments = ", ".join([*given, "uint2{x, y}", "t", "t % 32", "t / 32"])
        return f"""
extern "C" void call_{name}(uint wide, uint tall, uint threads, bool backwards, void** p) {{
    for (uint y = 0; y < tall; ++y) for (uint x = 0; x < wide; ++x)
        shim::run_group(threads, backwards, [=](uint t) {{ {name}({arguments}); }});
}}
"""

    def __getattr__(self, name):
        if name not in self.signatures:
            raise AttributeError(name)

        def kernel(*given, threads, group_size):
            kinds = self.signatures[name]
            assert len(given) == len(kinds), f"{name} takes {len(kinds)} arguments"
            assert threads[0] % group_size[0] == 0
            assert group_size[1] == 1
            assert group_size[0] in (32, 64, 128, 256, 512, 1024)
            kept = [self._argument(one, kind) for one, kind in zip(given, kinds, strict=True)]
            pointers = (ctypes.c_void_p * len(kept))(*(address for address, _ in kept))
            call = getattr(self.code, f"call_{name}")
            call(threads[0] // group_size[0], threads[1], group_size[0], self.backwards, pointers)

        return kernel

    @staticmethod
    def _argument(given, kind):
        """The address of an argument, and what has to live as long as it is used."""
        if isinstance(given, torch.Tensor):
            assert kind.endswith("*"), kind
            assert given.numel(), "an empty buffer cannot be bound"
            assert ("float" in kind) <= (given.dtype == torch.float32), kind
            return given.data_ptr(), given
        # As PyTorch hands them on: whole numbers in 64 bits, others in 32.
        assert kind == {int: "constant long&", float: "constant float&"}[type(given)], kind
        value = (ctypes.c_long if isinstance(given, int) else ctypes.c_float)(given)
        return ctypes.addressof(value), value
