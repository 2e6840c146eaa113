"""The lists: queues, workers, failures and jobs, each as columns and rows."""

from __future__ import annotations

from rich.text import Text

from ...core.job import JobRecord
from ...store.contract import QueueInfo, SessionInfo
from ...telemetry.recent import FailureGroup, Traffic
from ..output import duration, state_style
from .data import TopData
from .listing import Column, Listing, ListRow, SortValue, text
from .spark import added, sparkline
from .state import TopState

SPARK = 20
Shown = tuple[Text, SortValue]
"""A cell, and by what its row is sorted."""


def listing(data: TopData, state: TopState, *, ascii_only: bool = False) -> Listing:
    """Return the list of the view on the screen."""
    if state.view == "workers":
        return Listing(WORKER_COLUMNS, [_worker(info, data.now_ms) for info in data.workers], "no worker is known")
    if state.view == "failures":
        groups = data.view.failures
        return Listing(FAILURE_COLUMNS, [_failure(group, data.now_ms, ascii_only) for group in groups], "no failures")
    if state.view == "jobs":
        jobs = data.jobs.jobs if data.jobs else []
        empty = "no such job" if data.jobs else "reading"
        return Listing(JOB_COLUMNS, [_job(job, data.now_ms) for job in jobs], empty)
    return Listing(QUEUE_COLUMNS, [_queue(info, data, ascii_only) for info in data.queues], "no queue yet")


def _row(key: tuple[str, ...], *shown: Shown) -> ListRow:
    return ListRow(key, tuple(cell for cell, _ in shown), tuple(value for _, value in shown))


def _word(value: str | None, style: str = "") -> Shown:
    return text(value, style), value or ""


def _number(value: int, style: str = "") -> Shown:
    return text(f"{value:,}" if value else "·", style if value else "dim"), value


def _rate(traffic: Traffic, count: int) -> Shown:
    rate = traffic.rate(count)
    return text("·" if not count else f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}", "" if count else "dim"), rate


def _span(ms: int | None) -> Shown:
    return text(duration(ms)), ms


QUEUE_COLUMNS = (
    Column("queue"), Column("waiting", True), Column("active", True), Column("scheduled", True, 100),
    Column("blocked", True, 130), Column("failed", True), Column("in/s", True, 60), Column("done/s", True, 50),
    Column("wrong/s", True, 90), Column("wait p95", True, 80), Column("run p95", True, 110), Column("oldest", True, 70),
    Column("workers", True, 95), Column("last 100 s", False, 140, True), Column("", False, 60, True),
)  # fmt: skip


def _queue(info: QueueInfo, data: TopData, ascii_only: bool) -> ListRow:
    traffic = data.view.queues.get(info.name) or Traffic(seconds=1)
    counts, oldest = info.counts, info.oldest_waiting_ms
    waiting = counts.get("waiting", 0)
    done = added(data.done_by_queue.get(info.name, [])[:-1], 5)
    mark = "paused" if info.settings.paused else "no worker" if waiting and not info.workers else ""
    return _row(
        (info.name,),
        _word(info.name, "bold"),
        _number(waiting, "cyan"),
        _number(counts.get("active", 0), "yellow"),
        _number(counts.get("scheduled", 0)),
        _number(counts.get("blocked", 0)),
        _number(counts.get("failed", 0), "red"),
        _rate(traffic, traffic.arrived),
        _rate(traffic, traffic.completed),
        _rate(traffic, traffic.failed + traffic.retried + traffic.stalled),
        _span(traffic.wait.p95_ms),
        _span(traffic.run.p95_ms),
        _span(None if oldest is None else max(0, data.now_ms - oldest)),
        _number(info.workers),
        (Text(sparkline(done, SPARK, ascii_only=ascii_only), style="green"), sum(done)),
        _word(mark, "bold magenta" if mark == "paused" else "bold red"),
    )


WORKER_COLUMNS = (
    Column("worker"), Column("host", False, 80), Column("pid", True, 60), Column("is"), Column("queues", False, 70),
    Column("active", True), Column("slots", True), Column("up", True, 60), Column("heard", True),
)  # fmt: skip


def _worker(info: SessionInfo, now_ms: int) -> ListRow:
    session = info.session
    word = "alive" if info.alive else "gone"
    return _row(
        (session.id, session.name),
        _word(session.name, "bold"),
        _word(session.host),
        (text(session.pid), session.pid),
        _word(word, state_style(word)),
        _word(", ".join(session.queues)),
        _number(info.active, "yellow"),
        _number(session.slots),
        _span(max(0, now_ms - info.started_at_ms)),
        _span(max(0, now_ms - info.heard_at_ms)),
    )


FAILURE_COLUMNS = (
    Column("error"), Column("dead", True), Column("failed", True), Column("retried", True, 70),
    Column("last", True), Column("first", True, 90), Column("last hour", False, 110, True), Column("task", False, 60),
    Column("message", False, 80),
)  # fmt: skip


def _failure(group: FailureGroup, now_ms: int, ascii_only: bool) -> ListRow:
    names = ", ".join(group.tasks or group.queues)
    trend = added(group.trend, 3)
    return _row(
        (group.signature, group.sample.queue, group.sample.id, str(group.sample.run)),
        _word(group.type, "red"),
        _number(group.dead, "red"),
        _number(group.failed),
        _number(group.retried),
        _span(max(0, now_ms - group.last_ms)),
        _span(max(0, now_ms - group.first_ms)),
        (Text(sparkline(trend, SPARK, ascii_only=ascii_only), style="red"), sum(group.trend)),
        _word(names),
        _word(group.message),
    )


JOB_COLUMNS = (
    Column("id"), Column("queue", False, 100), Column("task", False, 60), Column("state"), Column("attempts", True, 70),
    Column("age", True), Column("ran", True, 80), Column("worker", False, 120), Column("error", False, 90),
)  # fmt: skip


def _job(job: JobRecord, now_ms: int) -> ListRow:
    error = f"{job.error.type}: {job.error.message}" if job.error else None
    ends = job.finished_at_ms or (now_ms if job.state == "active" else None)
    ran = None if job.started_at_ms is None or ends is None else max(0, ends - job.started_at_ms)
    return _row(
        (job.queue, job.id, str(job.run)),
        _word(job.id, "bold"),
        _word(job.queue),
        _word(job.task),
        _word(job.state, state_style(job.state)),
        _number(job.counters.attempts),
        _span(max(0, now_ms - job.enqueued_at_ms)),
        _span(ran),
        _word(job.worker),
        _word(error, "red"),
    )
