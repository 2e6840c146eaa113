"""fail: a run is a dead letter, and its fail handler is enqueued."""

from __future__ import annotations

import msgspec

from ....core.bound import MOST_ID_BYTES
from ....core.envelope import readable
from ....core.job import ErrorRecord
from ....core.policy import COUNTER, Cause, Overrides
from ....core.state import State
from ...contract import KEEP, NewJob
from ..tx import Row, Tx
from . import enqueue
from .claim import lane
from .end import end_run
from .row import encoded


def fail(
    tx: Tx,
    row: Row,
    error: ErrorRecord,
    cause: Cause,
    *,
    exit: str = "fail",
    ttl: int | None = None,
    count: Cause | None = None,
    ran: bool = True,
) -> State:
    """Fail a run and enqueue its fail handler, if its task has one.

    `count` is what ended its last attempt; that cause is counted.
    """
    counters = {name: row[name] for name in COUNTER.values()}
    if count is not None and count is not Cause.SNOOZE:
        counters[COUNTER.get(count, "failures")] += 1
    tx.run(
        "fail",
        "finish",
        run=row["run"],
        exit=exit,
        error=encoded(error),
        signature=error.signature,
        now=tx.now,
        ttl=ttl,
        snoozes=row["snoozes"] + (count is Cause.SNOOZE),
        **tx.queue(row["queue"]).kept[State.FAILED],
        **counters,
    )
    tx.moved(row["queue"], row["state"], "failed")
    tx.append("fail", [row["run"]], cause=cause, ran=ran, error=error)
    _enqueue_fail_handler(tx, {**row, **counters}, error)
    end_run(tx, row, State.FAILED)
    lane.recheck_all(tx, row["queue"], {row["key"]})
    return State.FAILED


def _enqueue_fail_handler(tx: Tx, row: Row, error: ErrorRecord) -> None:
    """Enqueue a failure job with the original payload, key, priority, counters and error, once for each failed run."""
    policy = tx.policy(row["queue"], row["task"])
    if policy.on_failure is None:
        return
    queue, task = policy.on_failure
    job = NewJob(
        id=f"{row['id']}/failed/{row['run']}"[-MOST_ID_BYTES:],
        task=task,
        payload=row["payload"],
        key=row["key"],
        priority=row["priority"] if policy.on_failure_priority is None else policy.on_failure_priority,
        envelope=readable(row["envelope"]).of_failed(_failed(row, error)).encoded(),
    )
    enqueue.enqueue(tx, queue, [job], KEEP)


def _failed(row: Row, error: ErrorRecord) -> dict[str, object]:
    """Return what the failure job is told of the job that failed."""
    return {
        **{name: row[name] for name in ("queue", "id", "run", "task", "key", "priority", "run_at_ms")},
        "counters": {name: row[name] for name in ("attempts", *COUNTER.values())},
        "error": error,
    }


def overrides(row: Row) -> Overrides | None:
    """Return what a job's caller set for it."""
    try:
        return msgspec.json.decode(row["overrides"], type=Overrides) if row["overrides"] else None
    except msgspec.MsgspecError:
        return None  # an unreadable override must not keep the job from being put back; claim sets it aside
