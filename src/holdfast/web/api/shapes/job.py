"""Answers about jobs."""

from __future__ import annotations

from typing import TypedDict

from ....core.state import State
from ....core.transition import Reply
from .common import ErrorBrief, ErrorWhole, Json, RunRef


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


class CountShape(TypedDict):
    """How many jobs match; `more`: counting ended before all were counted."""

    number: int
    more: bool


class DependantList(TypedDict):
    """Jobs that wait for a chain, oldest first, and how many there are, counted up to a limit."""

    jobs: list[RunRef]
    count: int


class RunList(TypedDict):
    """The runs of an id that are kept, newest first."""

    jobs: list[JobShape]
