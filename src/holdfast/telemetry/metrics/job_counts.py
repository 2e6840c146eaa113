"""What is counted of the jobs of one queue and task: one lookup leads to all of it."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.policy import Cause
from ...store.contract import Answer, NewJob
from .table import (
    CANCELLED,
    COMPLETED,
    CONFLICTS,
    ENQUEUED,
    FAILED,
    LAG,
    RELEASED,
    RETRIED,
    RUN,
    SNOOZED,
    STALLED,
    STARTED,
    WAIT,
    Metric,
)
from .tally import MOST_SETS, OTHER, MetricTally

_BY_CAUSE = {"fail": FAILED, "retry": RETRIED, "release": RELEASED}
_BY_TRANSITION = {"snooze": SNOOZED, "cancel": CANCELLED, "complete": COMPLETED}


FROM_ZERO: tuple[tuple[Metric, tuple[str, ...]], ...] = (
    (FAILED, (Cause.FAILURE,)), (FAILED, (Cause.PERMANENT,)), (RETRIED, (Cause.FAILURE,)), (STALLED, ()),
)  # fmt: skip
"""What is shown as 0 before it happens: a rate needs two values, and would miss the first failure."""


class JobCounts:
    """The counters and histograms of one queue and task. Those that most jobs need are at hand."""

    __slots__ = ("_labels", "_tally", "completed", "run", "started", "wait")

    def __init__(self, tally: MetricTally, queue: str, task: str) -> None:
        self._tally, self._labels = tally, (queue, task)
        self.started = tally.cell(STARTED, queue, task)
        self.completed = tally.cell(COMPLETED, queue, task)
        self.wait = tally.histogram(WAIT, queue, task)
        self.run = tally.histogram(RUN, queue, task)
        for metric, labels in FROM_ZERO:
            tally.cell(metric, queue, task, *labels)

    def settled(self, transition: str, cause: Cause | None) -> None:
        """Count how an attempt ended."""
        if transition == "release" and cause is Cause.STALL:
            self.count(STALLED)
        elif transition in _BY_CAUSE:
            self.count(_BY_CAUSE[transition], str(cause or ""))
        elif transition in _BY_TRANSITION:
            self.count(_BY_TRANSITION[transition])

    def count(self, metric: Metric, *labels: str) -> None:
        """Add one to a counter of this queue and task."""
        self._tally.cell(metric, *self._labels, *labels).value += 1

    def enqueued(self, status: str) -> None:
        """Count one answer to an enqueue."""
        if status in ("queued", "requeued"):
            self.count(ENQUEUED)
        else:
            self.count(CONFLICTS, status)

    def lagged(self, seconds: float) -> None:
        """Count how late an attempt began that had a time of its own."""
        self._tally.histogram(LAG, *self._labels).add(seconds)


class CountsByTask:
    """The counts of every queue and task that this process has met; past a number of them, of `other`."""

    def __init__(self, tally: MetricTally, most: int = MOST_SETS) -> None:
        self._tally, self._most = tally, most
        self._known: dict[tuple[str, str | None], JobCounts] = {}

    def of(self, queue: str, task: str | None) -> JobCounts:
        """Return the counts of a queue and task; those of a plain queue's jobs have an empty task."""
        found = self._known.get((queue, task))
        return found if found is not None else self._new(queue, task)

    def enqueued(self, queue: str, given: Sequence[NewJob], answers: Sequence[Answer]) -> None:
        """Count the answers to an enqueue of jobs."""
        for job, answer in zip(given, answers, strict=True):
            self.of(queue, job.task).enqueued(answer.status)

    def _new(self, queue: str, task: str | None) -> JobCounts:
        if len(self._known) < self._most:
            found = self._known[queue, task] = JobCounts(self._tally, queue, task or "")
            return found
        return self._known.setdefault((OTHER, OTHER), JobCounts(self._tally, OTHER, OTHER))
