"""What is read from a follower of the log: plain structs, ready for JSON. Instants are of the store's clock."""

from __future__ import annotations

from typing import Literal

import msgspec

Step = Literal["second", "minute"]
"""How finely a chart is drawn: seconds of the last 5 minutes, or minutes of the last 3 hours."""
BreakKind = Literal["gap", "reset", "skipped"]


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Durations at a glance. The percentiles are within 13 % of the truth; `max_ms` is exact."""

    count: int = 0
    p50_ms: int | None = None
    p95_ms: int | None = None
    max_ms: int | None = None


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """What happened within some time. Each event counts once; `failed` is for good, `stalled` is tried again."""

    seconds: float
    """How much of that time was followed: divide by it for a rate."""
    enqueued: int = 0
    started: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    stalled: int = 0
    cancelled: int = 0
    released: int = 0
    snoozed: int = 0
    requeued: int = 0
    wait: Spread = Spread()
    """From when a job could have run to its claim."""
    run: Spread = Spread()
    """From its claim to the end of the attempt, however it ended."""

    @property
    def ended(self) -> int:
        """Jobs that left the queue."""
        return self.completed + self.failed + self.cancelled

    @property
    def arrived(self) -> int:
        """Jobs that came into the queue."""
        return self.enqueued + self.requeued

    def rate(self, count: int) -> float:
        """Return a count of this traffic per second."""
        return count / self.seconds if self.seconds > 0 else 0.0


class SpreadChart(msgspec.Struct, frozen=True, kw_only=True):
    """Durations for each second or minute of a chart; `None` where there was none."""

    p50_ms: list[int | None]
    p95_ms: list[int | None]
    max_ms: list[int | None]


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One column for each second or minute, oldest first, all of one length. The last is not over yet."""

    begin_ms: int
    step_ms: int
    known_from_ms: int
    """Columns before this instant were not followed: their zeros mean nothing."""
    enqueued: list[int]
    started: list[int]
    completed: list[int]
    failed: list[int]
    retried: list[int]
    stalled: list[int]
    cancelled: list[int]
    released: list[int]
    snoozed: list[int]
    requeued: list[int]
    wait: SpreadChart
    run: SpreadChart


class DepthChart(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a queue by state, as last seen in each minute; `None` where nobody looked."""

    begin_ms: int
    step_ms: int
    waiting: list[int | None]
    scheduled: list[int | None]
    blocked: list[int | None]
    active: list[int | None]
    failed: list[int | None]
    oldest_age_ms: list[int | None]


class TaskTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a queue. `task` is `None` for plain jobs."""

    queue: str
    task: str | None
    traffic: Traffic


class JobSample(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a group of failures, to be opened."""

    queue: str
    id: str
    run: int


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Errors with one signature: of the same type, from the same place, with the same message but for its numbers."""

    signature: str
    type: str
    message: str | None = None
    """The message of one of them; `None` until it was looked up, or when its job is gone."""
    task: str | None = None
    sample: JobSample
    queues: list[str]
    tasks: list[str]
    failed: int = 0
    """Failures for good that were followed, of the last 3 hours."""
    retried: int = 0
    """Attempts that were tried again, or were given back, with this error."""
    dead: int = 0
    """Dead letters with this error, when they were last counted."""
    first_ms: int
    last_ms: int
    trend: list[int]
    """Errors for each of the last 60 minutes, oldest first; the last is not over yet."""


class LogBreak(msgspec.Struct, frozen=True, kw_only=True):
    """A place where the log was not read through: what lies before it may be missing from charts and counts."""

    kind: BreakKind
    """`gap`: trimmed before it was read; `reset`: another log; `skipped`: too much to keep up with."""
    at_ms: int
    missed: int | None = None
    """How many events, where that is known."""


class FollowState(msgspec.Struct, frozen=True, kw_only=True):
    """How the following itself goes."""

    now_ms: int
    since_ms: int | None
    """The log is known from here on; `None` before the first page was read."""
    lag_ms: int = 0
    """How old the newest event was when it was read, while more are left to read; else 0."""
    behind: bool = False
    """More events are there than were read; charts will catch up."""
    events: int = 0
    polls: int = 0
    trouble: str | None = None
    """Why the store could not be read the last time; `None` when it could."""
    dead_letters_counted: int = 0
    dead_letters_whole: bool = False
    """Whether the last count of dead letters went through all of them."""
    breaks: list[LogBreak] = []


class RecentView(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at a glance, but for the charts."""

    state: FollowState
    all: Traffic
    queues: dict[str, Traffic]
    tasks: list[TaskTraffic]
    failures: list[FailureGroup]
