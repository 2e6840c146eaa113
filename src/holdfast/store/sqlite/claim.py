"""promote and claim: due jobs take their place, and a worker gets what the limits allow."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
from msgspec.structs import replace

from ...core.job import ErrorRecord
from ...core.limit import Bucket, QueueSettings, next_token_ms, refill
from ...core.policy import Cause, Policy, effective, spent
from ..contract import Claimed, Lease, Session
from ..row import FRESH, claimed, corrupt
from . import lane, suspect
from .aside import note_job
from .column import Number
from .end import fail
from .tx import Tx

MOST_PROMOTED = 200
_DEFAULT = Policy()
_Row = tuple[
    int, Number, str, str | None, Number, str | None, Number, Number, Number, Number, Number, Number, str | None,
    str | None, str | None, str | None, str | None, str | None, str | None, int | None, int, Number | None,
]  # fmt: skip
_decode = msgspec.json.Decoder(list[_Row]).decode


class Offer(msgspec.Struct):
    """What a queue gave, and when it may give more."""

    claimed: list[Claimed]
    next_at_ms: int | None = None
    more: bool = False
    suspects: bool = False
    """One could be claimed, if the session held fewer jobs."""
    room: int = 0
    """How many jobs more the session may have; less than it asked for while it holds a suspect."""


def promote_due(tx: Tx, queue: str) -> None:
    """promote: jobs and lanes whose time has come may be claimed, a bounded number of them."""
    due = tx.run("promote", "due", queue=queue, now=tx.now, limit=MOST_PROMOTED).fetchall()
    if due:
        tx.append("promote", [run for run, _ in due])
        lane.recheck_all(tx, queue, {key for _, key in due})
    lane.promote_due(tx, queue, MOST_PROMOTED)


def claim(tx: Tx, session: Session, queue: str, room: int, held: int, only_suspects: bool) -> Offer:
    """claim: the session, which holds so many, has up to `room` jobs more."""
    settings = tx.queue(queue).settings
    if settings.paused:
        return Offer([], room=room)
    promote_due(tx, queue)
    allowed, bucket = _allowed(tx, queue, settings, room)
    suspects = suspect.take(tx, session, queue, allowed, held) if allowed > 0 else suspect.NONE
    claimed = _hand_out(tx, queue, _read(tx, suspects.runs))
    if suspects.runs:
        allowed, room = min(allowed, suspects.room), min(room, suspects.room)
    while (
        len(claimed) < allowed and not only_suspects
    ):  # more than once only when something that cannot start stood in front
        rows = _take(tx, session, queue, allowed - len(claimed))
        handed = _hand_out(tx, queue, rows)
        claimed += handed
        if len(handed) == len(rows):
            break
    if claimed:
        tx.append("claim", [job.lease.run for job in claimed])
    next_at = _next_at(tx, queue, suspects.next_at_ms)
    if bucket is not None:
        next_at = _pay(tx, queue, settings, bucket, len(claimed), next_at)
    if settings.concurrency is not None and tx.value("claim", "active", queue=queue) >= settings.concurrency:
        next_at = None  # only the end of a running job makes room, and that wakes whoever is parked
    more = len(claimed) == allowed == room
    return Offer(claimed, next_at, more=more, suspects=suspects.left, room=room - len(claimed))


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
    if _is_waiting(tx, queue):
        return token_at
    return None if next_at is None else max(next_at, token_at)


def _is_waiting(tx: Tx, queue: str) -> bool:
    return (
        bool(tx.value("claim", "keyless_waiting", queue=queue))
        or bool(tx.run("lane", "ready", queue=queue, limit=1).fetchone())
        or bool(tx.run("claim", "suspects", queue=queue, limit=1).fetchone())
    )


def _next_at(tx: Tx, queue: str, suspects_at: int | None) -> int | None:
    scheduled = tx.value("claim", "next_scheduled", queue=queue)
    timed = tx.value("lane", "next", queue=queue)
    known = [instant for instant in (scheduled, timed, suspects_at) if instant is not None]
    return min(known) if known else None


def _take(tx: Tx, session: Session, queue: str, room: int) -> list[list[Any]]:
    """Return the rows of jobs that are the session's now, in the order in which they are due."""
    if tx.value("lane", "any", queue=queue):
        runs = _take_in_turns(tx, session, queue, room)
    else:
        runs = msgspec.json.decode(tx.value("claim", "next", queue=queue, room=room))
        _hold(tx, session, runs)
    return _read(tx, runs)


def _read(tx: Tx, runs: list[int]) -> list[list[Any]]:
    """Return the rows of these jobs, in this order."""
    rows = {row[0]: row for row in _rows(tx, runs)} if runs else {}
    return [rows[run] for run in runs]


def _hold(tx: Tx, session: Session, runs: list[int]) -> None:
    tx.run("claim", "take", session=session.id, now=tx.now, runs=json.dumps(runs))


def _rows(tx: Tx, runs: list[int]) -> list[list[Any]]:
    """Read all rows as one, so that the interpreter lock changes hands once and not once for each."""
    rows: list[list[Any]] = [list(row) for row in _decode(tx.value("claim", "read", runs=json.dumps(runs)))]
    for row in rows:
        row[12:15] = [bytes.fromhex(blob) if blob else None for blob in row[12:15]]
        row[15] = None if row[15] is None else bytes.fromhex(row[15])
        row[16] = bytes.fromhex(row[16]) if row[16] is not None else _payload(tx, row[0])
    return rows


def _payload(tx: Tx, run: int) -> bytes:
    payload = tx.value("claim", "payload", run=run)
    if not isinstance(payload, bytes):
        raise TypeError(f"the payload of run {run} is {type(payload)}")
    return payload


def _take_in_turns(tx: Tx, session: Session, queue: str, room: int) -> list[int]:
    """Whoever was served least recently comes first; jobs without a key are one group with its own turn."""
    taken: list[int] = []
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
                runs = msgspec.json.decode(tx.value("claim", "next", queue=queue, room=1))
            else:
                found = tx.value("claim", "next_of_key", queue=queue, key=key)
                runs = [] if found is None else [found]
            _hold(tx, session, runs)
            taken += runs
            if key is not None:
                lane.recheck(tx, queue, key, served=turn if runs else 0)
    tx.run("queue", "turns", queue=queue, turn=turn, keyless_turn=keyless)
    return taken


def _hand_out(tx: Tx, queue: str, rows: list[list[Any]]) -> list[Claimed]:
    """Return what may start. What is past a lowered limit, or cannot be read, fails here instead."""
    handed = []
    policies = tx.queue(queue).policies
    for row in rows:
        try:
            run, attempts, id = row[:3]
            job = claimed(Lease(queue, id, run, attempts), tx.now, row[3:17], row[17:21], company=row[21])
        except msgspec.MsgspecError as error:
            _refuse(tx, row[0], Cause.CORRUPT, corrupt(error))
            note_job(tx, {"queue": queue, "id": row[2], "run": row[0]}, corrupt(error))
            continue
        policy = effective(policies.get(job.task or "", _DEFAULT), job.overrides)
        cause = (
            spent(policy.retry, job.counters, suspect=job.company is not None) if job.counters is not FRESH else None
        )
        if cause is None:
            handed.append(job if policy.timeout_ms is None else replace(job, timeout_ms=policy.timeout_ms))
        else:
            _refuse(tx, row[0], cause, job.last_error)
    return handed


def _refuse(tx: Tx, run: int, cause: Cause, error: ErrorRecord | None) -> None:
    """fail: a waiting job at its limit is over, its handler not run."""
    tx.run("claim", "undo", run=run)
    row = tx.job(run)
    assert row is not None
    if row["key"] is not None:
        tx.run("lane", "refund", queue=row["queue"], key=row["key"])
    error = error or ErrorRecord(type="LimitReached", kind=cause, message=f"the limit for {cause} was lowered")
    fail(tx, row, error, cause, exit=row["exit"] or "fail", ran=False)


def claimed_again(tx: Tx, row: dict[str, Any]) -> Claimed:
    """Return a held job as its claim gave it, for a worker that asks what it holds."""
    columns = (
        "task", "priority", "key", "run_at_ms", "enqueued_at_ms", "failures", "stalls",
        "timeouts", "releases", "overrides", "headers", "error", "checkpoint", "payload",
    )  # fmt: skip
    home = tx.run("chain", "ref", run=row["chain"]).fetchone() or (None, None, None)
    lease = Lease(row["queue"], row["id"], row["run"], row["attempts"])
    fields = [row[name] for name in columns]
    job = claimed(lease, row["claimed_at_ms"], fields, (*home, row["position"]), company=row["company"])
    return replace(job, timeout_ms=effective(tx.policy(row["queue"], row["task"]), job.overrides).timeout_ms)
