"""promote and claim: due jobs take their place, and a worker gets what the limits allow."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from ...core.job import ErrorRecord
from ...core.limit import Bucket, QueueSettings, next_token_ms, refill
from ...core.policy import Cause, Counters, Overrides, effective, spent
from ..contract import Claimed, Lease, Session
from . import lane
from .settle import fail
from .tx import Tx

MOST_PROMOTED = 200
_overrides = msgspec.json.Decoder(Overrides).decode
_headers = msgspec.json.Decoder(dict[str, str]).decode
_error = msgspec.json.Decoder(ErrorRecord).decode
_FRESH = Counters(attempts=1)


class Offer(msgspec.Struct):
    """What a queue gave, and when it may give more."""

    claimed: list[Claimed]
    next_at_ms: int | None = None
    more: bool = False


def promote_due(tx: Tx, queue: str) -> None:
    """promote: jobs and lanes whose time has come may be claimed, a bounded number of them."""
    due = tx.run("promote", "due", queue=queue, now=tx.now, limit=MOST_PROMOTED).fetchall()
    if due:
        tx.append("promote", [run for run, _ in due])
        lane.recheck_all(tx, queue, {key for _, key in due})
    lane.promote_due(tx, queue, MOST_PROMOTED)


def claim(tx: Tx, session: Session, queue: str, room: int) -> Offer:
    """claim: the session holds up to `room` jobs more."""
    settings = tx.queue(queue).settings
    if settings.paused:
        return Offer([])
    promote_due(tx, queue)
    allowed, bucket = _allowed(tx, queue, settings, room)
    rows = _take(tx, session, queue, allowed) if allowed > 0 else []
    claimed = _hand_out(tx, queue, rows)
    if claimed:
        tx.append("claim", [job.lease.run for job in claimed])
    next_at = _next_at(tx, queue)
    if bucket is not None:
        next_at = _pay(tx, queue, settings, bucket, len(claimed), next_at)
    return Offer(claimed, next_at, more=len(rows) == allowed == room)


def _allowed(tx: Tx, queue: str, settings: QueueSettings, room: int) -> tuple[int, Bucket | None]:
    """Return how many jobs the queue's own limits let start now, and its bucket."""
    if settings.concurrency is not None:
        room = min(room, settings.concurrency - int(tx.value("claim", "active", queue=queue)))
    if settings.rate is None:
        return room, None
    row = tx.row("queue", "get", queue=queue)
    assert row is not None
    stored = None if row["tokens"] is None else Bucket(row["tokens"], row["tokens_at_ms"])
    bucket = refill(settings.rate, stored, tx.now)
    return min(room, math.floor(bucket.tokens)), bucket


def _pay(tx: Tx, queue: str, settings: QueueSettings, bucket: Bucket, count: int, next_at: int | None) -> int | None:
    """The bucket is less by what was claimed; return when the queue may give again."""
    assert settings.rate is not None
    bucket = Bucket(bucket.tokens - count, bucket.at_ms)
    tx.run("queue", "tokens", queue=queue, tokens=bucket.tokens, at=bucket.at_ms)
    if bucket.tokens >= 1:
        return next_at
    token_at = next_token_ms(settings.rate, bucket)
    return token_at if next_at is None or _is_waiting(tx, queue) else max(next_at, token_at)


def _is_waiting(tx: Tx, queue: str) -> bool:
    return bool(tx.value("claim", "keyless_waiting", queue=queue)) or bool(tx.value("lane", "any", queue=queue))


def _next_at(tx: Tx, queue: str) -> int | None:
    scheduled = tx.value("claim", "next_scheduled", queue=queue)
    timed = tx.value("lane", "next", queue=queue)
    known = [instant for instant in (scheduled, timed) if instant is not None]
    return min(known) if known else None


def _take(tx: Tx, session: Session, queue: str, room: int) -> list[tuple[Any, ...]]:
    if tx.value("lane", "any", queue=queue):
        return _take_in_turns(tx, session, queue, room)
    found = tx.run("claim", "keyless", session=session.id, now=tx.now, queue=queue, room=room).fetchall()
    found.sort(key=_place)
    return found


def _place(row: tuple[Any, ...]) -> tuple[int, int, int]:
    return (-row[4], row[6], row[0])


def _take_in_turns(tx: Tx, session: Session, queue: str, room: int) -> list[tuple[Any, ...]]:
    """Whoever was served least recently comes first; jobs without a key are one group with its own turn."""
    taken: list[tuple[Any, ...]] = []
    turn, keyless = tx.run("queue", "turn", queue=queue).fetchone()
    while len(taken) < room:
        ready: list[tuple[str | None, int]] = tx.run("lane", "ready", queue=queue, limit=room - len(taken)).fetchall()
        if tx.value("claim", "keyless_waiting", queue=queue):
            ready = sorted([*ready, (None, keyless)], key=lambda entry: entry[1])[: room - len(taken)]
        if not ready:
            break
        for key, _ in ready:
            turn += 1
            if key is None:
                keyless = turn
                values: dict[str, Any] = {"room": 1}
                taken += tx.run("claim", "keyless", session=session.id, now=tx.now, queue=queue, **values)
            else:
                taken += tx.run("claim", "keyed", session=session.id, now=tx.now, queue=queue, key=key)
                lane.recheck(tx, queue, key, served=turn)
    tx.run("queue", "turns", queue=queue, turn=turn, keyless_turn=keyless)
    return taken


def _hand_out(tx: Tx, queue: str, rows: list[tuple[Any, ...]]) -> list[Claimed]:
    """Return what may start. What is past a lowered limit, or cannot be read, fails here instead."""
    handed = []
    for row in rows:
        try:
            job = _claimed(queue, row, tx.now)
        except msgspec.MsgspecError as error:
            _refuse(
                tx,
                row[0],
                Cause.CORRUPT,
                ErrorRecord(type="CorruptRecord", kind="corrupt", message=str(error)),
            )
            continue
        cause = None
        if job.counters is not _FRESH:
            policy = effective(tx.policy(queue, job.task), job.overrides)
            cause = spent(policy.retry, job.counters)
        if cause is None:
            handed.append(job)
        else:
            _refuse(tx, row[0], cause, job.last_error)
    return handed


def _refuse(tx: Tx, run: int, cause: Cause, error: ErrorRecord | None) -> None:
    """fail: a waiting job at its limit is over, its handler not run."""
    tx.run("claim", "undo", run=run)
    row = tx.job(run)
    assert row is not None
    error = error or ErrorRecord(type="LimitReached", kind=cause, message=f"the limit for {cause} was lowered")
    fail(tx, row, error, cause, ran=False)


def _claimed(queue: str, row: tuple[Any, ...], now: int) -> Claimed:
    (run, attempts, id, task, priority, key, run_at, enqueued_at, failures, stalls, timeouts, releases,
     overrides, headers, error, checkpoint, payload) = row  # fmt: skip
    if attempts == 1 and not (failures or stalls or timeouts or releases):
        counters = _FRESH
    else:
        counters = Counters(attempts=attempts, failures=failures, stalls=stalls, timeouts=timeouts, releases=releases)
    return Claimed(
        lease=Lease(queue, id, run, attempts),
        task=task,
        payload=payload,
        priority=priority,
        key=key,
        run_at_ms=run_at,
        enqueued_at_ms=enqueued_at,
        claimed_at_ms=now,
        counters=counters,
        headers=_headers(headers) if headers else {},
        overrides=_overrides(overrides) if overrides else None,
        last_error=_error(error) if error else None,
        checkpoint=checkpoint,
    )


def claimed_again(row: dict[str, Any]) -> Claimed:
    """Return a held job as its claim gave it, for a worker that asks what it holds."""
    columns = (
        "run", "attempts", "id", "task", "priority", "key", "run_at_ms", "enqueued_at_ms", "failures", "stalls",
        "timeouts", "releases", "overrides", "headers", "error", "checkpoint", "payload",
    )  # fmt: skip
    return _claimed(row["queue"], tuple(row[name] for name in columns), row["claimed_at_ms"])
