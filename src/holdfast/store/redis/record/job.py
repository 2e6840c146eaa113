"""Job records as bytes. The Lua counterpart is `decode` and `encode` in `lua/lib/record.lua`."""

from __future__ import annotations

import struct

import msgspec

from ....core.bound import LOWEST_PRIORITY
from ....core.chain import ChainRef
from ....core.state import LETTER, State
from ..keys import long

HEAD = struct.Struct(">cBHB6sI")
"""State, flags, the sizes of id and task, when it was taken in, and the size of the payload."""
_LIFE = struct.Struct(">I7s7s7s7sB")
_RUN_AT, _PRIORITY, _LIFE_THERE, _RESULT, REST, _LONG_TASK, _CHAIN = 1, 2, 4, 8, 16, 32, 64
LETTERS = {letter: state for state, letter in LETTER.items()}
STATES = {letter.encode(): state for letter, state in LETTERS.items()}
"""By the letter that records, events and messages have for it: each state."""


class JobRest(msgspec.Struct, frozen=True):
    """The part of a record that most jobs do without."""

    failures: int = 0
    stalls: int = 0
    timeouts: int = 0
    releases: int = 0
    snoozes: int = 0
    spared: int = 0
    ready_at: int | None = None
    cancel: bool = False
    past: bool = False
    requeued_as: int | None = None
    key: str | None = None
    envelope: str | None = None
    overrides: str | None = None
    error: str | None = None
    progress: str | None = None
    checkpoint_size: int | None = None
    chain_state: str | None = None
    ended_at: int | None = None
    open: int = 0
    company: int | None = None


class JobLife(msgspec.Struct, frozen=True):
    """What a job gets once it is started."""

    attempts: int = 0
    claimed_at: int | None = None
    finished_at: int | None = None
    free_at: int | None = None
    expires_at: int | None = None
    session: str | None = None


class RedisRecord(msgspec.Struct, frozen=True):
    """A run's record, taken apart."""

    id: str
    task: str | None
    state: State
    priority: int
    enqueued_at: int
    run_at: int
    life: JobLife
    rest: JobRest
    payload: bytes
    checkpoint: bytes | None
    result: bytes | None
    chain: ChainRef | None = None
    position: int = 0


_rest = msgspec.msgpack.Decoder(JobRest).decode
NO_REST, _NO_LIFE = JobRest(), JobLife()
_from_bytes = int.from_bytes


def parse(raw: bytes) -> RedisRecord:
    """Return a record from its bytes."""
    letter, flags, id_size, task_size, enqueued, payload_size = HEAD.unpack_from(raw)
    at, priority, life, rest = HEAD.size, 0, _NO_LIFE, NO_REST
    enqueued_at = run_at = _from_bytes(enqueued, "big")
    if flags & _RUN_AT:
        run_at = _from_bytes(raw[at : at + 7], "big")
        at += 7
    if flags & _PRIORITY:
        priority = _from_bytes(raw[at : at + 2], "big") + LOWEST_PRIORITY
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
    if flags & REST:
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
    return RedisRecord(
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
"""What reading bytes that Holdfast did not write may raise."""


def parse_or_none(raw: bytes | None) -> RedisRecord | None:
    """Return a record from its bytes; `None` when it is gone or damaged."""
    try:
        return None if raw is None else parse(raw)
    except UNREADABLE:
        return None


def is_gone(record: RedisRecord, now: int) -> bool:
    """True when its time is over, though it is not removed yet."""
    return record.life.expires_at is not None and record.life.expires_at <= now


def _parse_life(raw: bytes, at: int) -> tuple[JobLife, int]:
    attempts, claimed, finished, free, expires, exit_size = _LIFE.unpack_from(raw, at)
    at += 33 + exit_size
    size = _from_bytes(raw[at : at + 2], "big")
    life = JobLife(
        attempts,
        _from_bytes(claimed, "big") or None,
        _from_bytes(finished, "big") or None,
        _from_bytes(free, "big") or None,
        _from_bytes(expires, "big") or None,
        raw[at + 2 : at + 2 + size].decode() or None,
    )
    return life, at + 2 + size
