"""Answers about schedules."""

from __future__ import annotations

from typing import TypedDict

from .common import Json, Object


class ScheduleShape(TypedDict):
    """A schedule with all that it does."""

    queue: str
    name: str
    task: str | None
    spec: Object
    payload: Json
    priority: int
    key: str | None
    catch_up: str
    limit: int
    grace_ms: int
    overlap: str
    paused: bool
    next_at: str | None
    last_at: str | None
    fired: int
    declared: bool
    version: int
    changed: list[str]
    when: str
    ticks: list[str]


class ScheduleList(TypedDict):
    """Every schedule."""

    schedules: list[ScheduleShape]


class RemovedShape(TypedDict):
    """What was removed; with `declared`, the code brings it back with the next worker."""

    name: str
    removed: bool
    declared: bool
