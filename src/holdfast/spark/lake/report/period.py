"""The stretch of time that a report covers, the one before it, and the steps of its charts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ....errors import ConfigError

MINUTE = timedelta(minutes=1)
POINTS = 120
"""The most points of a chart."""
STEPS = [timedelta(seconds=1), timedelta(seconds=2), timedelta(seconds=5), timedelta(seconds=10), timedelta(seconds=15)]
STEPS += [timedelta(seconds=30)] + [timedelta(minutes=each) for each in (1, 2, 5, 10, 15, 30)]
STEPS += [timedelta(hours=each) for each in (1, 2, 3, 4, 6, 12)] + [timedelta(days=each) for each in (1, 2, 7)]
"""How long a point of a chart may be: each begins at a round time of UTC."""
SHORT = timedelta(minutes=10)
"""Shorter stretches are drawn by the second."""
EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class Period:
    """From one minute up to another, which is no longer part of it."""

    since: datetime
    until: datetime

    @property
    def length(self) -> timedelta:
        """How long it is."""
        return self.until - self.since

    @property
    def before(self) -> Period:
        """The period of the same length just before this one."""
        return Period(self.since - self.length, self.since)

    @property
    def step(self) -> timedelta:
        """How long one point of a chart is."""
        least = timedelta(0) if self.length <= SHORT else MINUTE
        fitting = (step for step in STEPS if step >= least and self.length / step <= POINTS)
        return next(fitting, timedelta(days=-(-self.length // timedelta(days=POINTS))))

    @property
    def first_step(self) -> int:
        """The number of the step with which it begins, counted from the epoch."""
        return (self.since - EPOCH) // self.step

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return (self.until - EPOCH - timedelta(microseconds=1)) // self.step - self.first_step + 1


def asked(since: datetime | None, until: datetime | None) -> tuple[datetime | None, datetime | None]:
    """Return the ends that were asked for, rounded up to whole minutes; raise when they are swapped."""
    begin, end = since and _minute(since), until and _minute(until)
    if begin is not None and end is not None and begin >= end:
        raise ConfigError(f"the report would end at {end:%Y-%m-%d %H:%M}, before it begins: give a later --until")
    return begin, end


def _minute(at: datetime) -> datetime:
    floor = at.astimezone(UTC).replace(second=0, microsecond=0)
    return floor if floor == at else floor + MINUTE
