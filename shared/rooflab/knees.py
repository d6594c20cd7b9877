"""Where does one regime end and the next begin?

>>> from rooflab.roofline import Ceilings
>>> laptop = Ceilings(bytes_per_s=50e9, flops_per_s={"fp32": 1e12}, launch_s=2**-17)
>>> round(knee_overhead_bytes(laptop)), matmul_ridge(laptop, "fp32")
(381470, 120.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .costs import Work
from .roofline import Ceilings, bound
from .units import bytes_of

__all__ = ["knee_overhead_bytes", "leaves_overhead", "leaves_plateau", "matmul_leaves_overhead", "matmul_ridge"]


def knee_overhead_bytes(ceilings: Ceilings) -> float:
    """Return the bytes beta t0 that move in the time of one launch: a smaller elementwise kernel is overhead-bound."""
    return ceilings.bytes_per_s * ceilings.launch_s


def matmul_leaves_overhead(ceilings: Ceilings, dtype: str) -> float:
    """Return the n at which an n x n product takes longer than its launch.

    It leaves where the first of the other terms reaches t0: 3 s n^2 / beta = t0 or 2 n^3 / pi = t0.
    """
    by_bytes = math.sqrt(ceilings.launch_s * ceilings.bytes_per_s / (3 * bytes_of(dtype)))
    by_flops = math.cbrt(ceilings.launch_s * ceilings.rate(dtype) / 2)
    return min(by_bytes, by_flops)


def matmul_ridge(ceilings: Ceilings, dtype: str) -> float:
    """Return the n at which an n x n product crosses the ridge: 2n^3 / 3sn^2 = pi / beta, n = 3 s pi / (2 beta)."""
    return 1.5 * bytes_of(dtype) * ceilings.ridge(dtype)


def leaves_overhead(work_of: Callable[[int], Work], ceilings: Ceilings, *, low: int = 1, high: int = 1 << 40) -> int:
    """Return the smallest size in low..high at which `work_of(size)` is not bound by overhead any more.

    The work must not shrink as the size grows (a batch, a length): the size is found by bisection.

    Raises:
        ValueError: if even the largest size is bound by overhead.
    """

    def outside(size: int) -> bool:
        return bound(work_of(size), ceilings).regime != "overhead"

    if not 1 <= low <= high:
        raise ValueError(f"expected sizes 1 <= low <= high to search; found {low!r} and {high!r}")
    if not outside(high):
        raise ValueError(f"expected a size in {low}..{high} that leaves the overhead regime; found none")
    while low < high:
        middle = (low + high) // 2
        if outside(middle):
            high = middle
        else:
            low = middle + 1
    return high


def leaves_plateau(sizes: Sequence[float], times_s: Sequence[float], *, factor: float = 2.0) -> float:
    """Return the size from which on a curve lies at `factor` times its lowest time or above.

    Between two sizes the curve is taken as a straight line on logarithmic axes, of a model and of a measurement alike.
    A single time that a neighbour lengthened is no knee: what counts is the last crossing.

    Args:
        sizes: in rising order.
        times_s: one for each size.
        factor: how far above the plateau.

    Raises:
        ValueError: if the curve does not end that high, or these are no sizes and times above zero, as many of each.
    """
    if len(sizes) != len(times_s) or not len(sizes):
        raise ValueError(f"expected as many sizes as times, one or more; found {len(sizes)} and {len(times_s)}")
    if not all(0 < value < math.inf for value in (*sizes, *times_s)) or list(sizes) != sorted(set(sizes)):
        raise ValueError("expected sizes in rising order and times, all above zero and finite; "
                         f"found {str(list(sizes))[:80]} and {str(list(times_s))[:80]}")  # fmt: skip
    if not 1 < factor < math.inf:
        raise ValueError(f"expected a factor above 1, how far the curve has risen; found {factor!r}")
    level = factor * min(times_s)
    last = max(i for i, time_s in enumerate(times_s) if time_s < level)
    if last == len(times_s) - 1:
        raise ValueError(
            f"expected times that rise to {factor:g} times the lowest; the largest size is still on the plateau"
        )
    share = math.log(level / times_s[last]) / math.log(times_s[last + 1] / times_s[last])
    return sizes[last] * (sizes[last + 1] / sizes[last]) ** share
