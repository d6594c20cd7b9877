"""What would a timer read on a device whose truth is known?

A fake machine: a host, a device that works through a queue, and a clock that moves only when they do. No real time
passes, and the same settings and calls always give the same readings. It lies in the ways that real machines lie.

>>> machine = FakeMachine(kernels={"work": 100_000}, launch_ns=5_000, wait_ns=3_000)
>>> machine.launch("work"), f"{machine.now():.6f} s"
(None, '0.000005 s')
>>> machine.wait(), f"{machine.now():.6f} s"
(None, '0.000108 s')
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b

__all__ = ["FakeMachine", "Settings"]

_COUNTS = ("launch_ns", "wait_ns", "compile_ns", "hiccup_every", "hiccup_ns", "cache_bytes")
_FLOORS = {"queue_depth": 1, "resolution_ns": 1, "max_launches": 1, "memory_bytes_per_ns": 1, "cache_bytes_per_ns": 1,
           "outlier_factor": 1, "neighbour_factor": 1, "drift_limit": 1, "jitter": 0, "outlier_share": 0,
           "drift_per_call": 0}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """What a fake machine is made of: plain data, so that two processes can build the same machine.

    Times are whole nanoseconds. "Call i" counts the launches of all kernels from 0: what happens depends on how much
    the device has run, not on how long the host dawdled in between.

    Attributes:
        kernels: name to device time at full speed, in ns.
        kernel_bytes: name to bytes of its buffer, all of which a call moves, on top of the time in ``kernels``.
        launch_ns: host time of a launch.
        wait_ns: host time of a synchronization, after the device has finished.
        compile_ns: host time that the first launch of each kernel takes on top.
        queue_depth: launches that may be unfinished; one more blocks the host until the oldest ends.
        tune_factors: the first calls of each kernel try variants that take so many times as long.
        jitter: noise of every call: it takes up to this share longer, mostly much less.
        hiccup_every: every so many calls, one takes ``hiccup_ns`` longer (0: never).
        hiccup_ns: see ``hiccup_every``.
        outlier_share: this share of the calls, at random, takes ``outlier_factor`` times as long.
        outlier_factor: see ``outlier_share``.
        drift_per_call: the clock decays with heat: call i takes 1 + i * drift_per_call times as long.
        drift_limit: at most so many times.
        neighbour_calls: [first, end) ranges of calls during which a neighbour is busy.
        neighbour_factor: how many times as long a call takes meanwhile.
        memory_bytes_per_ns: bandwidth of the memory; 1 byte per ns is 1 GB/s.
        cache_bytes: size of the cache (0: none). A buffer that was last used D bytes of traffic ago, its own
            included, still has the share min(1, cache_bytes / D) in the cache.
        cache_bytes_per_ns: bandwidth of the cache.
        resolution_ns: the host clock shows multiples of this, rounded down.
        seed: of jitter and outliers.
        max_launches: more raise RuntimeError, so that a loop without end ends.
    """

    kernels: Mapping[str, int] = field(default_factory=lambda: {"work": 100_000})
    kernel_bytes: Mapping[str, int] = field(default_factory=dict)
    launch_ns: int = 5_000
    wait_ns: int = 3_000
    compile_ns: int = 0
    queue_depth: int = 1024
    tune_factors: Sequence[float] = ()
    jitter: float = 0.0
    hiccup_every: int = 0
    hiccup_ns: int = 0
    outlier_share: float = 0.0
    outlier_factor: float = 10.0
    drift_per_call: float = 0.0
    drift_limit: float = 2.0
    neighbour_calls: Sequence[Sequence[int]] = ()
    neighbour_factor: float = 1.5
    memory_bytes_per_ns: float = 1000.0
    cache_bytes: int = 0
    cache_bytes_per_ns: float = 4000.0
    resolution_ns: int = 1
    seed: int = 0
    max_launches: int = 100_000

    def __post_init__(self) -> None:
        for name, least in {**dict.fromkeys(_COUNTS, 0), **_FLOORS}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least {least}.")
        if not self.kernels or min(self.kernels.values()) < 0:
            raise ValueError(f"kernels is {dict(self.kernels)}; expected a name with a time in ns, 0 or more.")
        if not set(self.kernel_bytes) <= set(self.kernels):
            raise ValueError(f"kernel_bytes names {sorted(self.kernel_bytes)}, kernels are {sorted(self.kernels)}.")


class FakeMachine:
    """A host with a clock and a device with a queue.

    Args:
        settings: see ``Settings``.

    Raises:
        TypeError: a setting that does not exist.
        ValueError: a setting out of range.
    """

    def __init__(self, **settings: object) -> None:
        known = {f.name for f in fields(Settings)}
        if unknown := sorted(set(settings) - known):
            raise TypeError(f"a fake machine has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}.")
        self._settings = Settings(**settings)  # type: ignore[arg-type]
        self._host_ns = 0
        self._free_ns = 0  # when the device will have finished what is queued
        self._queue: deque[int] = deque()  # ends of unfinished launches, for the depth
        self._calls = 0
        self._calls_of = dict.fromkeys(self._settings.kernels, 0)
        self._in_cache: dict[int, int] = {}  # buffer -> bytes, the last used at the end
        self._log: list[tuple] = []

    # The three calls that a timer needs.

    def now(self) -> float:
        """The host clock in seconds, at its resolution. Reading it takes no time."""
        self._log.append(("read", self._host_ns))
        return self._host_ns // self._settings.resolution_ns * self._settings.resolution_ns / 1e9

    def launch(self, kernel: str = "work", *, buffer: int = 0) -> None:
        """Queue a kernel and return, most likely before it has run.

        Args:
            kernel: one of the settings' ``kernels``.
            buffer: which of as many buffers as you like the kernel moves, if it moves any.

        Raises:
            ValueError: an unknown kernel.
            RuntimeError: more than ``max_launches``.
        """
        s = self._settings
        if kernel not in s.kernels:
            raise ValueError(f"no kernel {kernel!r} on this machine; it has {', '.join(map(repr, s.kernels))}.")
        if self._calls >= s.max_launches:
            raise RuntimeError(f"more than {s.max_launches} launches: does the loop end?")
        self._host_ns += s.launch_ns + (s.compile_ns if self._calls_of[kernel] == 0 else 0)
        self._make_room()
        start_ns = max(self._host_ns, self._free_ns)
        self._free_ns = start_ns + self._duration_ns(kernel, buffer)
        self._queue.append(self._free_ns)
        self._calls += 1
        self._calls_of[kernel] += 1
        self._log.append(("launch", self._host_ns, kernel, buffer, start_ns, self._free_ns))

    def wait(self, _result: object = None) -> None:
        """Synchronize: return when the device has nothing left to do. The argument is ignored."""
        self._host_ns = max(self._host_ns, self._free_ns) + self._settings.wait_ns
        self._queue.clear()
        self._log.append(("wait", self._host_ns))

    # What else a device can be told.

    def flush(self) -> None:
        """Queue a write of as many bytes as the cache holds, which leaves nothing of the buffers in it."""
        s = self._settings
        self._host_ns += s.launch_ns
        self._free_ns = max(self._host_ns, self._free_ns) + round(s.cache_bytes / s.memory_bytes_per_ns)
        self._in_cache.clear()
        self._log.append(("flush", self._host_ns))

    def stamp(self) -> float:
        """A timestamp of the device, in seconds: when it will reach this point of its queue (a device event).

        Real ones are known only after a wait; this one is known at once.
        """
        return max(self._host_ns, self._free_ns) / 1e9

    @property
    def resolution_s(self) -> float:
        """The smallest step of the host clock, in seconds."""
        return self._settings.resolution_ns / 1e9

    # What happened, for figures, tests and grading.

    @property
    def log(self) -> list[tuple]:
        """All events in order; all times exact, in ns.

        ``("launch", host, kernel, buffer, start, end)``, ``("wait", host)``, ``("flush", host)``, ``("read", host)``;
        ``host`` is the host's time when the call returned, ``start`` and ``end`` are the device's.
        """
        return list(self._log)

    def order(self) -> list[str]:
        """The kernels in the order of their launches."""
        return [event[2] for event in self._log if event[0] == "launch"]

    def durations_s(self, kernel: str | None = None) -> list[float]:
        """The device times of all launches, or of one kernel's, in seconds: the truth."""
        launches = [e for e in self._log if e[0] == "launch" and kernel in (None, e[2])]
        return [(end - start) / 1e9 for *_, start, end in launches]

    def busy_reads(self) -> int:
        """How many times the clock was read while the device still had work."""
        count = free_ns = 0
        for event in self._log:
            free_ns = event[5] if event[0] == "launch" else free_ns
            count += event[0] == "read" and event[1] < free_ns
        return count

    def _make_room(self) -> None:
        while self._queue and self._queue[0] <= self._host_ns:
            self._queue.popleft()
        if len(self._queue) >= self._settings.queue_depth:
            self._host_ns = self._queue.popleft()

    def _duration_ns(self, kernel: str, buffer: int) -> int:
        s, call, own = self._settings, self._calls, self._calls_of[kernel]
        time_ns = s.kernels[kernel] + self._traffic_ns(kernel, buffer)
        time_ns *= min(1 + s.drift_per_call * call, s.drift_limit)
        if own < len(s.tune_factors):
            time_ns *= s.tune_factors[own]
        if any(first <= call < end for first, end in s.neighbour_calls):
            time_ns *= s.neighbour_factor
        time_ns *= 1 + s.jitter * _uniform(s.seed, 1, call) ** 2
        if _uniform(s.seed, 2, call) < s.outlier_share:
            time_ns *= s.outlier_factor
        if s.hiccup_every and (call + 1) % s.hiccup_every == 0:
            time_ns += s.hiccup_ns
        return round(time_ns)

    def _traffic_ns(self, kernel: str, buffer: int) -> float:
        s, own_bytes = self._settings, self._settings.kernel_bytes.get(kernel, 0)
        if own_bytes == 0:
            return 0.0
        share = 0.0
        if buffer in self._in_cache:
            buffers = list(self._in_cache)
            since = sum(self._in_cache[b] for b in buffers[buffers.index(buffer) + 1 :])
            share = min(1.0, s.cache_bytes / (since + own_bytes))
            del self._in_cache[buffer]
        self._in_cache[buffer] = own_bytes
        return own_bytes * (share / s.cache_bytes_per_ns + (1 - share) / s.memory_bytes_per_ns)


def _uniform(seed: int, stream: int, index: int) -> float:
    """A number in [0, 1) that depends on its arguments only, on every machine and in every version of Python."""
    digest = blake2b(f"{seed} {stream} {index}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53
