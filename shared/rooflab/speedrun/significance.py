"""Is one group of times less than another by more than chance? A permutation test, Welch's, and the seeds they ask for.

>>> a, b = [10.1, 10.3, 9.9, 10.2, 10.0], [12.0, 12.4, 11.9, 12.1, 12.2]
>>> verdict = compared(a, b)
>>> round(verdict.p, 4), verdict.exact  # the two splits of 252 that lie as far apart
(0.0079, True)
>>> compared(a[:3], b[:3]).needed
5
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, variance

import numpy as np

__all__ = ["LEVEL", "Verdict", "compared", "interval", "least_p", "permutation_p", "quantile", "two_sided", "welch"]

LEVEL = 0.01  # a gain counts where chance would show one as large in fewer than one of a hundred comparisons
_EXACT = 200_000  # the most splits that are all looked at; of more, `_DRAWN` are drawn
_DRAWN = 20_000
_MOST = 1000  # seeds; whoever needs more has found that there is no gain worth a name


@dataclass(frozen=True)
class Verdict:
    """What can be said about two groups of values.

    Attributes:
        difference: mean of the second minus mean of the first.
        low, high: where that difference lies with 95 % confidence, by Welch.
        p: probability, by the permutation test, of a difference as large where there is none; two-sided.
        exact: whether all splits were looked at.
        welch_p: the same by Welch's test, which takes the values as normally distributed; NaN where they are all equal.
        needed: how many of each group would, with these means and spreads, bring both below `LEVEL`; 0: these do;
            None: more than a thousand.
    """

    difference: float
    low: float
    high: float
    p: float
    exact: bool
    welch_p: float
    needed: int | None

    @property
    def significant(self) -> bool:
        """Whether p is below `LEVEL`."""
        return self.p < LEVEL


def compared(a: Sequence[float], b: Sequence[float]) -> Verdict | None:
    """Compare two groups; None where one of them has fewer than two values: nothing can be said then."""
    if min(len(a), len(b)) < 2:
        return None
    p, exact = permutation_p(a, b)
    difference = fmean(b) - fmean(a)
    welch_p, freedom, error = welch(a, b)
    half = quantile(0.95, freedom) * error if error else 0.0
    needed = 0 if p < LEVEL else _needed(a, b)
    return Verdict(difference, difference - half, difference + half, p, exact, welch_p, needed)


def permutation_p(a: Sequence[float], b: Sequence[float]) -> tuple[float, bool]:
    """The share of splits of all values into groups of these sizes whose means lie as far apart, and if all were tried.

    Source: Fisher 1935; Phipson and Smyth 2010 (drawn splits).
    """
    values = np.array([*a, *b], dtype=np.float64)
    values -= values.mean()
    total, n, m = len(values), len(a), len(b)
    # The difference of means is this times the sum of the first group, less a constant that is now zero.
    seen = abs(values[:n].sum()) - 1e-9 * np.abs(values).sum()  # equal sums may differ in their last bits
    if math.comb(total, n) <= _EXACT:
        chosen = np.array(list(combinations(range(total), n)))  # [splits, n]
        return float(np.mean(np.abs(values[chosen].sum(axis=1)) >= seen)), True
    draw = np.random.default_rng(0)
    sums = [draw.permutation(values)[: min(n, m)].sum() for _ in range(_DRAWN)]
    return float((1 + np.sum(np.abs(sums) >= seen)) / (1 + len(sums))), False


def least_p(n: int, m: int) -> float:
    """The least p that the permutation test can give with n and m values: that of the most extreme split.

    Of two equal groups its mirror image lies as far apart, so that there are two such splits.
    """
    return (2 if n == m else 1) / math.comb(n + m, n)


def welch(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """Welch's test of two or more values each: two-sided p, degrees of freedom, standard error of the difference.

    Source: Welch 1947.
    """
    parts = variance(a) / len(a), variance(b) / len(b)
    return _welch(fmean(b) - fmean(a), parts, (len(a), len(b)))


def _welch(difference: float, parts: tuple[float, float], counts: tuple[int, int]) -> tuple[float, float, float]:
    error = math.sqrt(sum(parts))
    if error == 0.0:
        return math.nan, math.inf, 0.0
    freedom = sum(parts) ** 2 / sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return two_sided(difference / error, freedom), freedom, error


def _needed(a: Sequence[float], b: Sequence[float]) -> int | None:
    difference, spreads = fmean(b) - fmean(a), (variance(a), variance(b))
    if difference == 0.0:
        return None

    def enough(n: int) -> bool:
        p = _welch(difference, (spreads[0] / n, spreads[1] / n), (n, n))[0]
        return least_p(n, n) < LEVEL and not p >= LEVEL

    first = min(len(a), len(b)) + 1
    n = first + bisect_left(range(first, _MOST + 1), True, key=enough)  # more seeds never make p larger
    return n if n <= _MOST else None


def interval(values: Sequence[float], share: float = 0.95) -> tuple[float, float]:
    """Where the mean lies with this confidence, by Student's t; of one value, from minus to plus infinity."""
    if len(values) < 2:
        return -math.inf, math.inf
    half = quantile(share, len(values) - 1) * math.sqrt(variance(values) / len(values))
    return fmean(values) - half, fmean(values) + half


def quantile(share: float, freedom: float) -> float:
    """The t between whose negative and itself this share of Student's distribution lies.

    >>> round(quantile(0.95, 4), 3)
    2.776
    """
    low, high = 0.0, 1.0
    while two_sided(high, freedom) > 1 - share:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > 1 - share else (low, middle)
    return high


def two_sided(t: float, freedom: float) -> float:
    """The share of Student's distribution that lies farther out than t, on both sides.

    Source: Abramowitz and Stegun 1964, 26.7.1 and 26.5.8.

    >>> round(two_sided(2.776, 4), 3)
    0.05
    """
    if math.isinf(freedom):
        return math.erfc(abs(t) / math.sqrt(2))
    return _beta_share(freedom / 2, 0.5, freedom / (freedom + t * t))


def _beta_share(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b)."""
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side only
        return 1.0 - _beta_share(b, a, 1.0 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / (a * _fraction(a, b, x))


def _fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)), from the far end: some hundred terms give sixteen digits where it is asked for."""
    value = 1.0
    for m in range(200, -1, -1):
        even = (m + 1) * (b - m - 1) * x / ((a + 2 * m + 1) * (a + 2 * m + 2))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        value = 1.0 + odd / (1.0 + even / value)
    return value
