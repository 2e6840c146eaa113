"""Job records as workers and readers see them."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ....core.chain import OPEN, ChainRef
from ....core.envelope import EMPTY, opened, readable
from ....core.job import ErrorRecord, JobRecord, Progress
from ....core.policy import Counters, Overrides
from ....core.state import State
from ...contract import Claimed, Lease
from ..arguments.entry import Flat, in_groups
from ..arguments.work import ClaimedFields
from .job import NO_REST, UNREADABLE, RedisRecord, parse
from .plain import plain_claimed

T = TypeVar("T")
_FRESH = Counters(attempts=1)
_overrides = msgspec.json.Decoder(Overrides).decode
_error = msgspec.json.Decoder(ErrorRecord).decode


def _counters(record: RedisRecord) -> Counters:
    attempts, rest = record.life.attempts, record.rest
    if attempts == 1 and rest is NO_REST:
        return _FRESH
    return Counters(
        attempts=attempts,
        failures=rest.failures,
        stalls=rest.stalls,
        timeouts=rest.timeouts,
        releases=rest.releases,
    )


def claimed(queue: str, run: int, raw: bytes, timeout_ms: int, now: int) -> Claimed:
    """Return a job as its worker gets it. One that never ran comes as it was, and starts for the first time now."""
    record = parse(raw)
    more, life = record.rest, record.life
    return Claimed(
        lease=Lease(queue, record.id, run, life.attempts or 1),
        task=record.task,
        payload=record.payload,
        priority=record.priority,
        key=more.key,
        run_at_ms=record.run_at,
        enqueued_at_ms=record.enqueued_at,
        claimed_at_ms=life.claimed_at or now,
        counters=_counters(record) if life.attempts else _FRESH,
        envelope=opened(more.envelope) if more.envelope else EMPTY,
        overrides=_overrides(more.overrides) if more.overrides else None,
        last_error=_error(more.error) if more.error else None,
        checkpoint=record.checkpoint,
        timeout_ms=timeout_ms if timeout_ms >= 0 else None,
        chain=record.chain,
        position=record.position,
        snoozes=more.snoozes,
        spared=more.spared,
        company=more.company,
    )


def claimed_all(queue: str, flat: Flat, now: int) -> tuple[list[Claimed], list[int]]:
    """Return jobs from (run, record, time-out), one after the other; and the runs of those that cannot be read."""
    jobs, broken = [], []
    for rid, raw, timeout in in_groups(flat, ClaimedFields):
        run = rid if isinstance(rid, int) else int.from_bytes(rid, "big")
        try:
            job = plain_claimed(queue, run, raw, timeout, now)
            jobs.append(claimed(queue, run, raw, timeout, now) if job is None else job)
        except UNREADABLE:
            broken.append(run)
    return jobs, broken


def decoded(text: str | bytes | None, type: type[T]) -> T | None:
    """Return a JSON field; a damaged one is none, and does not hide the job from its readers."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=type)
    except (msgspec.MsgspecError, TypeError):
        return None


def job_record(queue: str, run: int, record: RedisRecord, successor: bool, now: int) -> JobRecord:
    """Return a job as readers see it."""
    more, life = record.rest, record.life
    free = life.free_at is not None and life.free_at <= now
    return JobRecord(
        queue=queue,
        id=record.id,
        run=run,
        task=record.task,
        state=record.state,
        payload=record.payload,
        priority=record.priority,
        key=more.key,
        run_at_ms=record.run_at,
        enqueued_at_ms=record.enqueued_at,
        started_at_ms=life.claimed_at,
        finished_at_ms=life.finished_at,
        counters=_counters(record),
        worker=life.session,
        result=record.result,
        error=decoded(more.error, ErrorRecord),
        progress=decoded(more.progress, Progress),
        checkpoint=record.checkpoint,
        envelope=readable(more.envelope),
        holds_id=not more.past and not free,
        expires_at_ms=life.expires_at,
        cancel_requested=more.cancel,
        successor=successor,
        chain=chain(queue, run, record),
        position=record.position,
        chain_state=None if more.chain_state is None else outcome(record),
        blockers=more.open if record.state is State.BLOCKED else 0,
        snoozes=more.snoozes,
        company=None if record.state.finished else more.company,
    )


def row(queue: str, run: int, record: RedisRecord, successor: bool, now: int) -> tuple[object, ...]:
    """Return a job as a row of `JOB_COLUMNS`."""
    more, life = record.rest, record.life
    free = life.free_at is not None and life.free_at <= now
    home = chain(queue, run, record)
    return (
        queue, record.id, run, record.task, str(record.state), record.priority, more.key, record.run_at,
        record.enqueued_at, life.claimed_at, life.finished_at, life.expires_at, life.attempts, more.failures,
        more.stalls, more.timeouts, more.releases, life.session, not more.past and not free, more.cancel, successor,
        *((home.queue, home.id, home.run) if home else (None, None, None)), record.position,
        None if more.chain_state is None else str(outcome(record)), more.open if record.state is State.BLOCKED else 0,
        more.progress, more.error, more.envelope, record.payload, record.checkpoint, record.result,
    )  # fmt: skip


def chain(queue: str, run: int, record: RedisRecord) -> ChainRef | None:
    """Return the chain of a job: the one that it began, or belongs to."""
    if record.chain is not None:
        return record.chain
    return ChainRef(queue, record.id, run) if record.rest.chain_state else None


def outcome(record: RedisRecord) -> State:
    """Return where the chain stands that a job began; for one that did not continue, its own state."""
    state = record.rest.chain_state
    return record.state if state is None else State.ACTIVE if state == OPEN else State(state)
