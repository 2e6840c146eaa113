"""enqueue: a job is taken in, or the one that has its id answers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ....core.bound import MOST_ID_BYTES, MOST_SAME_DEDUP
from ....core.state import State
from ...contract import Answer, Conflict, NewJob, Status
from ...rows import outcome, stored_error
from ..tx import Row, Tx
from . import blocker
from .claim import lane
from .fast.enqueue import continue_fresh, enqueue_fresh
from .row import NewRow, insert_row, keeps_payloads, new_row
from .update import put_successor, update


def enqueue(tx: Tx, queue: str, jobs: Sequence[NewJob], conflict: Conflict) -> list[Answer]:
    """Enqueue every job, or answer with the job that has its id; answers are in the order given."""
    return enqueue_fresh(tx, queue, jobs) or enqueue_each(tx, queue, jobs, conflict)


def enqueue_each(tx: Tx, queue: str, jobs: Sequence[NewJob], conflict: Conflict) -> list[Answer]:
    """Enqueue jobs one by one, whatever they need. This is the slow path that `enqueue_fresh` equals."""
    answers = [_enqueue_one(tx, queue, job, conflict) for job in jobs]
    both = zip(jobs, answers, strict=True)
    watched = [(to.id, to.run, job.watcher) for job, to in both if job.watcher is not None and not to.state.finished]
    tx.watch(queue, watched)
    return answers


def _enqueue_one(tx: Tx, queue: str, job: NewJob, conflict: Conflict) -> Answer:
    if job.dedup is not None and (found := _deduplicated(tx, queue, job)):
        return _as_it_is(found)
    existing = run_of_id(tx, queue, job.id)
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


def run_of_id(tx: Tx, queue: str, id: str) -> Row | None:
    """Return the run that has an id. A finished one whose TTL is over loses the id here."""
    row = tx.row("enqueue", "of_id", queue=queue, id=id)
    if row is not None and row["free_at_ms"] is not None and row["free_at_ms"] <= tx.now:
        tx.run("enqueue", "free_id", run=row["run"])
        return None
    return row


def answering_run(tx: Tx, queue: str, id: str) -> Row | None:
    """Return the run that has an id, or else its latest that is still kept."""
    return run_of_id(tx, queue, id) or tx.row("job", "latest", queue=queue, id=id, now=tx.now)


def _deduplicated(tx: Tx, queue: str, job: NewJob) -> Row | None:
    spec = job.dedup
    assert spec is not None
    found = tx.rows("enqueue", "deduplicated", queue=queue, task=job.task, key=spec.key, most=MOST_SAME_DEDUP)
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


def insert(tx: Tx, queue: str, job: NewJob, status: Status, *, chain: int | None = None, position: int = 0) -> Answer:
    """Insert a new run of a free id, at its position in a chain."""
    run = tx.next_runs(1)
    row = new_row(tx, queue, job, run, chain, position)
    state = insert_row(tx, row)
    error = None
    if job.blockers:
        waits = blocker.register(tx, run, job)
        state = wait(tx, queue, run, state, waits, job.on_blocker_failed)
        error = blocker.failure(waits.failed) if waits.failed is not None and state is State.FAILED else None
    transition = "requeue" if status == "requeued" else "enqueue"
    tx.append(transition, [run], payload=keeps_payloads(tx, queue))
    if state in (State.WAITING, State.SCHEDULED):
        _wake_for(tx, row)
    return Answer(status=status, id=job.id, run=run, state=state, error=error)


def _wake_for(tx: Tx, row: NewRow) -> None:
    """Check the lane of a run that was just inserted, and wake a worker for it."""
    if row["key"] is not None:
        lane.recheck(tx, row["queue"], row["key"])
    if row["state"] == "waiting":
        tx.wake(row["queue"], 1)
    else:
        tx.wake_for(row["queue"], row["run_at_ms"])


def wait(tx: Tx, queue: str, run: int, state: State, waits: blocker.Waits, policy: str) -> State:
    """Block a run that waits for others; return its state, once what its blockers lead to is done."""
    at_first = State.BLOCKED if waits.blocked else state
    tx.run("unblock", "waits", run=run, open=waits.open, policy=policy, state=at_first)
    tx.moved(queue, state, at_first)
    if waits.failed is None:
        return at_first
    tx.dependants[run] = (0, waits.failed)
    return State.CANCELLED if policy == "cancel" else State.FAILED


def enqueue_next(tx: Tx, queue: str, jobs: Sequence[tuple[NewJob, int, int]]) -> list[int]:
    """Enqueue the next job of each chain, given with the chain and its position there; return the new runs."""
    return continue_fresh(tx, queue, jobs) or [_enqueue_next_one(tx, queue, *each) for each in jobs]


def _enqueue_next_one(tx: Tx, queue: str, job: NewJob, chain: int, position: int) -> int:
    taken = run_of_id(tx, queue, job.id)
    if taken is not None:  # another job was given the very id: the chain continues under one of its own
        job = msgspec.structs.replace(job, id=f"{job.id}/{taken['run']}"[-MOST_ID_BYTES:])
        return _enqueue_next_one(tx, queue, job, chain, position)
    return insert(tx, queue, job, "queued", chain=chain, position=position).run


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
