"""A schedule and its row in the store."""

from __future__ import annotations

from ..core import schedule as core
from ..core.action import Action
from ..core.schedule import Schedule
from ..errors import ConfigError
from ..store.contract import ScheduleChange, ScheduleRow


def change_of(schedule: Schedule, expected: str | None, action: Action | None = None) -> ScheduleChange:
    """Return what the store is to write, if the schedule is still as expected."""
    return ScheduleChange(
        queue=schedule.queue, name=schedule.name, expected=expected, revision=schedule.revision,
        next_at_ms=schedule.next_at_ms, body=core.body(schedule), action=action,
    )  # fmt: skip


def read(row: ScheduleRow) -> Schedule:
    """Return the schedule; raise `ConfigError` when it cannot be read here."""
    return core.read(row.queue, row.name, row.revision, row.next_at_ms, row.body)


def readable(row: ScheduleRow) -> Schedule | ConfigError:
    """Return the schedule, or why it cannot be read here."""
    try:
        return read(row)
    except ConfigError as error:
        return error
