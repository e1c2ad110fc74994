"""Statistics of two ways of serving that did the same tasks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

Z = statistics.NormalDist().inv_cdf(0.975)  # of 95 % intervals
Interval = tuple[float, float, float]  # estimate, lower, upper end


def wilson(good: int, tasks: int) -> Interval:
    """A proportion with Wilson's score interval."""
    share, z2 = good / tasks, Z * Z
    middle = (share + z2 / (2 * tasks)) / (1 + z2 / tasks)
    half = Z / (1 + z2 / tasks) * math.sqrt(share * (1 - share) / tasks + z2 / (4 * tasks**2))
    return share, max(0.0, middle - half), min(1.0, middle + half)


def difference(a: Sequence[bool], b: Sequence[bool]) -> Interval:
    """Share of `a` less that of `b`, of the same tasks, with Newcombe's paired score interval.

    His method 10 (Statistics in Medicine 17, 1998): the two Wilson intervals, joined by how much
    the answers go together. Unlike Wald's it does not shrink to nothing when all answers agree.
    """
    pairs = list(zip(a, b, strict=True))
    n = len(pairs)
    both, only_a = pairs.count((True, True)), pairs.count((True, False))
    only_b, neither = pairs.count((False, True)), pairs.count((False, False))
    share_a, low_a, high_a = wilson(both + only_a, n)
    share_b, low_b, high_b = wilson(both + only_b, n)
    together = _phi(both, only_a, only_b, neither)
    down, up = share_a - low_a, high_b - share_b
    below = math.sqrt(max(0.0, down**2 - 2 * together * down * up + up**2))
    up, down = high_a - share_a, share_b - low_b
    above = math.sqrt(max(0.0, up**2 - 2 * together * up * down + down**2))
    apart = share_a - share_b
    return apart, apart - below, apart + above


def _phi(both: int, only_a: int, only_b: int, neither: int) -> float:
    """The correlation of the answers, corrected for their being counts."""
    n = both + only_a + only_b + neither
    margins = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    if not margins:
        return 0.0
    above = both * neither - only_a * only_b
    if above > 0:
        above = max(0, above - n / 2)  # type: ignore[assignment]
    return above / math.sqrt(margins)


def distances(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> dict[str, float]:
    """How far log-probabilities of the same tokens are apart, over all texts."""
    apart = sorted(
        abs(x - y)
        for one, other in zip(a, b, strict=True)
        for x, y in zip(one, other, strict=True)
    )  # fmt: skip
    if not apart:
        return {"tokens": 0}
    return {
        "tokens": len(apart),
        "mean": round(statistics.fmean(apart), 6),
        "p99": round(apart[min(len(apart) - 1, int(0.99 * len(apart)))], 6),
        "max": round(apart[-1], 6),
    }
