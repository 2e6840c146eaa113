"""Fast path of enqueue: a batch of plain jobs with new ids, in one statement for rows and one for events.

It equals `enqueue.enqueue_each`, the slow path, which takes one job after the other. A batch with blockers, a dedup key
or an id that may be taken is left to that. Compared by tests/store/sqlite/test_sqlite_fast_paths.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from .....core.state import State
from ....contract import Answer, NewJob
from ...tx import Tx
from ..claim import lane
from ..row import COLUMNS, Packed, keeps_payloads, packed

_RUN, _STATE, _RUN_AT = (COLUMNS.index(name) for name in ("run", "state", "run_at_ms"))


def enqueue_fresh(tx: Tx, queue: str, jobs: Sequence[NewJob]) -> list[Answer] | None:
    """Enqueue the whole batch at once; `None`, with nothing changed, when that does not work for a job of it."""
    if not jobs or any(job.dedup is not None or job.blockers for job in jobs):
        return None
    if not _are_free(tx, queue, [job.id for job in jobs if not job.fresh]):
        return None
    first = tx.next_runs(len(jobs))
    rows = [packed(tx, queue, job, run) for run, job in enumerate(jobs, first)]
    _insert(tx, queue, jobs, rows)
    tx.watch(queue, [(job.id, run, job.watcher) for run, job in enumerate(jobs, first) if job.watcher is not None])
    return [
        Answer(
            status="queued",
            id=job.id,
            run=run,
            state=State.WAITING if row[_STATE] == "waiting" else State.SCHEDULED,
        )
        for run, (job, row) in enumerate(zip(jobs, rows, strict=True), first)
    ]


def continue_fresh(tx: Tx, queue: str, jobs: Sequence[tuple[NewJob, int, int]]) -> list[int] | None:
    """Enqueue the next jobs of chains at once, like `enqueue_fresh`; return their runs, or `None`."""
    if any(job.blockers for job, _, _ in jobs) or not _are_free(tx, queue, [job.id for job, _, _ in jobs]):
        return None
    first = tx.next_runs(len(jobs))
    rows = [packed(tx, queue, job, run, chain, at) for run, (job, chain, at) in enumerate(jobs, first)]
    _insert(tx, queue, [job for job, _, _ in jobs], rows)
    return list(range(first, first + len(jobs)))


def _are_free(tx: Tx, queue: str, ids: list[str]) -> bool:
    """Return whether no run has any of these ids, and none is there twice."""
    if not ids:
        return True
    if len(set(ids)) < len(ids) or any("\0" in id for id in ids):  # JSON in SQLite ends a text at its first NUL
        return False
    return not tx.value("enqueue", "any_taken", queue=queue, ids=json.dumps(ids))


def _insert(tx: Tx, queue: str, jobs: Sequence[NewJob], rows: Sequence[Packed]) -> None:
    """Insert the rows of jobs with consecutive runs, append their events, check their lanes and wake workers."""
    tx.run_many("enqueue", "insert", rows)
    later = [row[_RUN_AT] for row in rows if row[_STATE] != "waiting"]
    waiting = len(rows) - len(later)
    tx.moved(queue, None, "waiting", waiting)
    tx.moved(queue, None, "scheduled", len(later))
    payload = keeps_payloads(tx, queue)
    tx.run("event", "append_range", now=tx.now, first=rows[0][_RUN], last=rows[-1][_RUN], payload=payload)
    lane.recheck_all(tx, queue, [job.key for job in jobs])  # in order: a new lane has the next turn
    if waiting:
        tx.wake(queue, waiting)
    if later:
        tx.wake_for(queue, min(later))
