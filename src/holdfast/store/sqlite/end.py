"""fail, cancel, complete from outside, and what follows from every end of a run."""

from __future__ import annotations

import msgspec

from ...core.chain import BlockerRef
from ...core.job import ErrorRecord
from ...core.policy import COUNTER, Cause, Overrides, effective
from ...core.state import State
from ...core.transition import Reply, judge
from ..contract import KEEP, NewJob
from . import blocker, chain, enqueue, lane, update
from .tx import Row, Tx

_json = msgspec.json.Encoder().encode


def over(tx: Tx, row: Row, state: State) -> None:
    """What follows from a run's end: its chain ends, a successor starts, waiters and dependants hear of it."""
    if row["state"] == "blocked":
        tx.run("unblock", "abandon", run=row["run"])
    first = chain.end(tx, row, state)
    if first is not None:
        update.succeed(tx, first)
        blocker.report(tx, [first["run"]])
        if first is not row:
            tx.tell_watchers(first, state)
    tx.tell_watchers(row, state)


def release(tx: Tx) -> None:
    """unblock: whoever waited for nothing else may run; whose blocker failed follows its policy."""
    while tx.dependants:
        run, (done, failed) = next(iter(tx.dependants.items()))
        del tx.dependants[run]
        row = tx.job(run)
        if row is None or row["state"] != "blocked":
            continue
        if failed is not None and row["on_blocker_failed"] != "ignore":
            _give_up(tx, row, failed)
        elif tx.value("unblock", "count_down", run=run, done=done) == 0:
            blocker.unblock(tx, row)


def _give_up(tx: Tx, row: Row, failed: BlockerRef) -> None:
    if row["on_blocker_failed"] == "cancel":
        cancelled(tx, row, row["exit"] or "cancel", ran=False, cause=Cause.BLOCKER)
        return
    error = ErrorRecord(
        type="BlockerFailed",
        kind=Cause.BLOCKER,
        message="a job that it waited for did not complete",
        fields={"queue": failed.queue, "id": failed.id},
    )
    fail(tx, row, error, Cause.BLOCKER, ran=False)


def fail(
    tx: Tx,
    row: Row,
    error: ErrorRecord,
    cause: Cause,
    *,
    exit: str = "fail",
    ttl: int | None = None,
    count: bool = False,
    ran: bool = True,
) -> State:
    """fail: the run is a dead letter, and its fail handler, if it has one, is enqueued."""
    settings = tx.queue(row["queue"]).settings
    counters = {name: row[name] for name in COUNTER.values()}
    if count:
        counters[COUNTER.get(cause, "failures")] += 1
    tx.run(
        "fail",
        "finish",
        run=row["run"],
        exit=exit,
        error=_json(error),
        now=tx.now,
        ttl=ttl,
        queue_ttl=settings.result_ttl_ms,
        kept=settings.retention.failed_ms,
        **counters,
    )
    tx.append("fail", [row["run"]], cause=cause, ran=ran, error=error)
    _enqueue_fail_handler(tx, {**row, **counters}, error)
    over(tx, row, State.FAILED)
    lane.recheck_all(tx, row["queue"], {row["key"]})
    return State.FAILED


def _enqueue_fail_handler(tx: Tx, row: Row, error: ErrorRecord) -> None:
    """A failure job with the original payload, counters and error, once for each failed run."""
    handler = effective(tx.policy(row["queue"], row["task"]), overrides(row)).on_failure
    if handler is None:
        return
    queue, task = handler
    job = NewJob(
        id=f"{row['id']}/failed/{row['run']}"[-1024:],
        task=task,
        payload=row["payload"],
        headers={
            **_headers(row),
            "holdfast-failed": _json(
                {
                    "queue": row["queue"],
                    "id": row["id"],
                    "run": row["run"],
                    "task": row["task"],
                    "counters": {name: row[name] for name in ("attempts", *COUNTER.values())},
                    "error": error,
                }
            ).decode(),
        },
    )
    enqueue.enqueue(tx, queue, [job], KEEP)


def cancelled(tx: Tx, row: Row, exit: str, *, ran: bool = True, cause: str | None = None) -> State:
    """cancel: the run is over and its id free."""
    settings = tx.queue(row["queue"]).settings
    tx.run("cancel", "finish", run=row["run"], exit=exit, now=tx.now, queue_ttl=settings.result_ttl_ms)
    tx.append("cancel", [row["run"]], cause=exit if ran else cause, ran=ran)
    over(tx, row, State.CANCELLED)
    if row["state"] == "blocked":
        lane.recheck_all(tx, row["queue"], {row["key"]})
    return State.CANCELLED


def abort(tx: Tx, row: Row, reason: str) -> None:
    """The handler of an active run will hear that it must stop."""
    tx.run(
        "cancel", "tell", session=row["session"], run=row["run"], attempt=row["attempts"],
        queue=row["queue"], id=row["id"], reason=reason,
    )  # fmt: skip
    tx.ring_session(row["session"])


def complete_chain(tx: Tx, queue: str, id: str, run: int | None, result: bytes, ttl: int | None) -> Reply:
    """complete, from outside: the chain is over with this result, whoever works on its current job."""
    first = chain.first_of(tx, queue, id, run)
    row = None if first is None else chain.current(tx, first)
    reply = judge("complete", State(row["state"]) if row else None, outside=True)
    if row is None or reply is not Reply.OK:
        return reply
    settings = tx.queue(row["queue"]).settings
    tx.run(
        "complete", "from_outside", run=row["run"], result=result, now=tx.now, ttl=ttl,
        queue_ttl=settings.result_ttl_ms, kept=settings.retention.completed_ms,
    )  # fmt: skip
    tx.append("complete", [row["run"]], cause="outside", ran=row["state"] == "active")
    over(tx, row, State.COMPLETED)
    lane.recheck_all(tx, row["queue"], {row["key"]})
    if row["state"] == "active":
        abort(tx, row, "completed_elsewhere")
        tx.wake(row["queue"], 1)
    return reply


def _headers(row: Row) -> dict[str, str]:
    try:
        return msgspec.json.decode(row["headers"], type=dict[str, str]) if row["headers"] else {}
    except msgspec.MsgspecError:
        return {}  # unreadable headers must not keep a broken job from its fail handler


def overrides(row: Row) -> Overrides | None:
    """Return what a job's caller set for it."""
    try:
        return msgspec.json.decode(row["overrides"], type=Overrides) if row["overrides"] else None
    except msgspec.MsgspecError:
        return None  # an unreadable override must not keep the job from being put back; claim sets it aside
