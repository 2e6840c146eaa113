"""Entry points that read, and those of operators and listeners."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from .entry import DRAINS, READS, Flat, ServerCall
from .produce import RunArguments


class GetReply(NamedTuple):
    """A run, its record, whether a successor waits for its end, and the time."""

    run: int
    record: bytes
    successor: int | None
    now: int


class GetCall(ServerCall[GetReply | None]):
    """Return the run that answers for an id, or a given run of it."""

    reply, flag = GetReply, READS
    id: bytes
    run: int | None


class FetchReply(NamedTuple):
    """The time, and the records as they stand."""

    now: int
    records: list[bytes | None]


class FetchCall(ServerCall[FetchReply]):
    """Return the records of some runs."""

    reply, flag, takes = FetchReply, READS, (RunArguments,)


class RecordFields(NamedTuple):
    """A run that is there, its record, and whether a successor waits for its end."""

    run: int
    record: bytes
    successor: int


class SearchReply(NamedTuple):
    """The time, the last run that was looked at (0: there are no more), when its job was taken in, how many records
    were looked at, and what matches."""

    now: int
    below: int
    oldest: int | None
    seen: int
    records: Flat


class SearchFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the server looks at to tell whether a record matches. `states` are letters."""

    states: str | None = None
    task: str | None = None
    key: str | None = None
    prefix: str | None = None
    signature: str | None = None
    after: int | None = None
    before: int | None = None
    fresh: bool = False
    """It was not requeued."""
    word: str | None = None
    """Somewhere in the record stands this, or it does not match."""


class SearchCall(ServerCall[SearchReply]):
    """Return those of some runs that match, or those of the newest `most` below a run, up to `limit` of them.

    `which` is a `SearchFilter` as JSON; `bare` gives no records, but of those that only a client can judge.
    """

    reply, flag, takes, gives = SearchReply, READS, (RunArguments,), (RecordFields,)
    below: int
    most: int
    limit: int
    bare: bool
    which: bytes


class RunsCall(ServerCall[Flat | None]):
    """Return all runs in some states, or without any all that there are; nothing when there are more than `most`."""

    reply, flag = list, READS
    states: str | None
    most: int


class PlacedCall(ServerCall[Flat | None]):
    """Return places of the jobs of one state below a place: an instant and a run for each, in their order.

    Nothing, where those that wait have more keys than `most_lanes`.
    """

    reply, flag = list, READS
    state: str
    at: int
    run: int
    most: int
    most_lanes: int


class KeyArguments(NamedTuple):
    """A concurrency key."""

    key: str


class LaneFields(NamedTuple):
    """One key: its jobs, its limit and its bucket."""

    key: bytes
    waiting: int
    active: int
    own_limit: int | None
    ready_at: int | None
    cooling: int
    tokens: bytes | None
    tokens_at: int | None
    oldest: int | None


class LanesReply(NamedTuple):
    """The time, the settings of the queue, and its keys."""

    now: int
    settings: bytes
    lanes: Flat


class LanesCall(ServerCall[LanesReply | None]):
    """Return these keys of a queue, or those among which a list in an order chooses."""

    reply, flag, takes, gives = LanesReply, READS, (KeyArguments,), (LaneFields,)
    order: str


class MeasureReply(NamedTuple):
    """The time, the keys at their limit, when the first scheduled job is due, and the log with its readers."""

    now: int
    keys_at_limit: int
    due: int | None
    events: int
    newest: int | None
    readers: Flat


class MeasureCall(ServerCall[MeasureReply]):
    """Return what of a queue grows and is late."""

    reply, flag = MeasureReply, READS


class DependantFields(NamedTuple):
    """A job that waits for a chain."""

    queue: bytes
    run: int
    id: bytes


class DependantsReply(NamedTuple):
    """How many wait, and the first of them."""

    total: int
    dependants: Flat


class DependantsCall(ServerCall[DependantsReply]):
    """Return who waits for the chain that a run of this queue began."""

    reply, flag, gives = DependantsReply, READS, (DependantFields,)
    rid: bytes
    limit: int


class PendingCall(ServerCall[int]):
    """Say whether a job waits to be claimed, or, once started, for another attempt."""

    reply, flag = int, READS


class QueueReply(NamedTuple):
    """The settings, limits, workers and counts of a queue."""

    settings: bytes
    operator: bytes
    limits: list[bytes]
    workers: int
    oldest: int | None
    waiting: int
    scheduled: int
    active: int
    completed: int
    failed: int
    cancelled: int
    blocked: int


class QueueCall(ServerCall[QueueReply | None]):
    """Return a queue at a glance."""

    reply, flag = QueueReply, READS


class SessionFields(NamedTuple):
    """One session in one queue."""

    id: bytes
    info: bytes
    started_at: int
    heard_at: int
    expires_at: int
    dead: int | None
    active: int
    memory: int | None
    command: bytes | None


class SessionsReply(NamedTuple):
    """The time, and the sessions."""

    now: int
    sessions: list[Flat]


class SessionsCall(ServerCall[SessionsReply]):
    """Return the sessions of a queue."""

    reply, flag, gives = SessionsReply, READS, (SessionFields,)


class KeepForReaderCall(ServerCall[bytes]):
    """Keep what a named reader of the log has still to read, from an event on; without one, keep nothing for it."""

    queue: str
    reader: str
    sequence: str | None


class MembersCall(ServerCall[Flat]):
    """Return the runs of a chain that are in this queue, without its first."""

    reply, flag = list, READS
    chain_queue: str
    chain_id: str
    chain_run: int


class BlockerFields(NamedTuple):
    """What a run waits for, or waited for, and how that ended."""

    queue: bytes
    id: bytes
    run: int | None
    state: bytes | None
    last_queue: bytes | None
    last_task: bytes | None
    error: bytes | None
    result: bytes | None


class BlockersCall(ServerCall[Flat]):
    """Return what a run waits for, or waited for."""

    reply, flag, gives = list, READS, (BlockerFields,)
    rid: bytes


class ScheduleFields(NamedTuple):
    """A schedule: its name, its revision and body, and when it is due (-1: never)."""

    name: bytes
    stored: bytes
    next_at: int


class SchedulesCall(ServerCall[Flat]):
    """Return all schedules of a queue, or the one that is named."""

    reply, flag, gives = list, READS, (ScheduleFields,)
    name: str | None


class DueReply(NamedTuple):
    """The time, the next tick after it, and the schedules that are due."""

    now: int
    next_at: int | None
    schedules: Flat


class DueCall(ServerCall[DueReply]):
    """Return the schedules that are due."""

    reply, flag, gives = DueReply, READS, (ScheduleFields,)
    limit: int


class WriteArguments(NamedTuple):
    """One field of a hash of the queue; an empty value removes it."""

    where: str
    field: str
    value: bytes


class OperateCall(ServerCall[bytes]):
    """Write settings and policies, if the queue still has the revision on which they were decided.

    Then the lanes of `all` keys, or of `one`, are checked, and workers are woken for so many jobs (-1: all).
    `action` is what the log says of it, as JSON.
    """

    flag, takes = DRAINS, (WriteArguments,)
    queue: str
    revision: str
    wake: int
    recheck: str
    key: str | None
    action: str | None
    count: int


class WatchCall(ServerCall[bytes]):
    """Notify an address when a run is over."""

    flag = DRAINS
    id: bytes
    run: int
    address: str


class UnwatchCall(ServerCall[bytes]):
    """Notify an address no longer."""

    flag = DRAINS
    id: bytes
    run: int
    address: str


ENTRIES = (
    GetCall, FetchCall, SearchCall, RunsCall, PlacedCall, LanesCall, MeasureCall, DependantsCall, PendingCall,
    QueueCall, SessionsCall, KeepForReaderCall, MembersCall, BlockersCall, SchedulesCall, DueCall,
    OperateCall, WatchCall, UnwatchCall,
)  # fmt: skip
