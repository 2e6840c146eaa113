"""Durations in few numbers: logarithmic buckets, of which only those with something in them are kept."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .view import Spread

_PER_DOUBLING = 4
"""A bucket is 19 % wide, and its middle within 10 % of what is in it; with rounding to milliseconds, 13 %."""
_TABLE_MS = 4096
Buckets = dict[int, int]
"""How many durations are in each bucket."""


def _index(ms: int) -> int:
    return 0 if ms < 1 else 1 + int(math.log2(ms) * _PER_DOUBLING)


_TABLE = [_index(ms) for ms in range(_TABLE_MS)]


def bucket_of(ms: int) -> int:
    """Return the bucket of a duration; one below zero, by a clock that went back, counts as none."""
    if ms < _TABLE_MS:
        return _TABLE[ms] if ms > 0 else 0
    return _index(ms)


def middle_of(bucket: int) -> int:
    """Return the duration that stands for a bucket."""
    return 0 if bucket == 0 else round(2 ** ((bucket - 0.5) / _PER_DOUBLING))


def merged(many: Iterable[Buckets]) -> Buckets:
    """Return the sum of several."""
    total: Buckets = {}
    for buckets in many:
        for bucket, count in buckets.items():
            total[bucket] = total.get(bucket, 0) + count
    return total


def spread_of(buckets: Buckets, longest: int | None) -> Spread:
    """Return percentiles; `longest` is the longest duration of all, which no percentile exceeds."""
    count = sum(buckets.values())
    if not count or longest is None:
        return Spread()
    order = sorted(buckets.items())
    p50, p95 = (min(longest, _percentile(order, count * share)) for share in (0.5, 0.95))
    return Spread(count=count, p50_ms=p50, p95_ms=p95, max_ms=longest)


def _percentile(order: list[tuple[int, int]], rank: float) -> int:
    seen = 0
    for bucket, count in order:
        seen += count
        if seen >= rank:
            return middle_of(bucket)
    return middle_of(order[-1][0])
