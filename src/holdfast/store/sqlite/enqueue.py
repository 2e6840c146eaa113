"""enqueue: a job is taken in, or the one that holds its id answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from ...core.state import State
from ..contract import Answer, Conflict, NewJob, Status
from ..row import outcome, stored_error
from . import blocker, lane
from .tx import Row, Tx
from .update import dedup_until, encoded, put_successor, starts_at, update

MOST_LOOKED_AT = 50


def enqueue(tx: Tx, queue: str, jobs: Sequence[NewJob], conflict: Conflict) -> list[Answer]:
    """Every job has its answer, in the order given."""
    if all(job.dedup is None and not job.blockers for job in jobs):
        answers = _all_new(tx, queue, jobs)
        if answers is not None:
            return answers
    answers = [_one(tx, queue, job, conflict) for job in jobs]
    for job, answer in zip(jobs, answers, strict=True):
        if job.watcher is not None and not answer.state.finished:
            tx.watch(queue, answer.id, answer.run, job.watcher)
    return answers


def _all_new(tx: Tx, queue: str, jobs: Sequence[NewJob]) -> list[Answer] | None:
    """Take in the whole batch at once; `None`, with nothing changed, when an id among them is held."""
    if not _all_free(tx, queue, [job.id for job in jobs if not job.fresh]):
        return None
    first = tx.next_runs(len(jobs))
    rows = [_row(tx, queue, job, run) for run, job in enumerate(jobs, first)]
    _insert_all(tx, queue, jobs, rows)
    for run, job in enumerate(jobs, first):
        if job.watcher is not None:
            tx.watch(queue, job.id, run, job.watcher)
    return [
        Answer(
            status="queued",
            id=job.id,
            run=run,
            state=State.WAITING if row[3] == "waiting" else State.SCHEDULED,
        )
        for run, (job, row) in enumerate(zip(jobs, rows, strict=True), first)
    ]


def _insert_all(tx: Tx, queue: str, jobs: Sequence[NewJob], rows: Sequence[tuple[Any, ...]]) -> None:
    """These rows, numbered one after the other, are there, in the log, and known to workers."""
    tx.run_many("enqueue", "insert", rows)
    payload = tx.queue(queue).settings.history == "payloads"
    tx.run("event", "append_range", now=tx.now, first=rows[0][0], last=rows[-1][0], payload=payload)
    _arrived(tx, queue, jobs, rows)


def follow(tx: Tx, queue: str, jobs: Sequence[tuple[NewJob, int, int]]) -> list[int]:
    """Each job, with the chain that it continues and its position there, is a new run; return their numbers."""
    if any(job.blockers for job, _, _ in jobs) or not _all_free(tx, queue, [job.id for job, _, _ in jobs]):
        return [_follow_one(tx, queue, *each) for each in jobs]
    first = tx.next_runs(len(jobs))
    rows = [_row(tx, queue, job, run, chain, at) for run, (job, chain, at) in enumerate(jobs, first)]
    _insert_all(tx, queue, [job for job, _, _ in jobs], rows)
    return list(range(first, first + len(jobs)))


def _follow_one(tx: Tx, queue: str, job: NewJob, chain: int, position: int) -> int:
    taken = holder(tx, queue, job.id)
    if taken is not None:  # somebody gave another job the very id: the chain goes on under one of its own
        job = msgspec.structs.replace(job, id=f"{job.id}/{taken['run']}"[-1024:])
        return _follow_one(tx, queue, job, chain, position)
    return insert(tx, queue, job, "queued", place=(chain, position)).run


def _all_free(tx: Tx, queue: str, ids: list[str]) -> bool:
    """True when no run holds any of these ids, and none is there twice."""
    if not ids:
        return True
    if len(set(ids)) < len(ids) or any("\0" in id for id in ids):  # JSON in SQLite ends a text at its first NUL
        return False
    return not tx.value("enqueue", "any_held", queue=queue, ids=json.dumps(ids))


def _row(tx: Tx, queue: str, job: NewJob, run: int, chain: int | None = None, position: int = 0) -> tuple[Any, ...]:
    run_at = starts_at(tx, job)
    dedup = job.dedup
    return (
        run,
        queue,
        job.id,
        "scheduled" if run_at > tx.now else "waiting",
        job.task,
        job.priority,
        job.key,
        run_at,
        run_at,
        tx.now,
        job.result_ttl_ms,
        dedup.key if dedup else None,
        dedup_until(tx, job),
        encoded(job.overrides) if job.overrides else None,
        encoded(job.headers) if job.headers else None,
        job.payload,
        chain,
        position,
    )


def _arrived(tx: Tx, queue: str, jobs: Sequence[NewJob], rows: Sequence[tuple[Any, ...]]) -> None:
    """Lanes are right and workers awake, after these rows were inserted."""
    for key in {job.key for job in jobs if job.key is not None}:
        lane.recheck(tx, queue, key)
    waiting = sum(row[3] == "waiting" for row in rows)
    if waiting:
        tx.wake(queue, waiting)
    if waiting < len(rows):
        tx.wake_for(queue, min(row[7] for row in rows if row[3] != "waiting"))


def _one(tx: Tx, queue: str, job: NewJob, conflict: Conflict) -> Answer:
    if job.dedup is not None and (found := _deduplicated(tx, queue, job)):
        return _as_it_is(found)
    existing = holder(tx, queue, job.id)
    if existing is None:
        return insert(tx, queue, job, "queued")
    state = outcome(existing)
    if conflict.on_conflict == "update":
        if existing["position"]:
            return Answer(status="refused", id=job.id, run=existing["run"], state=state)
        if state is State.ACTIVE:
            return put_successor(tx, existing, job, conflict)
        if not state.finished:
            return update(tx, existing, job, conflict)
    elif not (state is State.FAILED and conflict.on_failed == "requeue"):
        return _as_it_is(existing)
    tx.run("enqueue", "free_id", run=existing["run"])
    answer = insert(tx, queue, job, "requeued" if state is State.FAILED else "queued")
    tx.run("requeue", "mark", run=existing["run"], requeued_as=answer.run)
    return answer


def holder(tx: Tx, queue: str, id: str) -> Row | None:
    """Return the run that holds an id. A finished one whose TTL is over lets go of it here."""
    row = tx.row("enqueue", "existing", queue=queue, id=id)
    if row is not None and row["free_at_ms"] is not None and row["free_at_ms"] <= tx.now:
        tx.run("enqueue", "free_id", run=row["run"])
        return None
    return row


def _deduplicated(tx: Tx, queue: str, job: NewJob) -> Row | None:
    spec = job.dedup
    assert spec is not None
    found = tx.rows("enqueue", "deduplicated", queue=queue, task=job.task, key=spec.key, most=MOST_LOOKED_AT)
    for row in found:
        gone = row["expires_at_ms"] is not None and row["expires_at_ms"] <= tx.now
        state = outcome(row)
        over = state.finished and (spec.scope == "incomplete" or state is State.CANCELLED)
        old = spec.window_ms is not None and row["enqueued_at_ms"] + spec.window_ms <= tx.now
        if not (gone or over or old or row["id"] in spec.exclude):
            return row
    for row in tx.rows("enqueue", "deduplicated_successors", queue=queue, task=job.task, key=spec.key):
        old = spec.window_ms is not None and row["enqueued_at_ms"] + spec.window_ms <= tx.now
        if not (old or row["id"] in spec.exclude):
            return {**row, "state": "active", "chain_state": None, "result": None, "error": None}
    return None


def insert(
    tx: Tx, queue: str, job: NewJob, status: Status, *, place: tuple[int, int] | tuple[None, int] = (None, 0)
) -> Answer:
    """A new run of a free id is there, at its place in a chain."""
    run = tx.next_runs(1)
    row = _row(tx, queue, job, run, *place)
    tx.run_many("enqueue", "insert", [row])
    state = State(row[3])
    if job.blockers:
        state = wait(tx, run, state, blocker.register(tx, run, job), job.on_blocker_failed)
    transition = "requeue" if status == "requeued" else "enqueue"
    payload = tx.queue(queue).settings.history == "payloads"
    tx.append(transition, [run], payload=payload)
    if state in (State.WAITING, State.SCHEDULED):
        _arrived(tx, queue, [job], [row])
    return Answer(status=status, id=job.id, run=run, state=state)


def wait(tx: Tx, run: int, state: State, waits: blocker.Waits, policy: str) -> State:
    """The run is blocked, or not; return its state, once whatever its blockers lead to is done."""
    at_first = State.BLOCKED if waits.blocked else state
    tx.run("unblock", "waits", run=run, open=waits.open, policy=policy, state=at_first)
    if waits.failed is None:
        return at_first
    tx.dependants[run] = (0, waits.failed)
    return State.CANCELLED if policy == "cancel" else State.FAILED


def _as_it_is(row: Row) -> Answer:
    state = outcome(row)
    error = row["error"]
    return Answer(
        status="completed" if state is State.COMPLETED else "duplicate",
        id=row["id"],
        run=row["run"],
        state=state,
        result=row["result"],
        error=stored_error(error) if error and state is State.FAILED else None,
    )
