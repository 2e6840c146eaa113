"""Entries of the event log. The Lua counterpart is `append` in `lua/lib/log.lua`."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import msgspec

from ....core.action import OPERATE
from ....core.bound import LOWEST_PRIORITY
from ....core.envelope import EMPTY, readable
from ....core.event import Event
from ....core.job import ErrorRecord
from ....core.policy import Counters
from ....core.state import LETTER, State
from ....core.transition import TRANSITIONS
from ...rows import UNTROUBLED
from ..keys import long
from .job import STATES, UNREADABLE

EVENT = struct.Struct(">c6sI7s7sH6s6sH")
EVENT_FIELDS = ("letter", "run", "attempt", "when", "run_at", "priority", "wait", "ran", "task_size")
"""The fixed part of an event, which comes after its transition's name."""
TELLING = frozenset({"progress", OPERATE})
"""Events whose message is theirs, and not that of an error."""
SHORT_MARK = 128
"""How a short event begins: the `enqueue` of a job that waits from then on, of the usual priority. Run, when, task and
the rest follow."""
_SHORT_HEAD = b"\x07enqueue" + LETTER[State.WAITING].encode()
_SHORT_MIDDLE = (-LOWEST_PRIORITY).to_bytes(2, "big") + bytes(12)
NAMES = {name.encode(): name for name in TRANSITIONS}
_from_bytes = int.from_bytes


class EventRest(msgspec.Struct, frozen=True):
    """The part of an event that most do without."""

    counters: tuple[int, int, int, int] = (0, 0, 0, 0)
    key: str | None = None
    cause: str | None = None
    error_type: str | None = None
    signature: str | None = None
    message: str | None = None
    progress: float | None = None
    envelope: str | None = None
    actor: str | None = None


event_rest = msgspec.msgpack.Decoder(EventRest).decode
_NO_REST = EventRest()
_NEVER = bytes(6)
MOST_TAILS = 1000


def whole(raw: bytes) -> bytes:
    """Return an event with all of its fields, which a short one does without."""
    if raw[0] != SHORT_MARK:
        return raw
    when, task_end = raw[7:14], 16 + _from_bytes(raw[14:16], "big")
    if len(raw) < task_end:
        raise ValueError("it was cut off")
    head = _SHORT_HEAD + raw[1:7] + bytes(4) + when + when + _SHORT_MIDDLE
    return head + raw[14:task_end] + bytes(2) + raw[task_end:]


def _word(raw: bytes, at: int) -> tuple[str, int]:
    size = _from_bytes(raw[at : at + 2], "big")
    return raw[at + 2 : at + 2 + size].decode(), at + 2 + size


def _counters(attempts: int, rest: EventRest) -> Counters:
    if (rest is _NO_REST or rest.counters == _NO_REST.counters) and attempts < len(UNTROUBLED):
        return UNTROUBLED[attempts]
    failures, stalls, timeouts, releases = rest.counters
    return Counters(attempts=attempts, failures=failures, stalls=stalls, timeouts=timeouts, releases=releases)


class _Tails:
    """Task, worker and rest by how events end. Most end with the same bytes: those of a task and a worker."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int], tuple[str | None, str | None, EventRest]] = {}

    def of(self, raw: bytes, task_size: int) -> tuple[str | None, str | None, EventRest]:
        """Return what the end of an event says."""
        found = self._known.get((raw, task_size))
        if found is not None:
            return found
        worker, at = _word(raw, task_size)
        rest = event_rest(raw[at:]) if at < len(raw) else _NO_REST
        found = (raw[:task_size].decode() or None, worker or None, rest)
        if rest is _NO_REST:
            if len(self._known) >= MOST_TAILS:
                self._known.clear()
            self._known[raw, task_size] = found
        return found


_tails = _Tails()


def event(queue: str, position: str, fields: Mapping[bytes, bytes]) -> Event:
    """Return an event of the log."""
    raw = whole(fields[b"e"])
    at = 1 + raw[0]
    transition = NAMES.get(raw[1:at]) or raw[1:at].decode()
    letter, run, attempt, when, run_at, priority, wait, ran, task_size = EVENT.unpack_from(raw, at)
    task, worker, rest = _tails.of(raw[at + EVENT.size :], task_size)
    signature = rest.signature
    if rest.error_type and signature is None:  # an error that the store made itself
        signature = ErrorRecord(type=rest.error_type, message=rest.message or "").signature
    return Event(
        position=position,
        at_ms=_from_bytes(when, "big"),
        queue=queue,
        id=long(fields[b"i"]),
        run=_from_bytes(run, "big"),
        attempt=attempt,
        transition=transition,
        state=STATES.get(letter),
        cause=rest.cause,
        task=task,
        worker=worker,
        key=rest.key,
        priority=priority + LOWEST_PRIORITY,
        run_at_ms=None if transition == OPERATE else _from_bytes(run_at, "big"),
        counters=_counters(attempt, rest),
        wait_ms=None if wait == _NEVER else _from_bytes(wait, "big") - 1,
        run_ms=None if ran == _NEVER else _from_bytes(ran, "big") - 1,
        error_type=rest.error_type,
        error_signature=signature,
        progress=rest.progress,
        message=rest.message if transition in TELLING else None,
        payload=fields.get(b"p"),
        envelope=readable(rest.envelope) if rest.envelope else EMPTY,
        actor=rest.actor,
    )


def event_or_none(queue: str, fields: Mapping[bytes, bytes]) -> Event | None:
    """Return an event of the log; `None` when its entry is damaged."""
    try:
        return event(queue, "", fields)
    except UNREADABLE:
        return None
