"""Errors by their signature: how many, since when, a job of each to look at. Bounded: the longest unseen gives way."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...core.event import Event
from ...core.job import JobRecord
from .traffic import MINUTES
from .view import FailureGroup, JobSample

MOST_GROUPS = 200
MOST_NAMES = 10
MOST_MESSAGE = 500
TREND_MINUTES = 60
_MINUTE_MS = 60_000


class Dead(msgspec.Struct):
    """Dead letters of one signature, as a count of them found: how many, from when to when, and the newest of them."""

    count: int
    first_ms: int
    newest: JobRecord


class ErrorTrail:
    """One signature."""

    __slots__ = (
        "dead", "failed", "first_ms", "last_ms", "looked_up", "message", "queues", "retried", "sample", "task",
        "tasks", "type",
    )  # fmt: skip

    def __init__(self, type: str, at_ms: int, sample: JobSample) -> None:
        self.type = type
        self.first_ms = self.last_ms = at_ms
        self.sample = sample
        self.message: str | None = None
        self.looked_up = False
        self.task: str | None = None
        self.queues: dict[str, None] = {}
        self.tasks: dict[str, None] = {}
        self.failed: dict[int, int] = {}
        self.retried: dict[int, int] = {}
        self.dead = 0

    def saw(self, event: Event) -> None:
        """Count an event; the sample is the last that failed for good, or else the last."""
        final = event.transition == "fail"
        counts = self.failed if final else self.retried
        minute = event.at_ms // _MINUTE_MS
        counts[minute] = counts.get(minute, 0) + 1
        self.first_ms = min(self.first_ms, event.at_ms)
        self.last_ms = max(self.last_ms, event.at_ms)
        self.name(event.queue, event.task)
        if final or not self.failed:
            self.sample = JobSample(queue=event.queue, id=event.id, run=event.run)

    def name(self, queue: str, task: str | None) -> None:
        """Take note of where it happened."""
        if len(self.queues) < MOST_NAMES:
            self.queues[queue] = None
        if task is not None and len(self.tasks) < MOST_NAMES:
            self.tasks[task] = None
        self.task = task

    def trim(self, minute: int) -> None:
        """Forget what is older than is kept."""
        for counts in (self.failed, self.retried):
            for old in [each for each in counts if each <= minute - MINUTES]:
                del counts[old]


class Failures:
    """All signatures that were seen lately, or that dead letters have."""

    def __init__(self) -> None:
        self._trails: dict[str, ErrorTrail] = {}

    def add(self, errors: Iterable[Event]) -> None:
        """Count the errors of a page of events."""
        for event in errors:
            signature = event.error_signature or ""
            trail = self._trails.get(signature)
            if trail is None:
                sample = JobSample(queue=event.queue, id=event.id, run=event.run)
                trail = self._begin(signature, ErrorTrail(event.error_type or "", event.at_ms, sample))
            trail.saw(event)

    def count_dead(self, found: dict[str, Dead]) -> None:
        """Put a new count of dead letters in place of the last."""
        for trail in self._trails.values():
            trail.dead = 0
        for signature, dead in found.items():
            trail = self._trails.get(signature) or self._begin(signature, _trail_of(dead))
            trail.dead = dead.count
            trail.first_ms = min(trail.first_ms, dead.first_ms)
            trail.name(dead.newest.queue, dead.newest.task)
            if trail.message is None:
                _take_message(trail, dead.newest)

    def without_message(self) -> list[tuple[str, JobSample]]:
        """Return the signatures of which no message was looked up yet, each with a job that should have one."""
        return [(name, trail.sample) for name, trail in self._trails.items() if not trail.looked_up]

    def looked_up(self, signature: str, record: JobRecord | None) -> None:
        """Take the message from a job, if its error is still this one. It is not looked up again."""
        if trail := self._trails.get(signature):
            trail.looked_up = True
            if record is not None and record.error is not None and record.error.signature == signature:
                _take_message(trail, record)

    def groups(self, now_ms: int) -> list[FailureGroup]:
        """Return every signature with something to tell, the most recent first."""
        minute = now_ms // _MINUTE_MS
        found = [_group(name, trail, minute) for name, trail in self._trails.items()]
        alive = [group for group in found if group.dead or group.failed or group.retried]
        return sorted(alive, key=lambda group: group.last_ms, reverse=True)

    def _begin(self, signature: str, trail: ErrorTrail) -> ErrorTrail:
        if len(self._trails) >= MOST_GROUPS:
            del self._trails[min(self._trails, key=lambda each: self._trails[each].last_ms)]
        self._trails[signature] = trail
        return trail


def _trail_of(dead: Dead) -> ErrorTrail:
    job, error = dead.newest, dead.newest.error
    at_ms = job.finished_at_ms or dead.first_ms
    return ErrorTrail(error.type if error else "", at_ms, JobSample(queue=job.queue, id=job.id, run=job.run))


def _take_message(trail: ErrorTrail, record: JobRecord) -> None:
    if record.error is not None:
        trail.message = record.error.message[:MOST_MESSAGE]
        trail.looked_up = True


def _group(signature: str, trail: ErrorTrail, minute: int) -> FailureGroup:
    trail.trim(minute)
    minutes = range(minute - TREND_MINUTES + 1, minute + 1)
    return FailureGroup(
        signature=signature,
        type=trail.type,
        message=trail.message,
        task=trail.task,
        sample=trail.sample,
        queues=list(trail.queues),
        tasks=list(trail.tasks),
        failed=sum(trail.failed.values()),
        retried=sum(trail.retried.values()),
        dead=trail.dead,
        first_ms=trail.first_ms,
        last_ms=trail.last_ms,
        trend=[trail.failed.get(each, 0) + trail.retried.get(each, 0) for each in minutes],
    )
