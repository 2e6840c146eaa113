"""Seconds for people, milliseconds for stores."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from ..errors import ConfigError
from .bound import DEFAULT_LEASE_MS, FOR_EVER_MS, SHORTEST_LEASE_MS

Duration = float | timedelta
"""Seconds, or a `timedelta`."""
Instant = float | datetime
"""Seconds since the epoch, or a `datetime` with a time zone."""


DEFAULT_LEASE = DEFAULT_LEASE_MS / 1000
LATEST_MS = 253_402_300_799_000
"""The last second of the year 9999, the latest that a `datetime` can hold."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = r"(\d+(?:\.\d*)?|\.\d+)\s*"
_PARTS = re.compile(rf"{_PART}(ms|s|m|h|d)")
_WRITTEN = re.compile(rf"{_PART}|(?:{_PART}(?:ms|s|m|h|d)\s*)+")


def written_seconds(text: str) -> float | None:
    """Return the seconds of a duration as people write it: `30`, `500ms`, `10m`, `1h30m`; `None` for another text."""
    if not _WRITTEN.fullmatch(text.strip()):
        return None
    parts = _PARTS.findall(text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else float(text)


def to_ms(duration: Duration, name: str = "duration") -> int:
    """Return a duration in milliseconds; it is finite and not negative."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    if isinstance(duration, bool) or not isinstance(duration, int | float) or not 0 <= duration < 1e12:
        raise ConfigError(f"{name}={duration!r}: give seconds from 0 on, or a timedelta")
    return round(duration * 1000)


def ttl_ms(duration: Duration | None, name: str = "ttl") -> int:
    """Return how long something is kept, in milliseconds; `math.inf`, or `None`, is for ever."""
    if duration is None or duration == math.inf:
        return FOR_EVER_MS
    try:
        return to_ms(duration, name)
    except ConfigError as error:
        raise ConfigError(f"{error}, or math.inf for ever") from None


def instant_ms(instant: Instant, name: str = "run_at") -> int:
    """Return an instant in milliseconds since the epoch."""
    if isinstance(instant, datetime):
        if instant.tzinfo is None:
            raise ConfigError(f"{name}={instant!r} has no time zone; use datetime.now(UTC) or .astimezone()")
        return min(round(instant.timestamp() * 1000), LATEST_MS)
    if isinstance(instant, bool) or not isinstance(instant, int | float) or not abs(instant) * 1000 <= LATEST_MS:
        raise ConfigError(f"{name}={instant!r}: give a datetime with a time zone, or seconds since the epoch")
    return round(instant * 1000)


def to_datetime(ms: int | None) -> datetime | None:
    """Return an instant as a `datetime` in UTC."""
    return None if ms is None else datetime.fromtimestamp(min(ms, LATEST_MS) / 1000, UTC)


def lease_ms(lease: Duration, what: str) -> int:
    """Return a lease in milliseconds, or raise when no worker could keep it."""
    ms = to_ms(lease, what)
    if ms < SHORTEST_LEASE_MS:
        raise ConfigError(f"{what}={lease!r}: at least {SHORTEST_LEASE_MS / 1000:g} s")
    return ms
