"""The metrics of workers: what they tell an observer, added to the tally of the process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...core.policy import Cause
from ...core.state import State
from ...store.contract import Answer, Claimed, Complete, Expired, NewJob, Reaped, ReapedJob
from ..observer import Ended, Observer, StoreCall, WorkerEvent, WorkerView
from .calls import CallCounts
from .job_counts import CountsByTask, JobCounts
from .table import (
    CANCELLED,
    CLAIMED_AT_ONCE,
    DIED,
    ENQUEUED,
    EVENTS,
    EXPIRED,
    FAILED,
    KILLED,
    LOST,
    PROCESSES,
    RECYCLED,
    RUNNING,
    SETTLED_AT_ONCE,
    SLOTS,
    STALLED,
    WORKER_INFO,
)
from .tally import MetricTally, Sample

_COMPLETED = State.COMPLETED
_Group = tuple[JobCounts, list[float]]
"""Jobs of one task that came one after the other, and a value of each: one turn mostly has few such groups."""
_OF_PROCESSES = {"recycle": RECYCLED, "kill": KILLED}


FROM_ZERO = ("lease_lost", "store_lost", "worker_error")
"""Events that are shown as 0 before they happen."""


class WorkerMetrics(Observer):
    """Adds what workers do to a tally. One serves all workers of a process."""

    def __init__(self, tally: MetricTally, jobs: CountsByTask, calls: CallCounts, version: str) -> None:
        self._tally, self._jobs, self._calls, self._version = tally, jobs, calls, version
        self._claimed = tally.histogram(CLAIMED_AT_ONCE)
        self._settled = tally.histogram(SETTLED_AT_ONCE)
        self._views: list[WorkerView] = []
        tally.sources.append(self._gauges)
        for event in FROM_ZERO:
            tally.cell(EVENTS, event)

    def begin(self, worker: WorkerView) -> None:
        self._views.append(worker)

    def end(self, worker: WorkerView) -> None:
        self._views.remove(worker)

    def started(self, claimed: Sequence[Claimed]) -> None:
        groups, queue, task = list[_Group](), "", None
        for job in claimed:
            if job.task != task or job.lease.queue != queue or not groups:
                queue, task = job.lease.queue, job.task
                counts, waits = self._jobs.of(queue, task), list[float]()
                groups.append((counts, waits))
            due, at = job.enqueued_at_ms, job.claimed_at_ms
            if job.run_at_ms > due:  # it had a time of its own
                due = job.run_at_ms
                counts.lagged((at - due) / 1000 if at > due else 0.0)
            waits.append((at - due) / 1000 if at > due else 0.0)
        for counts, waits in groups:
            counts.started.value += len(waits)
            counts.wait.add_all(waits)

    def settled(self, ended: Sequence[Ended]) -> None:
        groups, queue, task = list[_Group](), "", None
        for each in ended:
            claimed, entry = each.claimed, each.settlement
            if claimed.task != task or claimed.lease.queue != queue or not groups:
                queue, task = claimed.lease.queue, claimed.task
                counts, runs = self._jobs.of(queue, task), list[float]()
                groups.append((counts, runs))
            if each.ran is not None:
                runs.append(each.ran)
            if each.settled is not None and each.settled.state is _COMPLETED:
                counts.completed.value += 1
            else:
                counts.settled(each.transition, each.cause)
            if type(entry) is Complete and entry.then is not None:
                self._jobs.of(entry.then.queue, entry.then.job.task).count(ENQUEUED)
        for counts, runs in groups:
            counts.run.add_all(runs)

    def lost(self, ended: Sequence[Ended], why: str) -> None:
        for each in ended:
            self._jobs.of(each.claimed.lease.queue, each.claimed.task).count(LOST)

    def reaped(self, queue: str, reaped: Reaped) -> None:
        for job in reaped.jobs:
            self._reaped(queue, job)

    def _reaped(self, queue: str, job: ReapedJob) -> None:
        counts = self._jobs.of(queue, job.task)
        if job.state is State.CANCELLED:
            counts.count(CANCELLED)
            return
        counts.count(STALLED)
        if job.state is State.FAILED:
            counts.count(FAILED, Cause.STALL)

    def fired(self, queue: str, jobs: Sequence[NewJob], answers: Sequence[Answer]) -> None:
        self._jobs.enqueued(queue, jobs, answers)

    def expired(self, queue: str, expired: Expired) -> None:
        self._tally.cell(EXPIRED, queue).value += expired.runs

    def store_call(self, call: StoreCall) -> None:
        self._calls.add(call)
        if call.name == "settle_and_claim" and call.error is None:
            self._claimed.add(call.claimed)
            self._settled.add(call.settled)

    def happened(self, event: WorkerEvent) -> None:
        self._tally.cell(EVENTS, event.name).value += 1

    def process_ended(self, how: str, cause: str) -> None:
        if how in _OF_PROCESSES:
            self._tally.cell(_OF_PROCESSES[how], cause).value += 1
        else:
            self._tally.cell(DIED).value += 1

    def _gauges(self) -> Iterator[Sample]:
        """Yield what the workers are at; called from other threads than theirs."""
        for view in tuple(self._views):
            name, free = view.name, view.free
            yield Sample(WORKER_INFO, (name, self._version, view.store_url), 1)
            yield Sample(SLOTS, (name, "used"), view.slots - free)
            yield Sample(SLOTS, (name, "free"), free)
            yield Sample(RUNNING, (name,), view.running)
            yield Sample(PROCESSES, (name,), view.processes)
