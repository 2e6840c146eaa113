"""Answers about queues, tasks and workers."""

from __future__ import annotations

from typing import TypedDict

from .common import Object


class QueueShape(TypedDict):
    """A queue with its counts and settings."""

    name: str
    counts: dict[str, int]
    workers: int
    oldest_waiting_at: str | None
    oldest_waiting_age_ms: int | None
    settings: Object
    overrides: Object
    key_overrides: dict[str, int]


class QueueList(TypedDict):
    """Every queue, as of an instant."""

    queues: list[QueueShape]
    at: str | None


class TaskShape(TypedDict):
    """The policy in force of one task. Durations are seconds."""

    queue: str
    task: str
    failures: int | None
    stalls: int | None
    timeouts: int | None
    releases: int | None
    attempts: int | None
    snoozes: int | None
    initial: float
    multiplier: float
    maximum: float
    jitter: float
    timeout: float | None


class TaskList(TypedDict):
    """The tasks that workers have declared."""

    tasks: list[TaskShape]


class WorkerShape(TypedDict):
    """A worker as the store knows it."""

    id: str
    name: str
    host: str
    pid: int
    queues: list[str]
    slots: int
    active: int
    alive: bool
    lease_ms: int
    version: str
    python: str
    memory_bytes: int | None
    command: str | None
    started_at: str | None
    heard_at: str | None
    expires_at: str | None


class WorkerList(TypedDict):
    """Every worker."""

    workers: list[WorkerShape]


class StopShape(TypedDict):
    """The ids of the sessions that were told to end."""

    sessions: list[str]


class KeyShape(TypedDict):
    """A concurrency key with its jobs and limits."""

    key: str
    waiting: int
    active: int
    limit: int | None
    own_limit: bool
    at_limit: bool
    tokens: float | None
    ready_at: str | None
    oldest_waiting_at: str | None
    oldest_waiting_age_ms: int | None


class KeyList(TypedDict):
    """Keys of a queue."""

    name: str
    keys: list[KeyShape]


class DeclaredTaskShape(TypedDict):
    """What workers declared of a task, and the version of their app."""

    version: int
    policy: Object


class LayersShape(TypedDict):
    """What workers declared of a queue and its tasks, and what operators set above that."""

    queue: str
    version: int
    declared: Object
    operator: Object
    tasks: dict[str, DeclaredTaskShape]
    adjusted: dict[str, Object]


class QueueMeasureShape(QueueShape):
    """A queue, and what of it tells of trouble."""

    keys_at_limit: int
    scheduled_overdue_ms: int


class LogMeasureShape(TypedDict):
    """The event log: how many events it keeps, its size where the store tells it, and what each reader has left."""

    events: int
    bytes: int | None
    readers: dict[str, int]
    lag_ms: dict[str, int]


class MeasureShape(TypedDict):
    """A store at a glance."""

    at: str | None
    queues: list[QueueMeasureShape]
    log: LogMeasureShape
