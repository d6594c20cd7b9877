"""What is read around a timed call, so that it finds a cold cache, and before it, so that the host gets ahead?

>>> ballast("cpu").numel()
0
"""

from __future__ import annotations

from typing import Any

from .digest import chained, key_of

__all__ = ["ballast", "lead"]

_CACHES = 2  # sizes of the cache that are read before and after a call
_LEAD = 4  # passes over these data for each call: what a host that is a little slower than the device falls behind


def ballast(device: str) -> Any:
    """Return words of twice the size of a GPU's cache, the same in every process; none on a CPU, which is not timed."""
    import torch

    words = 0
    if torch.device(device).type == "cuda":
        cache_bytes = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0) or 64 * 2**20
        words = _CACHES * int(cache_bytes) // 4
    generator = torch.Generator(device=device).manual_seed(0)
    made = torch.empty(words, dtype=torch.int32, device=device)
    return made.random_(0, 2**31 - 1, generator=generator)


def lead(ballast: Any, key: int, calls: int) -> Any:
    """Give the device so much to do before several calls that the host gets ahead of it; returns what has come of it.

    It is part of the digest, so that nobody can leave it out, and it is bound by memory, so that nobody does it faster.
    """
    return chained(ballast, key_of(key, -1), passes=_LEAD * calls)
