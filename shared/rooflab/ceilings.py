"""What are this device's own ceilings?

Memory bandwidth, matmul rate per format, and the cost of a launch, measured once per device and set of versions, kept
with their date. Ratios in this book are to measured ceilings; datasheets stand beside them.

>>> from rooflab.ceilings import copy_size
>>> copy_size(memory_bytes=2 * 2**30, cache_bytes=32 * 2**20, accelerator=False) // 2**20
128
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

from . import state
from .costs import copy, matmul
from .device import Device, find_device
from .measurement import Measurement, measure, measure_all
from .roofline import Ceilings
from .shortage import clear_shortage

__all__ = ["copy_size", "matmul_call", "matmul_rate", "matmul_size", "measured_ceilings"]

DISTURBED = 0.5  # p20 to p80 as a share of the median: more than a device left alone shows
# Formats that this device might multiply, fastest last so that the clocks are warm when they matter most.
FORMATS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")


def measured_ceilings(
    device: Device | None = None, *, fresh: bool = False, say: Callable[[str], None] | None = None
) -> Ceilings:
    """The measured ceilings of a device, from the cache when they were measured with these versions before.

    Args:
        device: default: the one that is there.
        fresh: measure again.
        say: called with a few words before each measurement, for progress.

    Raises:
        OutOfMemory: the device has no room for the arrays; nothing is kept then.
        RuntimeError: what is installed multiplies in none of the device's formats.
    """
    device = find_device() if device is None else device
    if not isinstance(device, Device):
        raise TypeError(f"expected a Device, such as find_device(); found {device!r:.60}")
    name = f"ceilings/{device.slug}.json"
    key = {"device": device.name, "versions": {k: device.versions.get(k, "") for k in ("torch", "jax")}}
    kept = None if fresh else _kept(name, key)
    if kept is not None:
        return kept
    say = say or (lambda _: None)
    found, disturbed = _measure(device, say)
    if disturbed:
        print(f"Something else kept the device busy while its ceilings were measured ({', '.join(disturbed)}); "
              "they will be measured again next time.")  # fmt: skip
    state.write_json(name, {"key": key, "ceilings": found.to_dict(), "disturbed": disturbed})
    return found


def _kept(name: str, key: Mapping[str, Any]) -> Ceilings | None:
    """What the cache holds for this key; None where it holds nothing, or nothing that makes sense, which is said."""
    kept = state.read_json(name)
    if kept is None and not (state.home() / name).is_file():
        return None
    try:
        if not isinstance(kept, dict) or "key" not in kept:
            raise ValueError("expected ceilings and the key of what they belong to")
        if kept["key"] != key or kept.get("disturbed"):
            return None
        found = Ceilings.from_dict(kept.get("ceilings"))  # type: ignore[arg-type]
        if not found.flops_per_s:
            raise ValueError("expected a rate in one format or more; found none")
    except (TypeError, ValueError) as error:
        print(f"The ceilings kept in {state.home() / name} are damaged ({error}); they are measured again.")
        return None
    return found


def copy_size(*, memory_bytes: float, cache_bytes: float, accelerator: bool) -> int:
    """Bytes of the buffer to copy: beyond any cache, within an eighth of the memory (there are two of them)."""
    wanted = max(4 * cache_bytes, (4 << 30) if accelerator else (128 << 20))
    return int(min(wanted, (memory_bytes or 2 << 30) / 8)) // 2**20 * 2**20


def matmul_size(device: Device, fmt: str) -> int:
    """Side of the square product that shows the format's rate: large enough to hide its edges, no larger."""
    if not device.is_accelerator:
        return 1024
    return {"fp64": 4096, "fp32": 4096}.get(fmt, 8192)


def _measure(device: Device, say: Callable[[str], None]) -> tuple[Ceilings, list[str]]:
    """The ceilings, and the names of the measurements that something disturbed."""
    say("memory bandwidth")
    with clear_shortage("measuring the memory bandwidth"):
        bandwidth = _bandwidth(device)
    products = _rates(device, say)
    say("cost of a launch")
    launch = _launch(device)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    rates = {fmt: (m.work.flops if m.work else 0) / _undisturbed_s(m) for fmt, m in products.items()}
    bytes_per_s = (bandwidth.work.bytes if bandwidth.work else 0) / _undisturbed_s(bandwidth)
    found = Ceilings(bytes_per_s, rates, launch_s=_undisturbed_s(launch), label=device.name, measured=True, date=today)
    return found, [m.name for m in (bandwidth, *products.values()) if m.spread > DISTURBED]


def _undisturbed_s(m: Measurement) -> float:
    """The time that shows a ceiling: a host is shared, and whoever else runs there can only add to the time."""
    return m.p20_s if m.clock == "host" else m.median_s


def _rates(device: Device, say: Callable[[str], None]) -> dict[str, Measurement]:
    """The matmul rate of each format that the device has and that what is installed multiplies."""
    rates: dict[str, Measurement] = {}
    refused = ""
    for fmt in FORMATS:
        if not device.supports(fmt):
            continue
        say(f"matmul rate in {fmt}")
        try:
            with clear_shortage(f"measuring the matmul rate in {fmt}"):
                if matmul_call(device, fmt, 16) is not None:
                    rates[fmt] = matmul_rate(device, fmt, matmul_size(device, fmt))
        except (RuntimeError, NotImplementedError, TypeError) as error:
            # A library may lack a product that the hardware has: fp8 came years after its chips.
            refused = f"{fmt} is left out: {(str(error) or type(error).__name__).splitlines()[0]}"
            say(refused)
    if not rates:
        raise RuntimeError(f"No format could be multiplied on {device.name}; {refused or 'none is supported'}.")
    return rates


def matmul_rate(device: Device, fmt: str, n: int, *, budget_s: float = 0.25) -> Measurement:
    """Measure the product of two random n x n matrices in this format.

    On a GPU each sample is one product between two device events, its inputs flushed from the cache: the protocol of
    ``triton.testing.do_bench``. Products back to back would measure the chip's power limit instead.

    Args:
        device: where to multiply.
        fmt: one of ``units.FORMATS``.
        n: side of the matrices.
        budget_s: seconds of sampling; a GPU's clock takes tens of milliseconds to settle under load.

    Raises:
        ValueError: the installed framework has no product in this format here.
    """
    call = matmul_call(device, fmt, n)
    if call is None:
        raise ValueError(f"expected a format that what is installed multiplies on {device.name}; found {fmt}")
    clock, cold = _device_clock(device), device.torch == "cuda"
    settle = 0.0 if cold else 0.02
    return measure(call, matmul(n, n, n, fmt), name=f"{fmt}, n = {n}", clock=clock, cold=cold, settle=settle,
                   budget_s=budget_s)  # fmt: skip


def _device_clock(device: Device) -> str:
    return "events" if device.torch == "cuda" else "host"


def _bandwidth(device: Device) -> Measurement:
    """The largest copy that is sensible here: bytes read plus bytes written.

    A CPU reads a line before it overwrites part of it, so a copy may move three bytes for every two that count; adding
    in place does not, and the faster of the two is the memory's.
    """
    nbytes = copy_size(
        memory_bytes=device.memory_bytes, cache_bytes=device.cache_bytes, accelerator=device.is_accelerator
    )
    calls = _streaming_calls(device, nbytes)
    times = measure_all(calls, copy(nbytes // 4, "fp32"), clock=_device_clock(device), budget_s=0.6)
    return min(times.values(), key=_undisturbed_s)


def _streaming_calls(device: Device, nbytes: int) -> dict[str, Callable[[], Any]]:
    """Calls that read and write ``nbytes`` each and do next to nothing else."""
    if _torch_drives(device):
        import torch

        source = torch.ones(nbytes // 4, dtype=torch.float32, device=device.torch)
        target = torch.zeros_like(source)
        calls: dict[str, Callable[[], Any]] = {"copy": lambda: target.copy_(source)}
        return calls if device.is_accelerator else calls | {"addition in place": lambda: source.add_(1.0)}
    if device.jax is not None:
        import jax
        import jax.numpy as jnp

        negate = jax.jit(lambda x: -x)
        x = jnp.ones(nbytes // 4, dtype=jnp.float32)
        return {"negate": lambda: negate(x)}
    import numpy as np

    old = np.ones(nbytes // 4, dtype=np.float32)
    new = np.zeros_like(old)
    return {"copy": lambda: np.copyto(new, old), "addition in place": lambda: np.add(old, 1.0, out=old)}


def _torch_drives(device: Device) -> bool:
    """Whether torch computes on the device itself, and not on the CPU beside a TPU."""
    return device.torch is not None and (device.torch != "cpu" or device.kind == "cpu")


def _launch(device: Device) -> Measurement:
    """An operation on a handful of elements, all overhead; of two libraries' the cheaper, since this is a bound."""
    if _torch_drives(device):
        import torch

        x, a, out = (torch.zeros(8, 8, device=device.torch) for _ in range(3))
        calls = {"addition": lambda: x.add_(1.0), "product": lambda: torch.mm(a, a, out=out)}
        return min(measure_all(calls, budget_s=0.3).values(), key=_undisturbed_s)
    if device.jax is not None:
        import jax
        import jax.numpy as jnp

        add, y = jax.jit(lambda v: v + 1.0), jnp.zeros(8)
        return measure(lambda: add(y), budget_s=0.3)
    import numpy as np

    z = np.zeros(8)
    return measure(lambda: np.add(z, 1.0, out=z), budget_s=0.3)


def matmul_call(device: Device, fmt: str, n: int) -> Callable[[], Any] | None:
    """A call that multiplies two random n x n matrices in this format on this device.

    None where the framework that is installed has no product in that format.
    """
    if _torch_drives(device):
        return _torch_matmul(device, fmt, n)
    if device.jax is not None:
        return _jax_matmul(fmt, n)
    import numpy as np

    if fmt not in ("fp32", "fp64"):
        return None
    a, b = (np.random.default_rng(i).standard_normal((n, n)).astype("f4" if fmt == "fp32" else "f8") for i in range(2))
    return lambda: a @ b


def _torch_matmul(device: Device, fmt: str, n: int) -> Callable[[], Any] | None:
    import torch

    dtypes: Mapping[str, Any] = {"fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32,
                                 "fp16": torch.float16, "bf16": torch.bfloat16}  # fmt: skip
    if fmt not in (*dtypes, "fp8") or (fmt in ("tf32", "fp8") and device.kind != "cuda"):
        return None
    # Random data: zeros switch fewer transistors, and the clock goes up with the power saved.
    a, b = (torch.randn(n, n, device=device.torch, dtype=dtypes.get(fmt, torch.float32)) for _ in range(2))
    if fmt == "fp8":
        one = torch.ones((), device=device.torch)
        a8, b8 = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t()
        return lambda: torch._scaled_mm(a8, b8, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    if device.kind != "cuda" or fmt not in ("fp32", "tf32"):
        return lambda: a @ b
    precision = "high" if fmt == "tf32" else "highest"

    def product() -> Any:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        try:
            return a @ b
        finally:
            torch.set_float32_matmul_precision(before)

    return product


def _jax_matmul(fmt: str, n: int) -> Callable[[], Any] | None:
    import jax
    import jax.numpy as jnp

    dtypes = {"fp32": jnp.float32, "bf16": jnp.bfloat16, "fp16": jnp.float16}
    if fmt not in dtypes:
        return None
    keys = jax.random.split(jax.random.key(0), 2)
    a, b = (jax.random.normal(key, (n, n)).astype(dtypes[fmt]) for key in keys)
    product = jax.jit(lambda x, y: jnp.matmul(x, y, precision="highest" if fmt == "fp32" else None))
    return lambda: product(a, b)
