"""How does one call of a kernel run on a GPU and on a CPU alike?

On a GPU Triton launches it. On a CPU Triton's interpreter runs it, with what :mod:`rooflab.counters` mends and finds:
formats of 16 bits are rounded as on a GPU, and an access out of bounds, which the interpreter does not notice, is an
error instead of whatever lies there in memory.

>>> interpreted(device="cuda")
False
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from rooflab.counters.interpreter import interpreting
from rooflab.device import choose_interpreter
from rooflab.extras import require

__all__ = ["FUSED", "interpreted", "launch", "need_triton", "prefer_interpreter", "ready", "repeated"]

# A product and a sum are one multiply-add, as all kernels are counted: Triton's default will be another from 3.10 on.
FUSED = {"enable_fp_fusion": True}
_one_at_a_time = threading.RLock()  # Triton's interpreter changes its language for all threads while it runs
_GPUS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # of NVIDIA's driver, of AMD's, of either under WSL


def prefer_interpreter() -> None:
    """Have kernels interpreted on a machine without a GPU, which Triton decides when it is imported.

    To be called early: torch.compile imports Triton too. TRITON_INTERPRET=0 in the environment says no.
    """
    torch = sys.modules.get("torch")
    choose_interpreter(gpu=any(map(os.path.exists, _GPUS)) if torch is None else torch.cuda.is_available())


def ready() -> None:
    """Prepare to define kernels.

    Raises:
        MissingExtra: torch is not installed; or Triton is not, and there is no Apple GPU, which does without.
    """
    require("torch", "torch")
    import torch

    if torch.backends.mps.is_available():
        return
    prefer_interpreter()
    need_triton()


def need_triton() -> None:
    """Say what is missing where a kernel cannot do without Triton.

    Raises:
        MissingExtra: it is not installed.
    """
    require("triton", "triton")


def interpreted(device: str) -> bool:
    """Whether kernels on a device of this type ("cpu", "cuda") are interpreted.

    Raises:
        RuntimeError: they would have to be, and Triton compiles in this process.
    """
    if device != "cpu":
        return False
    if not interpreting():
        raise RuntimeError(f"A kernel got tensors on the CPU, where it is interpreted; {_why_not()}.")
    return True


def _why_not() -> str:
    """Why kernels are compiled in this process, and what to do to have them interpreted."""
    import torch

    if torch.cuda.is_available():
        return "move them to the GPU, or set TRITON_INTERPRET=1 in the environment before the process begins"
    if os.environ.get("TRITON_INTERPRET") not in (None, "1"):
        return f"leave TRITON_INTERPRET={os.environ['TRITON_INTERPRET']} out of the environment"
    return (
        "Triton was imported before it was known that there is no GPU: restart the process, and import rooflab.kernels "
        "first, before anything imports triton"
    )


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Launch a Triton kernel where its tensors are.

    Args:
        kernel: made by `triton.jit`.
        grid: numbers of programs along one to three axes; nothing is launched where one is zero.
        args: tensors of one device, descriptors of tensors, and numbers; a tensor or a descriptor first.
        constants: the `tl.constexpr` arguments, and Triton's own (`num_warps`, `num_stages`).

    Raises:
        RuntimeError: an interpreted kernel reached beyond its tensors, or read what was never written.
    """
    import torch

    if 0 in grid:
        return
    device = _device(args)
    if not interpreted(device.type):
        if device.index in (None, torch.cuda.current_device()):
            kernel[grid](*args, **constants, **FUSED)
        else:
            with torch.cuda.device(device):
                kernel[grid](*args, **constants, **FUSED)
        return
    with _one_at_a_time:
        _interpret(kernel, grid, args, constants)


def _interpret(kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...], constants: dict[str, Any]) -> None:
    from rooflab.counters.torch_ops import TorchCounter
    from rooflab.counters.triton_kernels import KernelTracer

    if KernelTracer.stack:  # somebody counts already, and reports the faults
        kernel[grid](*args, **constants)
        return
    tracer = KernelTracer(TorchCounter())
    with tracer.active():
        kernel[grid](*args, **constants)
    found = tracer.counted()
    if found is not None and found.faults:
        raise RuntimeError(f"The kernel {kernel.__name__} has a fault: {found.faults[0]}")


def repeated(kernel: Any, grid: tuple[int, ...], **constants: Any) -> Callable[..., None]:
    """Return a function of a kernel's arguments that launches it many times, each in less time.

    Triton looks at all arguments and options at every launch, to find out whether it has to compile anew; this takes
    longer than the launch. Here it does so once, so all calls must have arguments of one kind: tensors of one device
    and of the same formats, whose addresses are all multiples of 16 bytes or all not, and the same numbers.

    Args:
        kernel: made by `triton.jit`.
        grid: as in :func:`launch`, but not empty.
        constants: as in :func:`launch`.
    """
    import torch

    ready: Any = None
    values: tuple[Any, ...] = ()

    def again(*args: Any) -> None:
        nonlocal ready, values
        device = _device(args)
        # Interpreted, nothing is compiled; hooks are there to see every launch; of another device Triton is told.
        usual = device.type != "cpu" and not getattr(kernel, "pre_run_hooks", True)
        if not usual or device.index != torch.cuda.current_device():
            launch(kernel, grid, *args, **constants)
            return
        if ready is None:
            values = tuple(constants[name] for name in kernel.arg_names[len(args) :])
            compiled = kernel.warmup(*args, grid=grid, **constants, **FUSED)  # and not launched
            ready = compiled[(*grid, 1, 1)[:3]]
        ready(*args, *values)

    return again


def _device(args: tuple[Any, ...]) -> Any:
    import torch

    return (args[0] if isinstance(args[0], torch.Tensor) else args[0].base).device  # a descriptor's base is its tensor
