"""complete, retry, fail, snooze, release: how an attempt ends, fenced by its lease."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import msgspec

from ...core.job import ErrorRecord, Progress
from ...core.policy import COUNTER, Cause, Overrides, effective, verdict
from ...core.state import State
from ...core.transition import Reply, judge
from ..contract import (
    KEEP,
    Complete,
    Failed,
    Lease,
    NewJob,
    Released,
    Retried,
    Session,
    Settled,
    Settlement,
    Snoozed,
)
from . import enqueue, lane
from .tx import Row, Tx

_json = msgspec.json.Encoder().encode
_NAME = {Complete: "complete", Retried: "retry", Failed: "fail", Snoozed: "snooze", Released: "release"}


def settle(tx: Tx, session: Session, settlements: Sequence[Settlement]) -> list[Settled]:
    """Every settlement has its word, in the order given."""
    if len(settlements) > 1 and all(type(entry) is Complete for entry in settlements):
        done = _complete_all(tx, session, settlements)  # type: ignore[arg-type]
        if done is not None:
            return done
    return [_settle(tx, session, entry) for entry in settlements]


def _complete_all(tx: Tx, session: Session, entries: Sequence[Complete]) -> list[Settled] | None:
    """complete: a whole batch at once; `None`, with nothing changed, when one of it needs a closer look."""
    results = _results(entries)
    if results is None or any(tx.run("session", "busy").fetchone()) or not _holds_all(tx, session, entries):
        return None
    settings = tx.settings(entries[0].lease.queue)
    kept = settings.retention.completed_ms
    tx.run("complete", "finish_all", results=results, now=tx.now, queue_ttl=settings.result_ttl_ms, kept=kept)
    tx.append("complete", [entry.lease.run for entry in entries], ran=True)
    return [Settled(Reply.OK, State.COMPLETED)] * len(entries)


def _results(entries: Sequence[Complete]) -> str | None:
    """Return the results by run as one JSON text, for one statement; `None` when they are not all alike text."""
    queue = entries[0].lease.queue
    results = {}
    for entry in entries:
        if entry.lease.queue != queue or entry.result_ttl_ms is not None or b"\0" in entry.result:
            return None
        try:
            results[entry.lease.run] = entry.result.decode()
        except UnicodeDecodeError:
            return None
    return json.dumps(results) if len(results) == len(entries) else None


def _holds_all(tx: Tx, session: Session, entries: Sequence[Complete]) -> bool:
    """True when every lease is held. A run's attempts never fall, so equal sums mean equal attempts."""
    runs = [entry.lease.run for entry in entries]
    held = tx.run("complete", "held", session=session.id, runs=json.dumps(runs)).fetchone()
    return bool(held == (len(runs), sum(entry.lease.attempt for entry in entries)))


def _completion(tx: Tx, session: Session, entry: Complete) -> tuple[object, ...]:
    lease = entry.lease
    settings = tx.settings(lease.queue)
    kept = settings.retention.completed_ms
    ttl = settings.result_ttl_ms
    return entry.result, tx.now, entry.result_ttl_ms, ttl, kept, lease.run, lease.attempt, session.id


def _settle(tx: Tx, session: Session, entry: Settlement) -> Settled:
    row = tx.job(entry.lease.run)
    reply = _word(session, row, entry.lease, _NAME[type(entry)])
    if row is None:
        tx.run("session", "forget_abort", run=entry.lease.run, attempt=entry.lease.attempt)
    if row is None or reply is not Reply.OK:
        return Settled(reply)
    if row["state"] != "active" or row["attempts"] != entry.lease.attempt:
        return Settled(reply, State(row["state"]))  # a repeat: it was done before
    state = _apply(tx, session, row, entry)
    tx.run("session", "forget_abort", run=row["run"], attempt=row["attempts"])
    lane.recheck_all(tx, row["queue"], {row["key"]})
    return Settled(reply, state)


def _word(session: Session, row: Row | None, lease: Lease, name: str) -> Reply:
    if row is None or (row["queue"], row["id"]) != (lease.queue, lease.id):
        return judge(name, None)
    ours = row["session"] == session.id and row["attempts"] == lease.attempt
    active = row["state"] == "active"
    repeated = ours and not active and row["exit"] == name
    # The attempt before is remembered too: a repeat may come when somebody else has claimed the job already.
    if row["last_session"] == session.id and row["attempts"] == lease.attempt + 1:
        repeated = row["last_exit"] == name
    return judge(name, State(row["state"]), holds_lease=ours and active, repeated=repeated)


def holds(tx: Tx, session: Session, lease: Lease, name: str) -> Reply:
    """Return the word for a step that needs the lease but does not end it."""
    word = _word(session, tx.job(lease.run), lease, name)
    return word if word is not Reply.OK or is_alive(tx, session) else Reply.STALE


def is_alive(tx: Tx, session: Session) -> bool:
    """True until the session is declared dead, in whichever of its queues."""
    _, count, _, _ = tx.run("session", "alive", session=session.id).fetchone()
    return int(count) >= len(session.queues)


def _apply(tx: Tx, session: Session, row: Row, entry: Settlement) -> State:
    if isinstance(entry, Complete):
        return _complete(tx, session, row, entry)
    if row["cancel"]:
        return cancelled(tx, row, _NAME[type(entry)])
    if isinstance(entry, Retried):
        return come_back(tx, row, entry.cause, entry.error, exit="retry")
    if isinstance(entry, Failed):
        return fail(tx, row, entry.error, entry.cause, ttl=entry.result_ttl_ms, count=True)
    if isinstance(entry, Released):
        return come_back(tx, row, entry.cause, entry.error, exit="release", delay=entry.delay_ms)
    return _snooze(tx, row, entry)


def _complete(tx: Tx, session: Session, row: Row, entry: Complete) -> State:
    tx.run_many("complete", "finish", [_completion(tx, session, entry)])
    tx.append("complete", [row["run"]], ran=True)
    over(tx, row, State.COMPLETED)
    return State.COMPLETED


def over(tx: Tx, row: Row, state: State) -> None:
    """What follows from a run's end: its successor starts, and its waiters hear of it."""
    enqueue.succeed(tx, row)
    tx.tell_watchers(row, state)


def come_back(tx: Tx, row: Row, cause: Cause, error: ErrorRecord | None, *, exit: str, delay: int = 0) -> State:
    """retry, release, reap: the run counts its cause and waits again, or fails at its limit."""
    policy = effective(tx.policy(row["queue"], row["task"]), _overrides(row))
    counter = COUNTER[cause]
    counted = row[counter] + 1
    if verdict(policy.retry, cause, counted) == "fail":
        error = error or ErrorRecord(
            type="TooMany" + counter.capitalize(),
            kind=cause,
            message=f"{counted} {counter}, and no more are allowed",
        )
        return fail(tx, row, error, cause, exit=exit, count=True)
    row = {**row, counter: counted}
    if exit == "retry":
        spread = random.uniform(-1, 1) if policy.retry.jitter else 0.0
        wait = policy.retry.backoff_ms(counted, spread)
        _put_back(tx, row, exit, error, run_at=tx.now + wait, cause=cause)
    else:
        run_at = tx.now + delay if delay else row["run_at_ms"]
        stalled = exit == "release" and cause is Cause.STALL
        _put_back(tx, row, exit, error, run_at=run_at, cause=cause if stalled else None)
    return State(tx.job(row["run"])["state"])  # type: ignore[index]


def _put_back(tx: Tx, row: Row, exit: str, error: ErrorRecord | None, *, run_at: int, cause: Cause | None) -> None:
    """The run waits for its next attempt, at its time or in its old place, merged with its successor."""
    later = run_at > tx.now
    tx.run_many(
        exit,
        "put_back",
        [
            {
                "run": row["run"],
                "now": tx.now,
                "state": "scheduled" if later else "waiting",
                "run_at": run_at,
                "ready_at": max(run_at, tx.now),
                "error": _json(error) if error else row["error"],
                **{name: row[name] for name in COUNTER.values()},
            }
        ],
    )
    tx.append(exit, [row["run"]], cause=cause, ran=True, error=error)
    enqueue.absorb(tx, row)
    tx.wake_for(row["queue"], run_at)


def _snooze(tx: Tx, row: Row, entry: Snoozed) -> State:
    run_at = tx.now + (entry.delay_ms or 0) if entry.run_at_ms is None else max(entry.run_at_ms, tx.now)
    _put_back(tx, row, "snooze", None, run_at=run_at, cause=None)
    return State(tx.job(row["run"])["state"])  # type: ignore[index]


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
    handler = effective(tx.policy(row["queue"], row["task"]), _overrides(row)).on_failure
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


def cancelled(tx: Tx, row: Row, exit: str, *, ran: bool = True) -> State:
    """cancel: the run is over and its id free."""
    settings = tx.queue(row["queue"]).settings
    tx.run("cancel", "finish", run=row["run"], exit=exit, now=tx.now, queue_ttl=settings.result_ttl_ms)
    tx.append("cancel", [row["run"]], cause=exit if ran else None, ran=ran)
    over(tx, row, State.CANCELLED)
    return State.CANCELLED


def _headers(row: Row) -> dict[str, str]:
    try:
        return msgspec.json.decode(row["headers"], type=dict[str, str]) if row["headers"] else {}
    except msgspec.MsgspecError:
        return {}  # unreadable headers must not keep a broken job from its fail handler


def _overrides(row: Row) -> Overrides | None:
    try:
        return msgspec.json.decode(row["overrides"], type=Overrides) if row["overrides"] else None
    except msgspec.MsgspecError:
        return None  # an unreadable override must not keep the job from being put back; claim sets it aside


def progress(tx: Tx, session: Session, lease: Lease, report: Progress | None, checkpoint: bytes | None) -> Reply:
    """progress: how far it is, and what its next attempt should know, stand with the run."""
    reply = holds(tx, session, lease, "progress")
    if reply is Reply.OK:
        encoded = _json(report) if report is not None else None
        tx.run("progress", "store", run=lease.run, progress=encoded, checkpoint=checkpoint)
        if tx.run("progress", "noted", run=lease.run, now=tx.now).rowcount:
            fraction, message = (report.fraction, report.message) if report else (None, None)
            tx.run("event", "append_progress", run=lease.run, now=tx.now, fraction=fraction, message=message)
            tx.tell_progress(lease)
    return reply
