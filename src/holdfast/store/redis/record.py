"""Records as bytes, and what they mean. The Lua counterpart is `decode` and `encode` in `lua/record.lua`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgspec

from ...core.chain import OPEN, ChainRef
from ...core.event import Event
from ...core.job import ErrorRecord, JobRecord, Progress
from ...core.policy import Counters, Overrides
from ...core.state import State
from ..contract import Claimed, Lease
from .keys import long

_HEAD = struct.Struct(">cBHB6sI")
_LIFE = struct.Struct(">I7s7s7s7sB")
_RUN_AT, _PRIORITY, _LIFE_THERE, _RESULT, _REST, _LONG_TASK, _CHAIN = 1, 2, 4, 8, 16, 32, 64
EVENT = struct.Struct(">c6sI7s7sH6s6sH")
EVENT_FIELDS = ("letter", "run", "attempt", "when", "run_at", "priority", "wait", "ran", "task_size")
"""The fixed part of an event, which comes after its transition's name."""
STATES = {b"x" if state is State.CANCELLED else state[0].encode(): state for state in State}
LETTERS = {letter.decode(): state for letter, state in STATES.items()}
_FRESH = Counters(attempts=1)


class Rest(msgspec.Struct, frozen=True):
    """The part of a record that most jobs do without."""

    failures: int = 0
    stalls: int = 0
    timeouts: int = 0
    releases: int = 0
    ready_at: int | None = None
    cancel: bool = False
    past: bool = False
    requeued_as: int | None = None
    key: str | None = None
    headers: str | None = None
    overrides: str | None = None
    error: str | None = None
    progress: str | None = None
    checkpoint_size: int | None = None
    chain_state: str | None = None
    ended_at: int | None = None
    open: int = 0
    company: int | None = None


class Life(msgspec.Struct, frozen=True):
    """What a job gets once it is started."""

    attempts: int = 0
    claimed_at: int | None = None
    finished_at: int | None = None
    free_at: int | None = None
    expires_at: int | None = None
    session: str | None = None


class Record(msgspec.Struct, frozen=True):
    """A run's record, taken apart."""

    id: str
    task: str | None
    state: State
    priority: int
    enqueued_at: int
    run_at: int
    life: Life
    rest: Rest
    payload: bytes
    checkpoint: bytes | None
    result: bytes | None
    chain: ChainRef | None = None
    position: int = 0


_rest = msgspec.msgpack.Decoder(Rest).decode
_NO_REST, _NO_LIFE = Rest(), Life()
_overrides = msgspec.json.Decoder(Overrides).decode
_headers = msgspec.json.Decoder(dict[str, str]).decode
_error = msgspec.json.Decoder(ErrorRecord).decode
_from_bytes = int.from_bytes


def parse(raw: bytes) -> Record:
    """Return a record from its bytes."""
    letter, flags, id_size, task_size, enqueued, payload_size = _HEAD.unpack_from(raw)
    at, priority, life, rest = _HEAD.size, 0, _NO_LIFE, _NO_REST
    enqueued_at = run_at = _from_bytes(enqueued, "big")
    if flags & _RUN_AT:
        run_at = _from_bytes(raw[at : at + 7], "big")
        at += 7
    if flags & _PRIORITY:
        priority = _from_bytes(raw[at : at + 2], "big") - 1000
        at += 2
    home, position = None, 0
    if flags & _CHAIN:
        size = _from_bytes(raw[at : at + 2], "big")
        home, position = _parse_chain(raw[at + 2 : at + 2 + size])
        at += 2 + size
    if flags & _LIFE_THERE:
        life, at = _parse_life(raw, at)
    result_size = 0
    if flags & _RESULT:
        result_size = _from_bytes(raw[at : at + 4], "big")
        at += 4
    if flags & _REST:
        size = _from_bytes(raw[at : at + 4], "big")
        rest = _rest(raw[at + 4 : at + 4 + size])
        at += 4 + size
    if flags & _LONG_TASK:
        task_size = _from_bytes(raw[at : at + 2], "big")
        at += 2
    task_at = at + id_size
    payload_at = task_at + task_size
    result_at = len(raw) - result_size
    checkpoint_at = result_at - (rest.checkpoint_size or 0)
    if checkpoint_at - payload_at != payload_size:
        raise ValueError("it was cut off, or is longer than it should be")
    return Record(
        long(raw[at:task_at]),
        raw[task_at:payload_at].decode() if task_size else None,
        STATES[letter],
        priority,
        enqueued_at,
        run_at,
        life,
        rest,
        raw[payload_at:checkpoint_at],
        None if rest.checkpoint_size is None else raw[checkpoint_at:result_at],
        raw[result_at:] if flags & _RESULT else None,
        home,
        position,
    )


def _parse_chain(text: bytes) -> tuple[ChainRef, int]:
    head, _, run = text[4:].rpartition(b"\0")
    queue, _, id = head.partition(b"\0")
    return ChainRef(queue.decode(), id.decode(), int(run)), _from_bytes(text[:4], "big")


UNREADABLE = (ValueError, KeyError, IndexError, TypeError, struct.error, msgspec.MsgspecError)
"""What reading bytes that nobody of us wrote may raise."""


def parse_or_none(raw: bytes | None) -> Record | None:
    """The same, for what may be gone or damaged."""
    try:
        return None if raw is None else parse(raw)
    except UNREADABLE:
        return None


def is_gone(record: Record, now: int) -> bool:
    """True when its time is over, though nobody has removed it yet."""
    return record.life.expires_at is not None and record.life.expires_at <= now


def _parse_life(raw: bytes, at: int) -> tuple[Life, int]:
    attempts, claimed, finished, free, expires, exit_size = _LIFE.unpack_from(raw, at)
    at += 33 + exit_size
    size = _from_bytes(raw[at : at + 2], "big")
    life = Life(
        attempts,
        _from_bytes(claimed, "big") or None,
        _from_bytes(finished, "big") or None,
        _from_bytes(free, "big") or None,
        _from_bytes(expires, "big") or None,
        raw[at + 2 : at + 2 + size].decode() or None,
    )
    return life, at + 2 + size


def _counters(record: Record) -> Counters:
    attempts, rest = record.life.attempts, record.rest
    if attempts == 1 and rest is _NO_REST:
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
        headers=_headers(more.headers) if more.headers else {},
        overrides=_overrides(more.overrides) if more.overrides else None,
        last_error=_error(more.error) if more.error else None,
        checkpoint=record.checkpoint,
        timeout_ms=timeout_ms if timeout_ms >= 0 else None,
        chain=record.chain,
        position=record.position,
        company=more.company,
    )


def claimed_all(queue: str, flat: Sequence[Any], now: int) -> tuple[list[Claimed], list[int]]:
    """Return jobs from (run, record, time-out), one after the other; and the runs of those that cannot be read."""
    jobs, broken = [], []
    for rid, raw, timeout in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        run = rid if isinstance(rid, int) else _from_bytes(rid, "big")
        try:
            jobs.append(claimed(queue, run, raw, timeout, now))
        except UNREADABLE:
            broken.append(run)
    return jobs, broken


def decoded(text: str | bytes | None, type: Any) -> Any:
    """Return a JSON field; a damaged one must not hide the job from whoever looks for it."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=type)
    except (msgspec.MsgspecError, TypeError):
        return None


def seen(queue: str, run: int, record: Record, successor: bool, now: int) -> JobRecord:
    """Return a job as everybody else sees it."""
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
        headers=decoded(more.headers, dict[str, str]) or {},
        holds_id=not more.past and not free,
        expires_at_ms=life.expires_at,
        cancel_requested=more.cancel,
        successor=successor,
        chain=chain(queue, run, record),
        position=record.position,
        chain_state=None if more.chain_state is None else outcome(record),
        blockers=more.open if record.state is State.BLOCKED else 0,
        company=None if record.state.finished else more.company,
    )


def line(queue: str, run: int, record: Record, successor: bool, now: int) -> tuple[Any, ...]:
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
        more.progress, more.error, more.headers, record.payload, record.checkpoint, record.result,
    )  # fmt: skip


def chain(queue: str, run: int, record: Record) -> ChainRef | None:
    """Return the chain of a job: the one that it began, or belongs to."""
    if record.chain is not None:
        return record.chain
    return ChainRef(queue, record.id, run) if record.rest.chain_state else None


def outcome(record: Record) -> State:
    """Return where the chain stands that a job began; for one that did not continue, its own state."""
    state = record.rest.chain_state
    return record.state if state is None else State.ACTIVE if state == OPEN else State(state)


class Said(msgspec.Struct, frozen=True):
    """The part of an event that most do without."""

    counters: tuple[int, int, int, int] = (0, 0, 0, 0)
    key: str | None = None
    cause: str | None = None
    error_type: str | None = None
    signature: str | None = None
    message: str | None = None
    progress: float | None = None


said_in = msgspec.msgpack.Decoder(Said).decode
_NOTHING_SAID = Said()


def _word(raw: bytes, at: int) -> tuple[str, int]:
    size = _from_bytes(raw[at : at + 2], "big")
    return raw[at + 2 : at + 2 + size].decode(), at + 2 + size


def event(queue: str, position: str, fields: dict[bytes, bytes]) -> Event:
    """Return an event of the log."""
    raw = fields[b"e"]
    at = 1 + raw[0]
    transition = raw[1:at].decode()
    letter, run, attempt, when, run_at, priority, wait, ran, task_size = EVENT.unpack_from(raw, at)
    at += EVENT.size
    task = raw[at : at + task_size].decode()
    worker, at = _word(raw, at + task_size)
    said = said_in(raw[at:]) if at < len(raw) else _NOTHING_SAID
    failures, stalls, timeouts, releases = said.counters
    signature = said.signature
    if said.error_type and signature is None:  # an error that the store made itself
        signature = ErrorRecord(type=said.error_type, message=said.message or "").signature
    waited, took = _from_bytes(wait, "big"), _from_bytes(ran, "big")
    return Event(
        position=position,
        at_ms=_from_bytes(when, "big"),
        queue=queue,
        id=long(fields[b"i"]),
        run=_from_bytes(run, "big"),
        attempt=attempt,
        transition=transition,
        state=STATES.get(letter),
        cause=said.cause,
        task=task or None,
        worker=worker or None,
        key=said.key,
        priority=priority - 1000,
        run_at_ms=_from_bytes(run_at, "big"),
        counters=Counters(attempts=attempt, failures=failures, stalls=stalls, timeouts=timeouts, releases=releases),
        wait_ms=waited - 1 if waited else None,
        run_ms=took - 1 if took else None,
        error_type=said.error_type,
        error_signature=signature,
        progress=said.progress,
        message=said.message if transition == "progress" else None,
        payload=fields.get(b"p"),
    )


def event_or_none(queue: str, fields: dict[bytes, bytes]) -> Event | None:
    """The same, for an entry that may be damaged: `None` then."""
    try:
        return event(queue, "", fields)
    except UNREADABLE:
        return None
