"""claim: a worker gets what the limits allow; what is past its own limit fails here instead."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

from .....core.chain import ChainRef
from .....core.envelope import EMPTY, opened
from .....core.job import ErrorRecord
from .....core.policy import Cause, Counters, Overrides, Policy, effective, spent
from ....contract import Claimed, Lease, Session
from ....rows import FRESH, corrupt
from ...repair.columns import Number
from ...repair.note import note_job
from ...tx import Tx
from ..fail import fail
from ..fast.claim import take_plain
from . import limit, suspect
from .promote import promote_due
from .turns import take_in_turns

_DEFAULT = Policy()
_decode_overrides = msgspec.json.Decoder(Overrides).decode
_decode_error = msgspec.json.Decoder(ErrorRecord).decode


class Offer(msgspec.Struct):
    """What a queue gave, and when it may give more."""

    claimed: list[Claimed]
    next_at_ms: int | None = None
    more: bool = False
    suspects: bool = False
    """One could be claimed, if the session held fewer jobs."""
    room: int = 0
    """How many jobs more the session may have; less than it asked for while it holds a suspect."""


def claim(tx: Tx, session: Session, queue: str, room: int, held: int, only_suspects: bool) -> Offer:
    """Claim up to `room` jobs for a session that holds `held` already."""
    view = tx.queue(queue)
    settings = view.settings
    if settings.paused:
        return Offer([], room=room)
    if tx.value("promote", "any_due", queue=queue, now=tx.now):
        promote_due(tx, queue)
    allowed, bucket = limit.allowed(tx, queue, settings, room) if view.limited else (room, None)
    jobs: list[Claimed] = []
    suspects = suspect.NONE
    if allowed > 0 and tx.value("claim", "any_suspect", queue=queue):
        suspects = suspect.take_suspects(tx, session, queue, allowed, held)
    if suspects.runs:
        jobs = _start(tx, queue, read_rows(tx, suspects.runs))
        allowed, room = min(allowed, suspects.room), min(room, suspects.room)
    while len(jobs) < allowed and not only_suspects:
        runs = _take(tx, session, queue, allowed - len(jobs))
        started = _start(tx, queue, read_rows(tx, runs))
        jobs += started
        if len(started) == len(runs):  # else a job that could not start stood in front
            break
    if jobs:
        tx.append("claim", [job.lease.run for job in jobs])
    next_at = _next_at(tx, queue, suspects.next_at_ms)
    if bucket is not None:
        next_at = limit.pay(tx, queue, settings, bucket, len(jobs), next_at)
    if settings.concurrency is not None and tx.value("claim", "active", queue=queue) >= settings.concurrency:
        next_at = None  # only the end of a running job makes room, and that wakes a parked worker
    more = len(jobs) == allowed == room
    return Offer(jobs, next_at, more=more, suspects=suspects.left, room=room - len(jobs))


def _take(tx: Tx, session: Session, queue: str, room: int) -> list[int]:
    """Take up to `room` jobs for the session; return their runs in the order in which they are due."""
    runs = take_plain(tx, session, queue, room)
    return take_in_turns(tx, session, queue, room) if runs is None else runs


def _next_at(tx: Tx, queue: str, suspects_at: int | None) -> int | None:
    scheduled = tx.value("claim", "next_scheduled", queue=queue)
    timed = tx.value("lane", "next", queue=queue)
    known = [instant for instant in (scheduled, timed, suspects_at) if instant is not None]
    return min(known) if known else None


def _start(tx: Tx, queue: str, rows: list[ClaimRow]) -> list[Claimed]:
    """Return the jobs that may start. What is past a lowered limit, or cannot be read, fails here instead."""
    jobs = []
    policies = tx.queue(queue).policies
    for row in rows:
        try:
            job, policy = claimed(tx, queue, row, policies)
        except msgspec.MsgspecError as error:
            _fail_unstarted(tx, row.run, Cause.CORRUPT, corrupt(error))
            note_job(tx, queue, row.id, row.run, corrupt(error))
            continue
        cause = None if job.counters is FRESH else _spent(policy, job)
        if cause is None:
            jobs.append(job)
        else:
            _fail_unstarted(tx, row.run, cause, job.last_error)
    return jobs


def _spent(policy: Policy, job: Claimed) -> Cause | None:
    """Return the cause whose limit a job had reached before this attempt."""
    tried = job.lease.attempt - 1 - job.spared
    return spent(policy.retry, job.counters, suspect=job.company is not None, snoozes=job.snoozes, tried=tried)


def _fail_unstarted(tx: Tx, run: int, cause: Cause, error: ErrorRecord | None) -> None:
    """Take a claim back, and fail the job without running its handler."""
    tx.run("claim", "undo", run=run)
    row = tx.job(run)
    assert row is not None
    tx.moved(row["queue"], "active", "waiting")
    if row["key"] is not None:
        tx.run("lane", "refund", queue=row["queue"], key=row["key"])
    error = error or ErrorRecord(type="LimitReached", kind=cause, message=f"the limit for {cause} was lowered")
    fail(tx, row, error, cause, exit=row["exit"] or "fail", ran=False)


# --- what a worker gets of a job


class ClaimRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A row of `claim.read`, in the order of its columns. Bytes are in hex."""

    run: int
    attempts: Number
    id: str
    task: str | None
    priority: Number
    key: str | None
    run_at_ms: Number
    enqueued_at_ms: Number
    claimed_at_ms: Number
    failures: Number
    stalls: Number
    timeouts: Number
    releases: Number
    snoozes: Number
    spared: Number
    company: Number | None
    overrides: str
    envelope: str
    error: str
    checkpoint: str | None
    payload: str | None
    """`None` for a large one, which is read on its own."""
    chain_queue: str | None
    chain_id: str | None
    chain_run: int | None
    position: int


_decode_rows = msgspec.json.Decoder(list[ClaimRow]).decode


def read_rows(tx: Tx, runs: list[int]) -> list[ClaimRow]:
    """Return the rows of these runs, in this order.

    They are read as one text, so that the interpreter lock changes hands once and not once for each.
    """
    if not runs:
        return []
    rows = {row.run: row for row in _decode_rows(tx.value("claim", "read", runs=json.dumps(runs)))}
    return [rows[run] for run in runs]


def claimed(tx: Tx, queue: str, row: ClaimRow, policies: Mapping[str, Policy]) -> tuple[Claimed, Policy]:
    """Return a job as its worker gets it, and its policy with its overrides; raise `msgspec.MsgspecError`."""
    overrides = _decode_overrides(bytes.fromhex(row.overrides)) if row.overrides else None
    policy = policies.get(row.task or "", _DEFAULT)
    if overrides is not None:
        policy = effective(policy, overrides)
    job = Claimed(
        lease=Lease(queue, row.id, row.run, row.attempts),
        task=row.task,
        payload=_payload(tx, row.run) if row.payload is None else bytes.fromhex(row.payload),
        priority=row.priority,
        key=row.key,
        run_at_ms=row.run_at_ms,
        enqueued_at_ms=row.enqueued_at_ms,
        claimed_at_ms=row.claimed_at_ms,
        counters=_counters(row),
        envelope=opened(bytes.fromhex(row.envelope)) if row.envelope else EMPTY,
        overrides=overrides,
        last_error=_decode_error(bytes.fromhex(row.error)) if row.error else None,
        checkpoint=None if row.checkpoint is None else bytes.fromhex(row.checkpoint),
        timeout_ms=policy.timeout_ms,
        chain=None if row.chain_id is None else ChainRef(row.chain_queue or "", row.chain_id, row.chain_run or 0),
        position=row.position,
        snoozes=row.snoozes,
        spared=row.spared,
        company=row.company,
    )
    return job, policy


def _counters(row: ClaimRow) -> Counters:
    if row.attempts == 1 and not (row.failures or row.stalls or row.timeouts or row.releases):
        return FRESH
    return Counters(
        attempts=row.attempts,
        failures=row.failures,
        stalls=row.stalls,
        timeouts=row.timeouts,
        releases=row.releases,
    )


def _payload(tx: Tx, run: int) -> bytes:
    payload = tx.value("claim", "payload", run=run)
    if not isinstance(payload, bytes):
        raise TypeError(f"the payload of run {run} is {type(payload)}")
    return payload
