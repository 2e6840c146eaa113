"""What the API answers, as types: the OpenAPI document is made from them, and tests hold every answer against it."""

from __future__ import annotations

from typing import Any, TypeAlias, TypedDict

from ...core.state import State
from ...core.transition import Reply

Json: TypeAlias = Any
"""Whatever JSON can hold."""
Object: TypeAlias = dict[str, Any]
"""A JSON object whose fields are somebody else's."""


class RunRef(TypedDict):
    """One run of a job."""

    queue: str
    id: str
    run: int


class ErrorBrief(TypedDict):
    """What an attempt that went wrong left, in short."""

    type: str
    message: str
    kind: str


class ErrorWhole(ErrorBrief):
    """What an attempt that went wrong left."""

    traceback: str
    fields: Object


class ProgressShape(TypedDict):
    """How far a handler says that it is."""

    fraction: float | None
    message: str


class JobShape(TypedDict):
    """A job as a list shows it. Instants are ISO 8601 in UTC."""

    queue: str
    id: str
    run: int
    task: str | None
    state: State
    failing: bool
    priority: int
    key: str | None
    tags: list[str]
    run_at: str | None
    enqueued_at: str | None
    started_at: str | None
    finished_at: str | None
    expires_at: str | None
    counters: dict[str, int]
    worker: str | None
    progress: ProgressShape | None
    error: ErrorBrief | None
    holds_id: bool
    cancel_requested: bool
    successor: bool
    chain: RunRef | None
    position: int
    chain_state: State | None
    blockers: int
    snoozes: int
    company: int | None


class Cut(TypedDict):
    """A payload, result or checkpoint that is too large to be shown whole: its size, and how it begins."""

    bytes: int
    preview: str


class JobWhole(JobShape):
    """A job with everything that the store keeps of it. What is in `truncated` is null, and can be downloaded."""

    error: ErrorWhole | None  # type: ignore[misc]
    headers: dict[str, str]
    payload: Json
    result: Json
    checkpoint: Json
    truncated: dict[str, Cut]


class JobList(TypedDict):
    """Some jobs, and where the next page begins."""

    jobs: list[JobShape]
    cursor: str | None


class EnqueueAnswer(RunRef):
    """What became of an enqueue."""

    status: str
    state: State


class BulkAnswer(TypedDict):
    """What became of each, in the order given, and how many became what."""

    jobs: list[EnqueueAnswer]
    counts: dict[str, int]


class ResultShape(RunRef):
    """How a run ended, with its result or error; with the status 202, that it has not ended yet."""

    state: State
    result: Json
    error: ErrorWhole | None
    progress: ProgressShape | None


class ReplyShape(TypedDict):
    """What a transition did."""

    queue: str
    id: str
    reply: Reply


class CancelShape(ReplyShape):
    """What cancel found and did."""

    state: State | None
    run: int | None
    signalled: bool
    successor: bool


class RequeueShape(TypedDict):
    """The new runs."""

    jobs: list[RunRef]


class BlockerShape(TypedDict):
    """A chain that a job waits for, or waited for."""

    queue: str
    id: str
    run: int | None
    state: State | None
    error: ErrorBrief | None


class BlockerList(TypedDict):
    """What a job waits for, or waited for, in the order given."""

    blockers: list[BlockerShape]


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
    started_at: str | None
    heard_at: str | None
    expires_at: str | None


class WorkerList(TypedDict):
    """Every worker."""

    workers: list[WorkerShape]


class ChainShape(RunRef):
    """A chain as a list shows it."""

    task: str | None
    state: State
    position: int
    current: RunRef
    enqueued_at: str | None
    finished_at: str | None
    expires_at: str | None
    error: ErrorBrief | None


class ChainWhole(ChainShape):
    """A chain, its result, and a page of its jobs, by their place in it."""

    result: Json
    jobs: list[JobShape]
    cursor: str | None


class ChainList(TypedDict):
    """Some chains, and where the next page begins."""

    chains: list[ChainShape]
    cursor: str | None


class DeleteShape(ReplyShape):
    """What the deletion of a chain did: how many chains are gone."""

    chains: int


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
