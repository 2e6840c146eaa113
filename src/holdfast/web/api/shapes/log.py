"""Answers about events, operations and the server."""

from __future__ import annotations

from typing import TypedDict

from ....core.state import State
from .common import Json, Object, RunRef


class EventShape(TypedDict):
    """One event of the log."""

    position: str
    at: str | None
    queue: str
    id: str
    run: int
    attempt: int
    transition: str
    state: State | None
    cause: str | None
    task: str | None
    worker: str | None
    key: str | None
    tags: list[str]
    priority: int
    run_at: str | None
    counters: dict[str, int]
    wait_ms: int | None
    run_ms: int | None
    error_type: str | None
    error_signature: str | None
    actor: str | None
    message: str | None
    payload: Json


class EventList(TypedDict):
    """A page of the log: read on with `after=position`. `gap` events were gone; `reset`: the log is another one."""

    events: list[EventShape]
    position: str
    gap: int
    reset: bool


class OperationShape(TypedDict):
    """An action on many jobs, as far as it has got."""

    id: str
    action: str
    filter: Object
    dry_run: bool
    state: str
    matched: int
    done: int
    refused: int
    more: bool
    sample: list[RunRef]
    error: str | None
    by: str
    started_at: str | None
    finished_at: str | None


class OperationList(TypedDict):
    """The operations of this server, newest first."""

    operations: list[OperationShape]


class IndexShape(TypedDict):
    """The server, and who asks."""

    name: str
    version: str
    store: str
    identity: dict[str, str]
    read_only: bool
    may_change: bool
    links: dict[str, str]
