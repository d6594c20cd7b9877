"""How long did these calls take? Three clocks with one interface.

* ``HostClock`` waits for the device and reads the host's clock: what a step costs in wall-clock time.
* ``EventClock`` stamps the device's own stream: what the device was busy with, launch gaps included, host time not.
* ``GraphClock`` records the calls once and replays them: kernels back to back, for work shorter than its launch.

Each ``bind`` turns a function into ``run(calls)``, which makes that many calls and returns their seconds:

>>> run = HostClock().bind(lambda _: sum(range(10)))
>>> run(3) > 0
True
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Clock", "EventClock", "GraphClock", "HostClock", "cache_flusher", "made_by_jax", "named_clock", "wait"]

# A bound function takes the number of the call, so that it can rotate through inputs.
Call = Callable[[int], Any]
Run = Callable[[int], float]


class Clock(Protocol):
    """What ``measure`` needs of a clock."""

    name: str
    resolution_s: float

    def bind(self, call: Call) -> Run:
        """Prepare ``call(i)``; the result runs it ``calls`` times and returns the seconds of all of them."""


def wait(value: Any = None) -> None:
    """Wait until ``value`` (arrays in any nesting) is computed and torch's accelerator has nothing queued.

    Frameworks that were never imported are not waited for.
    """
    if value is not None and "jax" in sys.modules:
        sys.modules["jax"].block_until_ready(value)
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda"):
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        elif torch.backends.mps.is_available():
            torch.mps.synchronize()


def made_by_jax(value: Any) -> bool:
    """Whether there is a JAX array anywhere in ``value``: work that torch's streams and events do not see."""
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value))


class HostClock:
    """The host's clock, read before the first call and after the device has finished the last.

    Args:
        now: seconds since any fixed moment; replaced in tests by a fake machine's clock.
        wait: takes the last call's result and returns when it is there. A device works in order, so the calls before
            it are done too.
        resolution_s: the smallest step of ``now``.
    """

    name = "host"

    def __init__(self, now: Callable[[], float] = time.perf_counter, wait: Callable[[Any], None] = wait, *,
                 resolution_s: float | None = None) -> None:  # fmt: skip
        self.now, self.wait = now, wait
        own = time.get_clock_info("perf_counter").resolution if now is time.perf_counter else 0.0
        self.resolution_s = own if resolution_s is None else resolution_s

    def bind(self, call: Call) -> Run:
        """Prepare a function; nothing runs yet."""

        def run(calls: int) -> float:
            self.wait(None)
            result = None
            start = self.now()
            for i in range(calls):
                result = call(i)
            self.wait(result)
            return self.now() - start

        return run


class EventClock:
    """CUDA (or HIP) events around the calls on torch's current stream."""

    name = "events"
    resolution_s = 0.5e-6  # cudaEventElapsedTime, CUDA runtime API reference

    def __init__(self) -> None:
        self._torch = _torch_with_gpu("device events")

    def bind(self, call: Call) -> _EventRun:
        """Prepare a function; nothing runs yet."""
        return _EventRun(self._torch, call)


class _EventRun:
    """A bound function between two events: run it and wait, or only queue it and read its time later."""

    def __init__(self, torch: Any, call: Call) -> None:
        self._torch, self._call = torch, call

    def __call__(self, calls: int) -> float:
        return self.begin(calls)()

    def begin(self, calls: int) -> Callable[[], float]:
        """Queue a sample; the result waits for it and returns its seconds.

        A device whose next sample is queued already does not fall idle between two of them, which would let it cool
        and then run faster than it can for long.
        """
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for i in range(calls):
            self._call(i)
        end.record()

        def read() -> float:
            end.synchronize()
            return start.elapsed_time(end) / 1e3

        return read


class GraphClock:
    """A CUDA graph of ``unroll`` calls, replayed between two events.

    Launching from the host costs several microseconds a kernel, replaying well under one: this is the clock for short
    kernels. The function must be capturable: no host reads, no new shapes.
    """

    name = "graph"
    resolution_s = 0.5e-6

    def __init__(self, unroll: int = 20) -> None:
        if isinstance(unroll, bool) or not isinstance(unroll, int) or unroll < 1:
            raise ValueError(f"unroll is {unroll!r}; expected a whole number of 1 or more calls in the graph.")
        self.unroll = unroll
        self._torch = _torch_with_gpu("graph replay")

    def bind(self, call: Call) -> Run:
        """Warm up on a side stream, as capture demands, and record the graph."""
        torch = self._torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for i in range(3):
                call(i)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(self.unroll):
                call(i)
        events = EventClock()
        replay = events.bind(lambda _: graph.replay())

        def run(calls: int) -> float:
            replays = max(1, -(-calls // self.unroll))
            return replay(replays) * calls / (replays * self.unroll)

        return run


def _torch_with_gpu(what: str) -> Any:
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        raise RuntimeError(f"Timing by {what} needs a CUDA or ROCm device that torch sees; use clock='host' here.")
    return torch


def named_clock(clock: str | Clock) -> Clock:
    """The clock of that name ("host", "events", "graph"); a clock stands for itself."""
    if not isinstance(clock, str):
        if isinstance(clock, type) or not all(hasattr(clock, name) for name in ("name", "resolution_s", "bind")):
            raise TypeError(f"clock is {clock!r}; expected 'host', 'events', 'graph' or a Clock, such as HostClock().")
        return clock
    kinds: dict[str, Callable[[], Clock]] = {"host": HostClock, "events": EventClock, "graph": GraphClock}
    if clock not in kinds:
        raise ValueError(f"clock is {clock!r}; expected one of {', '.join(map(repr, kinds))} or a Clock.")
    return kinds[clock]()


def cache_flusher() -> Callable[[], None]:
    """A function that replaces what the caches of this process's device hold, by writing twice their size or more."""
    from .device import find_device

    device = find_device()
    nbytes = int(2 * (device.cache_bytes or 64 * 2**20))  # an unknown cache is taken for one of 64 MiB
    if device.torch in ("cuda", "mps"):
        import torch

        # As much as triton.testing.do_bench writes: the pause lets the chip cool alike, so that both see one clock.
        nbytes = max(nbytes, 256 * 2**20)
        buffer = torch.empty(nbytes, dtype=torch.uint8, device=device.torch)

        def flush() -> None:
            buffer.zero_()

    elif device.is_accelerator and device.jax is not None:
        import jax
        import jax.numpy as jnp

        write = jax.jit(lambda value: jnp.full(nbytes, value, dtype=jnp.uint8))

        def flush() -> None:
            jax.block_until_ready(write(1))

    else:
        import numpy as np

        host = np.zeros(nbytes, dtype=np.uint8)

        def flush() -> None:
            host.fill(1)

    return flush
