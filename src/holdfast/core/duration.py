"""Seconds for people, milliseconds for stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ..errors import ConfigError

Duration = float | timedelta
"""Seconds, or a `timedelta`."""
Instant = float | datetime
"""Seconds since the epoch, or a `datetime` with a time zone."""


def to_ms(duration: Duration, name: str = "duration") -> int:
    """Return a duration in milliseconds; it is finite and not negative."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    if isinstance(duration, bool) or not isinstance(duration, int | float) or not 0 <= duration < 1e12:
        raise ConfigError(f"{name}={duration!r}: give seconds from 0 on, or a timedelta")
    return round(duration * 1000)


def instant_ms(instant: Instant, name: str = "run_at") -> int:
    """Return an instant in milliseconds since the epoch."""
    if isinstance(instant, datetime):
        if instant.tzinfo is None:
            raise ConfigError(f"{name}={instant!r} has no time zone; use datetime.now(UTC) or .astimezone()")
        return round(instant.timestamp() * 1000)
    if isinstance(instant, bool) or not isinstance(instant, int | float) or not abs(instant) < 1e12:
        raise ConfigError(f"{name}={instant!r}: give a datetime with a time zone, or seconds since the epoch")
    return round(instant * 1000)


def to_datetime(ms: int | None) -> datetime | None:
    """Return an instant as a `datetime` in UTC."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
