"""When something is to happen: cron, intervals and single instants, as ticks in milliseconds since the epoch.

A tick is an instant, whatever the zone calls it, so that no tick is ever there twice. When clocks go forward, a time of
day that does not exist comes at the end of the gap; when they go back, one that occurs twice comes the first time only.
Cron texts whose minute or hour begins with `*` count real time instead: they go on through both, like intervals.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from ..errors import ConfigError
from .duration import LATEST_MS, Duration, Instant, instant_ms, to_datetime, to_ms, written_seconds

SHORTEST_MS = 100
MINUTE_MS = 60_000
_FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
NICKNAMES = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
"""What cron calls its common times."""
EVERY = "@every"


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """At the times that a cron text names, in a time zone: `Cron("30 3 * * MON-FRI", tz="Europe/Berlin")`.

    Five fields (minute, hour, day of month, month, day of week), or six, with seconds in front; or `@yearly`,
    `@monthly`, `@weekly`, `@daily`, `@hourly`, or `@every 5m`, which counts from the epoch as `Every` does.
    """

    text: str
    tz: str = "UTC"

    def __post_init__(self) -> None:
        zone(self.tz)
        if _is_interval(self.text):
            _check_interval(self.text, self.tz)
            return
        _check(self.text)
        if self.next_ms(0) is None:
            raise ConfigError(f"Cron({self.text!r}) never comes: there is no such day")

    def __str__(self) -> str:
        return self.text if _is_interval(self.text) else f"{self.text} {self.tz}"

    def next_ms(self, after_ms: int) -> int | None:
        """Return the first tick after an instant."""
        if _is_interval(self.text):
            return _interval(self.text).next_ms(after_ms)
        return next(self._ticks(after_ms), None)

    def latest_ms(self, first_ms: int, last_ms: int, most: int) -> list[int]:
        """Return the latest ticks from `first_ms` to `last_ms`, oldest first, at most so many.

        It looks back further and further, so that a year of missed minutes costs no more than those wanted.
        """
        if _is_interval(self.text):
            return _interval(self.text).latest_ms(first_ms, last_ms, most)
        span = MINUTE_MS
        while True:
            start = max(first_ms, last_ms - span)
            found: deque[int] = deque(maxlen=most)
            for tick in self._ticks(start - 1):
                if tick > last_ms:
                    break
                found.append(tick)
            if len(found) == most or start == first_ms:
                return list(found)
            span *= 2

    def _ticks(self, after_ms: int) -> Iterator[int]:
        start = datetime.fromtimestamp(min(max(after_ms, 0), LATEST_MS) // 1000, zone(self.tz))
        last = after_ms
        try:
            for found in self._times(start):
                tick = round(found.timestamp()) * 1000
                if tick > last:  # in the second of two equal hours, it begins again with the first
                    last = tick
                    yield tick
        except OverflowError:  # the year 10000
            return

    def _times(self, start: datetime) -> Iterator[datetime]:
        """Yield the times after one: by real time, or those of the day, whatever the clocks do to it."""
        text = _sunday_last(_fields_of(self.text))
        minute, hour = text.split()[-5:-3]
        if minute.startswith("*") or hour.startswith("*"):
            yield from CronSim(text, start)
        else:  # which cronsim would do itself, though not where there are seconds
            for local in CronSim(text, start.replace(tzinfo=None)):
                yield _on_the_clock(local, start.tzinfo)


class Every(msgspec.Struct, frozen=True, tag="every"):
    """Every so many seconds, counted from the anchor (the epoch, so that `Every(3600)` is on the hour in UTC)."""

    seconds: Duration
    anchor: Instant = 0.0

    def __post_init__(self) -> None:
        period = to_ms(self.seconds, "Every: seconds")
        if period < SHORTEST_MS:
            raise ConfigError(f"Every({self.seconds!r}): at least {SHORTEST_MS / 1000:g} s")
        _set(self, seconds=period / 1000, anchor=instant_ms(self.anchor, "Every: anchor") / 1000)

    def __str__(self) -> str:
        return f"every {self.seconds:.12g} s"

    @property
    def _grid(self) -> tuple[int, int]:
        return to_ms(self.seconds), instant_ms(self.anchor)

    def next_ms(self, after_ms: int) -> int | None:
        """Return the first tick after an instant."""
        period, anchor = self._grid
        return anchor + ((after_ms - anchor) // period + 1) * period

    def latest_ms(self, first_ms: int, last_ms: int, most: int) -> list[int]:
        """Return the latest ticks from `first_ms` to `last_ms`, oldest first, at most so many."""
        period, anchor = self._grid
        latest = anchor + (last_ms - anchor) // period * period
        ticks = (latest - back * period for back in range(most - 1, -1, -1))
        return [tick for tick in ticks if tick >= first_ms]


class At(msgspec.Struct, frozen=True, tag="at"):
    """Once, at an instant."""

    when: Instant

    def __post_init__(self) -> None:
        _set(self, when=instant_ms(self.when, "At: when") / 1000)

    def __str__(self) -> str:
        return f"at {to_datetime(instant_ms(self.when)):%Y-%m-%dT%H:%M:%SZ}"

    def next_ms(self, after_ms: int) -> int | None:
        """Return the instant, while it is after the one given."""
        tick = instant_ms(self.when)
        return tick if tick > after_ms else None

    def latest_ms(self, first_ms: int, last_ms: int, most: int) -> list[int]:
        """Return the instant, if it is in between."""
        return [tick for tick in (instant_ms(self.when),) if first_ms <= tick <= last_ms]


Spec = Cron | Every | At


def _is_interval(text: object) -> bool:
    return isinstance(text, str) and text.split()[:1] == [EVERY]


@lru_cache(maxsize=256)
def _interval(text: str) -> Every:
    """Return the interval that `@every 5m` names."""
    seconds = written_seconds(text.strip().removeprefix(EVERY))
    if seconds is None:
        raise ConfigError(f"Cron({text!r}): write how often, such as '@every 90s', '@every 5m' or '@every 1h30m'")
    return Every(seconds)


def _check_interval(text: str, tz: str) -> None:
    try:
        _interval(text)
    except ConfigError as error:
        raise error if str(error).startswith("Cron(") else ConfigError(f"Cron({text!r}): {error}") from None
    if tz != "UTC":
        raise ConfigError(f"Cron({text!r}, tz={tz!r}): an interval has no time zone; leave tz= out")


def _fields_of(text: str) -> str:
    """Return a cron text as fields, where it is one of cron's names for them."""
    return NICKNAMES.get(text.strip().lower(), text)


def tick_name(tick_ms: int) -> str:
    """Return a tick as ids and headers have it: ISO 8601 in UTC, with milliseconds only where it has some."""
    whole = f"{datetime.fromtimestamp(tick_ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}"
    return f"{whole}.{tick_ms % 1000:03d}Z" if tick_ms % 1000 else f"{whole}Z"


def zone(name: str) -> tzinfo:
    """Return a time zone by its IANA name."""
    try:
        return _zone(name)
    except (KeyError, ValueError, TypeError, OSError):
        raise ConfigError(
            f"tz={name!r}: there is no such time zone here; write an IANA name (Europe/Berlin), and where the "
            "system has no zones, install tzdata"
        ) from None


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)


def _check(text: object) -> None:
    """Raise when a text is no cron, and say which field is wrong."""
    if not isinstance(text, str):
        raise ConfigError(f"Cron({text!r}): a text of five fields: {', '.join(_FIELDS)}")
    if text.startswith("@") and _fields_of(text) is text:
        raise ConfigError(f"Cron({text!r}) is no name of a time; known are {', '.join(NICKNAMES)} and '@every 5m'")
    text = _fields_of(text)
    fields = text.split()
    if len(fields) not in (5, 6):
        raise ConfigError(
            f"Cron({text!r}) has {len(fields)} fields, and not 5 ({', '.join(_FIELDS)}) or 6 (seconds first)"
        )
    try:
        CronSim(_sunday_last(text), datetime(2000, 1, 1))
    except CronSimError as error:
        raise ConfigError(_blamed(text, fields, str(error).removeprefix("Bad "))) from None
    except (ValueError, AssertionError, TypeError):
        raise ConfigError(f"Cron({text!r}) cannot be read; write five fields such as '*/5 8-18 * * MON-FRI'") from None


def _sunday_last(text: str) -> str:
    """Return the text with `-SUN` as the end of a range of days, where cron's Sunday (0) would be before its begin."""
    return re.sub(r"-SUN(?=[,/\s]|$)", "-7", text, flags=re.IGNORECASE)


def _on_the_clock(local: datetime, tz: tzinfo | None) -> datetime:
    """Return a time of day in a zone: the first of two that are equal, and in a gap its end."""
    found = local.replace(tzinfo=tz, fold=0)
    while found != found.astimezone(UTC).astimezone(tz):
        local = local.replace(second=0) + timedelta(minutes=1)
        found = local.replace(tzinfo=tz)
    return found


def _blamed(text: str, fields: list[str], field: str) -> str:
    names = ("second", *_FIELDS) if len(fields) == 6 else _FIELDS
    if field not in names:
        return f"Cron({text!r}): {field}"
    return f"Cron({text!r}): its {field} is wrong: {fields[names.index(field)]!r}"


def _set(spec: Every | At, **values: float) -> None:
    """The fields have the one form in which they are stored; the struct is frozen for everybody else."""
    for name, value in values.items():
        msgspec.structs.force_setattr(spec, name, value)


__all__ = ["At", "Cron", "Every", "Spec", "tick_name", "zone"]
