"""What needs attention, in words: pure functions over what was seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from ...core.visible import visible
from ...store.contract import QueueInfo, SessionInfo
from .view import FollowState, TaskTraffic, Traffic

Severity = Literal["problem", "warning", "note"]
ConcernKind = Literal[
    "backlog", "oldest", "no_worker", "dead_worker", "failing_task", "stalls", "paused", "lake", "log", "store"
]
_RANK: dict[Severity, int] = {"problem": 0, "warning": 1, "note": 2}


class Concern(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that somebody should look at, and what it concerns. `words` are safe to show, names are as they are."""

    severity: Severity
    kind: ConcernKind
    words: str
    queue: str | None = None
    task: str | None = None
    worker: str | None = None
    """The id of a worker's session."""


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """From when on something needs attention."""

    oldest_ms: int = 5 * 60_000
    """A job that waits longer is a warning; six times as long, a problem."""
    backlog: int = 100
    """So many jobs must wait before a queue that grows is told of …"""
    growth: float = 1.5
    """… and so many times as many as five minutes before."""
    attempts: int = 10
    """So many attempts of a task must have ended within five minutes …"""
    failing: float = 0.2
    """… of which such a share went wrong; half of them is a problem."""
    lake_lag_ms: int = 10 * 60_000


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What is judged: the queues and workers of this moment, and what happened within the last five minutes."""

    now_ms: int
    queues: Sequence[QueueInfo]
    workers: Sequence[SessionInfo]
    traffic: dict[str, Traffic] = {}
    """By queue."""
    tasks: Sequence[TaskTraffic] = ()
    waiting_before: dict[str, int | None] = {}
    """By queue: how many jobs waited five minutes ago; `None` or missing when nobody looked."""
    lake_lag_ms: int | None = None
    """How far the lake is behind the log; `None` when there is none."""
    state: FollowState | None = None


def attention(seen: Seen, thresholds: Thresholds | None = None) -> list[Concern]:
    """Return what needs attention, the worst first."""
    limits = thresholds or Thresholds()
    found = [
        *_following(seen),
        *(concern for info in seen.queues for concern in _queue(info, seen, limits)),
        *(concern for info in seen.workers for concern in _worker(info, seen.now_ms)),
        *(concern for each in seen.tasks for concern in _task(each, limits)),
        *_lake(seen.lake_lag_ms, limits),
    ]
    return sorted(found, key=lambda concern: _RANK[concern.severity])


def _following(seen: Seen) -> Iterator[Concern]:
    state = seen.state
    if state is None:
        return
    if state.trouble is not None:
        yield Concern(severity="problem", kind="store", words=f"the store cannot be read: {state.trouble}")
    recent = [each for each in state.breaks if each.at_ms > state.now_ms - 300_000]
    if any(each.kind == "skipped" for each in recent):
        yield Concern(
            severity="note", kind="log", words="more events came than could be followed: rates of late are too low"
        )
    if any(each.kind != "skipped" for each in recent):
        yield Concern(
            severity="note", kind="log", words="events were trimmed, or the log was reset, before it was read"
        )


def _queue(info: QueueInfo, seen: Seen, limits: Thresholds) -> Iterator[Concern]:
    name, waiting = visible(info.name), info.counts.get("waiting", 0)
    if info.settings.paused:
        words = f"{name} is paused" + (f", and {_jobs(waiting)} in it" if waiting else "")
        yield Concern(severity="warning" if waiting else "note", kind="paused", words=words, queue=info.name)
    elif waiting and not info.workers:
        words = f"{_jobs(waiting)} in {name}, and no worker serves it"
        yield Concern(severity="problem", kind="no_worker", words=words, queue=info.name)
    else:
        yield from _oldest(info, seen.now_ms, limits)
        yield from _growing(info, waiting, seen.waiting_before.get(info.name), limits)
    stalled = seen.traffic[info.name].stalled if info.name in seen.traffic else 0
    if stalled:
        words = f"{name}: {stalled} {_plural('job', stalled)} stalled within 5 minutes: what ran them vanished"
        yield Concern(severity="warning", kind="stalls", words=words, queue=info.name)


def _oldest(info: QueueInfo, now_ms: int, limits: Thresholds) -> Iterator[Concern]:
    age = 0 if info.oldest_waiting_ms is None else now_ms - info.oldest_waiting_ms
    if age >= limits.oldest_ms:
        severity: Severity = "problem" if age >= 6 * limits.oldest_ms else "warning"
        words = f"a job of {visible(info.name)} has waited for {_span(age)}"
        yield Concern(severity=severity, kind="oldest", words=words, queue=info.name)


def _growing(info: QueueInfo, waiting: int, before: int | None, limits: Thresholds) -> Iterator[Concern]:
    if before is not None and waiting >= limits.backlog and waiting >= limits.growth * before:
        words = f"the backlog of {visible(info.name)} grows: {_jobs(waiting)}, {before} five minutes ago"
        yield Concern(severity="warning", kind="backlog", words=words, queue=info.name)


def _worker(info: SessionInfo, now_ms: int) -> Iterator[Concern]:
    if info.alive:
        return
    silent = _span(max(0, now_ms - info.heard_at_ms))
    held = f"; it held {info.active} {_plural('job', info.active)}" if info.active else ""
    yield Concern(
        severity="problem" if info.active else "warning",
        kind="dead_worker",
        words=f"worker {visible(info.session.name)} was last heard {silent} ago{held}",
        worker=info.session.id,
    )


def _task(each: TaskTraffic, limits: Thresholds) -> Iterator[Concern]:
    traffic = each.traffic
    wrong = traffic.failed + traffic.retried + traffic.stalled
    attempts = traffic.completed + wrong
    if attempts < limits.attempts or wrong < limits.failing * attempts:
        return
    name = visible(each.task) if each.task is not None else f"plain jobs of {visible(each.queue)}"
    yield Concern(
        severity="problem" if wrong >= attempts / 2 else "warning",
        kind="failing_task",
        words=f"{name}: {wrong} of {attempts} attempts within 5 minutes went wrong, {traffic.failed} for good",
        queue=each.queue,
        task=each.task,
    )


def _lake(lag_ms: int | None, limits: Thresholds) -> Iterator[Concern]:
    if lag_ms is not None and lag_ms >= limits.lake_lag_ms:
        severity: Severity = "problem" if lag_ms >= 6 * limits.lake_lag_ms else "warning"
        yield Concern(severity=severity, kind="lake", words=f"the lake is {_span(lag_ms)} behind the log")


def _jobs(count: int) -> str:
    return f"{count} {_plural('job', count)} {'waits' if count == 1 else 'wait'}"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _span(ms: int) -> str:
    for unit, size in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000)):
        if ms >= 2 * size:
            return f"{ms // size} {unit}"
    return f"{ms // 1000} seconds"
