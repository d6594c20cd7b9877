"""How long does a collective take, and which algorithm is fastest at which size?

The alpha-beta model: a message of b bytes between two ranks takes alpha + b / beta. Every rank sends and receives one
message at a time, all ranks at once, over links that do not share bandwidth; the arithmetic of a reduction is free.

>>> nvlink = Link(alpha_s=2e-6, beta_bytes_per_s=450e9)
>>> ring = allreduce(1e9, 8, nvlink)
>>> ring.steps, ring.sent_bytes, round(ring.bus_bytes_per_s / 1e9, 1)
(14, 1750000000.0, 446.8)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral

from .work import LARGEST, check_counts, check_number

__all__ = [
    "Collective", "Link", "all_gather", "all_to_all", "allreduce", "broadcast", "crossover_bytes", "reduce_scatter",
]  # fmt: skip


@dataclass(frozen=True)
class Link:
    """What connects two ranks: seconds to start a message, and bytes per second in one direction."""

    alpha_s: float
    beta_bytes_per_s: float

    def __post_init__(self) -> None:
        alpha_s = check_number("the link's alpha_s", self.alpha_s)
        beta = check_number("the link's beta_bytes_per_s", self.beta_bytes_per_s, positive=True)
        object.__setattr__(self, "alpha_s", alpha_s)
        object.__setattr__(self, "beta_bytes_per_s", beta)


@dataclass(frozen=True)
class Collective:
    """One collective under the alpha-beta model.

    Attributes:
        name: what it does and by which algorithm.
        n_bytes: size of the whole array: the input of an allreduce, the gathered output of an all-gather, the input
            of a reduce-scatter, what one rank sends in all of an all-to-all, the message of a broadcast.
        ranks: devices k.
        steps: messages that follow one another.
        sent_bytes: bytes that the busiest rank sends, over all steps.
        link: what the messages travel over.
        bus_factor: ideal bytes on a rank's link for a byte of `n_bytes` (Source: nccl-tests, PERFORMANCE.md).
    """

    name: str
    n_bytes: float
    ranks: int
    steps: int
    sent_bytes: float
    link: Link
    bus_factor: float

    @property
    def time_s(self) -> float:
        """Steps times alpha, and the sent bytes over beta."""
        return self.steps * self.link.alpha_s + self.sent_bytes / self.link.beta_bytes_per_s

    @property
    def algorithm_bytes_per_s(self) -> float:
        """Size divided by time, the rate at which a user sees the array go through; inf when nothing moves."""
        return self.n_bytes / self.time_s if self.time_s else math.inf

    @property
    def bus_bytes_per_s(self) -> float:
        """Algorithm bandwidth times the bus factor: the rate of one link of an ideal ring, comparable across ranks."""
        return self.algorithm_bytes_per_s * self.bus_factor if self.bus_factor else 0.0


def allreduce(n_bytes: float, ranks: int, link: Link, *, algorithm: str = "ring", chunks: int = 1) -> Collective:
    """Sum an array over all ranks and leave the sum on each.

    With N bytes, k ranks and h = ceil(log2 k):
    "ring": reduce-scatter and all-gather around a ring; 2(k-1) steps of N/k, so 2 (k-1)/k N sent, the least possible.
    "tree": reduce up a tree and broadcast down, whole messages; 2h steps of N.
    "double_tree": two trees that each carry half, pipelined in c chunks; 2(h + c - 1) steps of N/c, which tends to 2N.
    "halving_doubling": 2h steps of N/2, N/4, ... N/k and back; as few bytes as the ring, k a power of two.
    The bus factor is 2 (k-1)/k for all.
    Sources: Thakur et al. 2005; Sanders et al. 2009 (two trees).

    Raises:
        ValueError: for an unknown algorithm, no rank, or halving-doubling on other than a power of two.
    """
    n_bytes, ranks, chunks = _check(n_bytes, ranks, link, chunks)
    k, h = ranks, _log2(ranks)
    if algorithm == "ring":
        steps, sent = 2 * (k - 1), 2 * (k - 1) / k * n_bytes
    elif algorithm == "tree":
        steps, sent = 2 * h, 2 * h * n_bytes
    elif algorithm == "double_tree":
        steps = 2 * (h + chunks - 1) if k > 1 else 0
        sent = steps * n_bytes / chunks
    elif algorithm == "halving_doubling":
        _check_power_of_two(k)
        steps, sent = 2 * h, 2 * (k - 1) / k * n_bytes
    else:
        raise ValueError(_unknown(algorithm, "ring", "tree", "double_tree", "halving_doubling"))
    return Collective(f"allreduce, {algorithm}", n_bytes, k, steps, sent, link, 2 * (k - 1) / k)


def reduce_scatter(n_bytes: float, ranks: int, link: Link, *, algorithm: str = "ring") -> Collective:
    """Sum an array of N bytes over all ranks and leave one k-th of the sum on each.

    "ring": k-1 steps of N/k. "halving": log2 k steps of N/2, N/4, ... N/k, k a power of two. Both send (k-1)/k N.
    """
    return _half(n_bytes, ranks, link, "reduce_scatter", algorithm, "halving")


def all_gather(n_bytes: float, ranks: int, link: Link, *, algorithm: str = "ring") -> Collective:
    """Collect N bytes, of which each rank has one k-th, on every rank.

    "ring": k-1 steps of N/k. "doubling": log2 k steps of N/k, 2N/k, ... N/2, k a power of two. Both send (k-1)/k N.
    """
    return _half(n_bytes, ranks, link, "all_gather", algorithm, "doubling")


def broadcast(n_bytes: float, ranks: int, link: Link, *, algorithm: str = "tree", chunks: int = 1) -> Collective:
    """Copy N bytes from one rank to all.

    "tree": in each step every rank that has the message sends it on; ceil(log2 k) steps of N.
    "ring": passed along a chain, pipelined in c chunks; k - 1 + c - 1 steps of N/c, which tends to N.
    """
    n_bytes, ranks, chunks = _check(n_bytes, ranks, link, chunks)
    if algorithm == "tree":
        steps = _log2(ranks)
        sent = steps * n_bytes
    elif algorithm == "ring":
        steps = ranks - 1 + chunks - 1 if ranks > 1 else 0
        sent = steps * n_bytes / chunks
    else:
        raise ValueError(_unknown(algorithm, "tree", "ring"))
    return Collective(f"broadcast, {algorithm}", n_bytes, ranks, steps, sent, link, 1.0)


def all_to_all(n_bytes: float, ranks: int, link: Link) -> Collective:
    """Send a different k-th of N bytes from every rank to every rank, pair by pair: k-1 steps of N/k.

    A rank keeps its own part, so (k-1)/k N are sent.
    """
    n_bytes, ranks, _ = _check(n_bytes, ranks, link)
    share = (ranks - 1) / ranks
    return Collective("all_to_all, pairs", n_bytes, ranks, ranks - 1, share * n_bytes, link, share)


def crossover_bytes(few_steps: Collective, few_bytes: Collective) -> float:
    """Return the size above which `few_bytes` is faster than `few_steps`.

    Times are linear in the size, a alpha + v N / beta, so they meet at N = (a2 - a1) / (v1 - v2) alpha beta.

    >>> link = Link(alpha_s=1e-5, beta_bytes_per_s=1e10)
    >>> round(crossover_bytes(allreduce(1, 8, link, algorithm="tree"), allreduce(1, 8, link)))
    188235

    Raises:
        ValueError: if one is never slower than the other, or they are not on the same ranks and link.
    """
    one, two = few_steps, few_bytes
    if not (isinstance(one, Collective) and isinstance(two, Collective)):
        raise TypeError(f"expected two collectives, as in crossover_bytes(allreduce(...), allreduce(...)); "
                        f"found {one!r:.40} and {two!r:.40}")  # fmt: skip
    if (one.ranks, one.link) != (two.ranks, two.link):
        raise ValueError(f"expected the same ranks and link; found {one.ranks}, {one.link} and {two.ranks}, {two.link}")
    extra_steps = two.steps - one.steps
    saved = one.sent_bytes / one.n_bytes - two.sent_bytes / two.n_bytes
    if extra_steps < 0 or saved <= 0:
        raise ValueError(f"expected '{one.name}' to take fewer steps and '{two.name}' to send fewer bytes")
    return extra_steps / saved * one.link.alpha_s * one.link.beta_bytes_per_s


def _half(n_bytes: float, ranks: int, link: Link, name: str, algorithm: str, recursive: str) -> Collective:
    """Half of an allreduce."""
    n_bytes, ranks, _ = _check(n_bytes, ranks, link)
    if algorithm not in ("ring", recursive):
        raise ValueError(_unknown(algorithm, "ring", recursive))
    if algorithm == recursive:
        _check_power_of_two(ranks)
    steps = ranks - 1 if algorithm == "ring" else _log2(ranks)
    share = (ranks - 1) / ranks
    return Collective(f"{name}, {algorithm}", n_bytes, ranks, steps, share * n_bytes, link, share)


def _log2(ranks: int) -> int:
    """ceil(log2 ranks), exactly."""
    return (ranks - 1).bit_length()


def _check(n_bytes: float, ranks: int, link: Link, chunks: int = 1) -> tuple[float, int, int]:
    n_bytes = check_number("the number of bytes", n_bytes, positive=True)
    if n_bytes > LARGEST:
        raise ValueError(f"expected the number of bytes to be at most 2^128; found {float(n_bytes):g}")
    for name, count in (("ranks", ranks), ("chunks", chunks)):
        if not isinstance(count, Integral):  # a float that happens to be whole is a slip of the caller's
            raise ValueError(f"expected {name} to be a whole number of 1 or more; found {count!r:.60}")
    ranks, chunks = check_counts(ranks=ranks, chunks=chunks)
    if not isinstance(link, Link):
        raise TypeError(f"expected a link, as in Link(alpha_s=2e-6, beta_bytes_per_s=1e11); found {link!r}")
    return n_bytes, ranks, chunks


def _check_power_of_two(ranks: int) -> None:
    if ranks & (ranks - 1):
        lower = 1 << ranks.bit_length() - 1
        raise ValueError(f"expected a power of two of ranks for a recursive algorithm, such as {lower} or {2 * lower}; "
                         f"found {ranks}: the ring takes any number")  # fmt: skip


def _unknown(algorithm: str, *known: str) -> str:
    return f"expected an algorithm, one of {', '.join(known)}; found {algorithm!r}"
