"""Records as bytes, and what they mean. The Lua counterpart is `decode` and `encode` in `lua/prelude.lua`."""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from ...core.event import Event
from ...core.job import ErrorRecord, JobRecord, Progress
from ...core.policy import Counters, Overrides
from ...core.state import State
from ..contract import Claimed, Lease
from .keys import long

_HEAD = struct.Struct(">cHHIH6s7s")
_STATES = {b"x" if state is State.CANCELLED else state[0].encode(): state for state in State}
LETTERS = {letter.decode(): state for letter, state in _STATES.items()}
_FRESH = Counters(attempts=1)


class More(msgspec.Struct, frozen=True):
    """The part of a record that most waiting jobs do without."""

    attempts: int = 0
    failures: int = 0
    stalls: int = 0
    timeouts: int = 0
    releases: int = 0
    session: str | None = None
    claimed_at: int | None = None
    ready_at: int | None = None
    finished_at: int | None = None
    free_at: int | None = None
    expires_at: int | None = None
    cancel: bool = False
    past: bool = False
    requeued_as: int | None = None
    key: str | None = None
    headers: str | None = None
    overrides: str | None = None
    error: str | None = None
    progress: str | None = None
    checkpoint_size: int | None = None
    result_size: int | None = None


class Record(msgspec.Struct, frozen=True):
    """A run's record, taken apart."""

    id: str
    task: str | None
    state: State
    priority: int
    enqueued_at: int
    run_at: int
    more: More
    payload: bytes
    checkpoint: bytes | None
    result: bytes | None


_more = msgspec.msgpack.Decoder(More).decode
_NO_MORE = More()
_overrides = msgspec.json.Decoder(Overrides).decode
_headers = msgspec.json.Decoder(dict[str, str]).decode
_error = msgspec.json.Decoder(ErrorRecord).decode
_from_bytes = int.from_bytes


def parse(raw: bytes) -> Record:
    """Return a record from its bytes."""
    letter, id_size, task_size, more_size, priority, enqueued, run_at = _HEAD.unpack_from(raw)
    at = 24 + id_size
    id = long(raw[24:at])
    task = None
    if task_size:
        task = raw[at : at + task_size].decode()
        at += task_size
    more = _NO_MORE
    if more_size:
        more = _more(raw[at : at + more_size])
        at += more_size
    result_at = len(raw) - (more.result_size or 0)
    checkpoint_at = result_at - (more.checkpoint_size or 0)
    return Record(
        id,
        task,
        _STATES[letter],
        priority - 1000,
        _from_bytes(enqueued, "big"),
        _from_bytes(run_at, "big"),
        more,
        raw[at:checkpoint_at],
        None if more.checkpoint_size is None else raw[checkpoint_at:result_at],
        None if more.result_size is None else raw[result_at:],
    )


def _counters(more: More) -> Counters:
    if more.attempts == 1 and not (more.failures or more.stalls or more.timeouts or more.releases):
        return _FRESH
    return Counters(
        attempts=more.attempts,
        failures=more.failures,
        stalls=more.stalls,
        timeouts=more.timeouts,
        releases=more.releases,
    )


def claimed(queue: str, run: int, raw: bytes, timeout_ms: int) -> Claimed:
    """Return a job as its worker gets it."""
    record = parse(raw)
    more = record.more
    return Claimed(
        lease=Lease(queue, record.id, run, more.attempts),
        task=record.task,
        payload=record.payload,
        priority=record.priority,
        key=more.key,
        run_at_ms=record.run_at,
        enqueued_at_ms=record.enqueued_at,
        claimed_at_ms=more.claimed_at or 0,
        counters=_counters(more),
        headers=_headers(more.headers) if more.headers else {},
        overrides=_overrides(more.overrides) if more.overrides else None,
        last_error=_error(more.error) if more.error else None,
        checkpoint=record.checkpoint,
        timeout_ms=timeout_ms if timeout_ms >= 0 else None,
    )


def decoded(text: str | bytes | None, type: Any) -> Any:
    """Return a JSON field; a damaged one must not hide the job from whoever looks for it."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=type)
    except msgspec.MsgspecError:
        return None


def seen(queue: str, run: int, record: Record, successor: bool, now: int) -> JobRecord:
    """Return a job as everybody else sees it."""
    more = record.more
    free = more.free_at is not None and more.free_at <= now
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
        started_at_ms=more.claimed_at,
        finished_at_ms=more.finished_at,
        counters=_counters(more),
        worker=more.session,
        result=record.result,
        error=decoded(more.error, ErrorRecord),
        progress=decoded(more.progress, Progress),
        checkpoint=record.checkpoint,
        headers=decoded(more.headers, dict[str, str]) or {},
        holds_id=not more.past and not free,
        expires_at_ms=more.expires_at,
        cancel_requested=more.cancel,
        successor=successor,
    )


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """An entry of the log as Lua writes it; `False` stands for nothing."""

    transition: str
    state: str | bool
    run: int
    attempt: int
    at: int
    task: str | bool = False
    run_at: int | bool = False
    priority: int | bool = 0
    key: str | bool = False
    worker: str | bool = False
    counters: tuple[int, int, int, int] | bool = False
    cause: str | bool = False
    wait: int | bool = False
    ran: int | bool = False
    error_type: str | bool = False
    signature: str | bool = False
    message: str | bool = False
    progress: float | bool = False


_entry = msgspec.msgpack.Decoder(Entry).decode


def _or_none(value: Any) -> Any:
    return None if value is False else value


def event(queue: str, position: str, fields: dict[bytes, bytes]) -> Event:
    """Return an event of the log."""
    entry = _entry(fields[b"e"])
    counted = entry.counters or (0, 0, 0, 0)
    assert not isinstance(counted, bool)
    failures, stalls, timeouts, releases = counted
    signature, message = _or_none(entry.signature), _or_none(entry.message)
    if entry.error_type and signature is None:  # an error that the store made itself
        signature = ErrorRecord(type=str(entry.error_type), message=message or "").signature
    return Event(
        position=position,
        at_ms=entry.at,
        queue=queue,
        id=long(fields[b"i"]),
        run=entry.run,
        attempt=entry.attempt,
        transition=entry.transition,
        state=State(entry.state) if isinstance(entry.state, str) else None,
        cause=_or_none(entry.cause),
        task=_or_none(entry.task),
        worker=_or_none(entry.worker),
        key=_or_none(entry.key),
        priority=int(entry.priority),
        run_at_ms=entry.at if entry.run_at is False else int(entry.run_at),
        counters=Counters(
            attempts=entry.attempt, failures=failures, stalls=stalls, timeouts=timeouts, releases=releases
        ),
        wait_ms=_or_none(entry.wait),
        run_ms=_or_none(entry.ran),
        error_type=_or_none(entry.error_type),
        error_signature=signature,
        progress=_or_none(entry.progress),
        message=message if entry.transition == "progress" else None,
        payload=fields.get(b"p"),
    )
